//! std's mutex and condition variable, without poisoning; without std, a spinning mutex.

use core::ops::{Deref, DerefMut};

#[cfg(not(feature = "std"))]
use spin as inner;
#[cfg(feature = "std")]
use std::sync as inner;

/// A lock around data, for short critical sections.
///
/// Without std, a waiting thread spins and burns its core. A handler that interrupts the holder and
/// locks the mutex spins for ever.
///
/// A panic while the mutex is held does not poison it. So callers keep their data valid at every
/// step, or repair it with a guard of their own.
#[derive(Debug, Default)]
pub struct Mutex<T>(inner::Mutex<T>);

impl<T> Mutex<T> {
    /// Returns a mutex around `value`.
    pub const fn new(value: T) -> Self {
        Mutex(inner::Mutex::new(value))
    }

    /// Blocks until the mutex is unlocked, and locks it.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        #[cfg(feature = "std")]
        let guard = (self.0.lock()).unwrap_or_else(|poisoned| poisoned.into_inner());
        #[cfg(not(feature = "std"))]
        let guard = self.0.lock();
        MutexGuard(guard)
    }

    /// Returns the data without locking: `&mut` proves that no other thread has access.
    pub fn get_mut(&mut self) -> &mut T {
        #[cfg(feature = "std")]
        let value = (self.0.get_mut()).unwrap_or_else(|poisoned| poisoned.into_inner());
        #[cfg(not(feature = "std"))]
        let value = self.0.get_mut();
        value
    }
}

/// A lock around data, whose holder may sleep: here, an ordinary [`Mutex`].
pub type BlockingMutex<T> = Mutex<T>;

/// Access to the data of a [`Mutex`], which stays locked until this guard is dropped.
#[derive(Debug)]
#[must_use = "dropping the guard at once unlocks the mutex"]
pub struct MutexGuard<'a, T>(inner::MutexGuard<'a, T>);

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
/// For slow paths of code that already holds a mutex. Locks wait with [`crate::wait`] instead:
/// stock loom reports false deadlocks when a model mixes both on one word.
#[cfg(feature = "std")]
#[derive(Debug, Default)]
pub struct Condvar(inner::Condvar);

#[cfg(feature = "std")]
impl Condvar {
    /// Returns a condition variable without waiters.
    pub fn new() -> Self {
        Condvar(inner::Condvar::new())
    }

    /// Unlocks the mutex, sleeps until notified, and locks the mutex again. May return spuriously,
    /// so the caller rechecks its condition.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        let guard = self.0.wait(guard.0);
        MutexGuard(guard.unwrap_or_else(|poisoned| poisoned.into_inner()))
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes every waiter.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
