//! A mutex and a condition variable, without poisoning.

use core::ops::{Deref, DerefMut};

#[cfg(any(spanlock_loom, spanlock_shuttle))]
use crate::footprint::{self, Access};
#[cfg(spanlock_loom)]
use loom::sync as world;
#[cfg(spanlock_shuttle)]
use shuttle::sync as world;
#[cfg(not(feature = "std"))]
use spin as world;
#[cfg(all(feature = "std", not(any(spanlock_loom, spanlock_shuttle))))]
use std::sync as world;

/// A short lock around data. Without std it spins: whoever waits for it burns a core, and so does a handler that interrupts the
/// holder, for ever.
///
/// A panic while it is held does not poison it: callers keep their data valid at every step, or repair it
/// by a guard of their own.
#[derive(Debug, Default)]
pub struct Mutex<T>(
    world::Mutex<T>,
    #[cfg(any(spanlock_loom, spanlock_shuttle))] footprint::Object,
);

impl<T> Mutex<T> {
    /// A mutex around `value`.
    #[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
    pub const fn new(value: T) -> Self {
        Mutex(world::Mutex::new(value))
    }

    /// A mutex around `value`.
    #[cfg(any(spanlock_loom, spanlock_shuttle))]
    pub fn new(value: T) -> Self {
        Mutex(
            world::Mutex::new(value),
            #[cfg(any(spanlock_loom, spanlock_shuttle))]
            footprint::Object::new(),
        )
    }

    /// Locks, blocking until it can.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        #[cfg(any(spanlock_loom, spanlock_shuttle))]
        self.1.about_to_lock();
        #[cfg(feature = "std")]
        let guard = (self.0.lock()).unwrap_or_else(|poisoned| poisoned.into_inner());
        #[cfg(not(feature = "std"))]
        let guard = self.0.lock();
        MutexGuard(
            guard,
            #[cfg(any(spanlock_loom, spanlock_shuttle))]
            Locked::new(&self.1),
        )
    }

    /// The data, without locking: `&mut` proves that nobody else has it.
    #[cfg(not(spanlock_loom))]
    pub fn get_mut(&mut self) -> &mut T {
        #[cfg(feature = "std")]
        let value = (self.0.get_mut()).unwrap_or_else(|poisoned| poisoned.into_inner());
        #[cfg(not(feature = "std"))]
        let value = self.0.get_mut();
        value
    }
}

/// Proof that a [`Mutex`] is locked, and the way to its data.
#[derive(Debug)]
#[must_use = "dropping the guard at once unlocks the mutex"]
pub struct MutexGuard<'a, T>(
    world::MutexGuard<'a, T>,
    #[cfg(any(spanlock_loom, spanlock_shuttle))] Locked<'a>,
);

/// Notes in a mutex's footprints that it was locked, and, dropped after the guard, that it was unlocked.
#[cfg(any(spanlock_loom, spanlock_shuttle))]
#[derive(Debug)]
struct Locked<'a>(&'a footprint::Object);

#[cfg(any(spanlock_loom, spanlock_shuttle))]
impl<'a> Locked<'a> {
    #[track_caller]
    fn new(object: &'a footprint::Object) -> Self {
        crate::check::trace("Lock");
        object.touch(Access::Lock);
        Locked(object)
    }
}

#[cfg(any(spanlock_loom, spanlock_shuttle))]
impl Drop for Locked<'_> {
    fn drop(&mut self) {
        crate::check::trace("Unlock");
        self.0.touch_behind(Access::Unlock);
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// A condition variable for one [`Mutex`].
///
/// For slow paths of code that already holds a mutex. Locks wait by [`crate::wait`] instead: stock loom
/// reports false deadlocks when a model mixes both on one word.
#[cfg(feature = "std")]
#[derive(Debug, Default)]
pub struct Condvar(world::Condvar);

#[cfg(feature = "std")]
impl Condvar {
    /// A condition variable that nobody waits for.
    pub fn new() -> Self {
        Condvar(world::Condvar::new())
    }

    /// Unlocks, sleeps until notified, locks again. May return without a notification: look again.
    #[track_caller]
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        #[cfg(any(spanlock_loom, spanlock_shuttle))]
        let object = {
            footprint::touch_unknown();
            let object = guard.1.0;
            drop(guard.1);
            object
        };
        let guard = (self.0.wait(guard.0)).unwrap_or_else(|poisoned| poisoned.into_inner());
        MutexGuard(
            guard,
            #[cfg(any(spanlock_loom, spanlock_shuttle))]
            Locked::new(object),
        )
    }

    /// Wakes one waiter.
    #[track_caller]
    pub fn notify_one(&self) {
        self.0.notify_one();
        #[cfg(any(spanlock_loom, spanlock_shuttle))]
        footprint::touch_unknown();
    }

    /// Wakes every waiter.
    #[track_caller]
    pub fn notify_all(&self) {
        self.0.notify_all();
        #[cfg(any(spanlock_loom, spanlock_shuttle))]
        footprint::touch_unknown();
    }
}
