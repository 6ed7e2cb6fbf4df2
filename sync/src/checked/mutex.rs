//! The checker's mutex and condition variable.

use core::ops::{Deref, DerefMut};

#[cfg(spanlock_explorer)]
use super::explorer::mutex as inner;
#[cfg(spanlock_loom)]
use loom::sync as inner;
#[cfg(spanlock_shuttle)]
use shuttle::sync as inner;

use super::operations::{Access, note};

/// A lock around data, for short critical sections.
///
/// A panic while the mutex is held does not poison it. So callers keep their data valid at every
/// step, or repair it with a guard of their own.
#[derive(Debug, Default)]
pub struct Mutex<T>(inner::Mutex<T>);

impl<T> Mutex<T> {
    /// Returns a mutex around `value`.
    #[track_caller]
    pub fn new(value: T) -> Self {
        Mutex(inner::Mutex::new(value))
    }

    /// Blocks until the mutex is unlocked, and locks it.
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let guard = (self.0.lock()).unwrap_or_else(|poisoned| poisoned.into_inner());
        MutexGuard(guard, Locked::new())
    }

    /// Returns the data without locking: `&mut` proves that no other thread has access.
    pub fn get_mut(&mut self) -> &mut T {
        (self.0.get_mut()).unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// A lock around data, whose holder may sleep: here, an ordinary [`Mutex`].
pub type BlockingMutex<T> = Mutex<T>;

/// Access to the data of a [`Mutex`], which stays locked until this guard is dropped.
#[derive(Debug)]
#[must_use = "dropping the guard at once unlocks the mutex"]
pub struct MutexGuard<'a, T>(inner::MutexGuard<'a, T>, Locked);

/// Notes that a mutex was locked. It is dropped after the guard, and notes then that the mutex was
/// unlocked.
#[derive(Debug)]
struct Locked(());

impl Locked {
    #[track_caller]
    fn new() -> Self {
        crate::check::trace("Lock");
        note(Access::Write);
        Locked(())
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        crate::check::trace("Unlock");
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
/// For slow paths of code that already holds a mutex. Locks wait with [`crate::wait`] instead:
/// stock loom reports false deadlocks when a model mixes both on one word.
#[derive(Debug, Default)]
pub struct Condvar(inner::Condvar);

impl Condvar {
    /// Returns a condition variable without waiters.
    #[track_caller]
    pub fn new() -> Self {
        Condvar(inner::Condvar::new())
    }

    /// Unlocks the mutex, sleeps until notified, and locks the mutex again. May return spuriously,
    /// so the caller rechecks its condition.
    #[track_caller]
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        drop(guard.1);
        let guard = (self.0.wait(guard.0)).unwrap_or_else(|poisoned| poisoned.into_inner());
        MutexGuard(guard, Locked::new())
    }

    /// Wakes one waiter.
    #[track_caller]
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes every waiter.
    #[track_caller]
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
