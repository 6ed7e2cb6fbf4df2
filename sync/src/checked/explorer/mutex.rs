//! The explorer's mutex and condition variable. Locking and waiting are events that block.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use std::sync::LockResult;

use spanlock_explorer::{Atomic, Condition, Op, Update, choose, fault};

use super::freed::Kept;
use crate::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::{check, thread};

const UNLOCKED: u64 = 0;
const LOCKED: u64 = 1;

/// A mutex. A panic does not poison it.
#[derive(Debug)]
pub(crate) struct Mutex<T> {
    word: Kept<Atomic>,
    value: UnsafeCell<T>,
}

// SAFETY: the value moves with the mutex.
unsafe impl<T: Send> Send for Mutex<T> {}
// SAFETY: only the thread that has locked the mutex accesses the value.
unsafe impl<T: Send> Sync for Mutex<T> {}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Mutex::new(T::default())
    }
}

impl<T> Mutex<T> {
    #[track_caller]
    pub(crate) fn new(value: T) -> Self {
        Mutex {
            word: Kept::new(Atomic::new(UNLOCKED)),
            value: UnsafeCell::new(value),
        }
    }

    #[track_caller]
    pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        self.word.exchange_when(UNLOCKED, LOCKED, Acquire);
        Ok(MutexGuard(self))
    }

    #[track_caller]
    pub(crate) fn get_mut(&mut self) -> LockResult<&mut T> {
        self.word.exclusive();
        Ok(self.value.get_mut())
    }
}

/// Access to the value of a mutex, which is unlocked when this guard is dropped.
#[derive(Debug)]
pub(crate) struct MutexGuard<'a, T>(&'a Mutex<T>);

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.0.word.store(UNLOCKED, Release);
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread has locked the mutex.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread has locked the mutex, and `&mut self` proves that this is the only
        // access through the guard.
        unsafe { &mut *self.0.value.get() }
    }
}

/// A condition variable: a bit for each thread, which is set while the thread waits.
#[derive(Debug)]
pub(crate) struct Condvar(Kept<Atomic>);

impl Default for Condvar {
    #[track_caller]
    fn default() -> Self {
        Condvar::new()
    }
}

impl Condvar {
    #[track_caller]
    pub(crate) fn new() -> Self {
        Condvar(Kept::new(Atomic::new(0)))
    }

    /// Relaxed, all: only the mutex synchronizes.
    #[track_caller]
    pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let mutex = guard.0;
        let me = 1 << thread::index();
        self.0.update(Update::new(Op::Or, me), Relaxed);
        drop(guard);
        let wakes_spuriously = fault(2) == 1;
        if wakes_spuriously {
            check::trace("Wakes spuriously");
            self.0.update(Update::new(Op::And, !me), Relaxed);
        } else {
            let is_notified = Condition::masked(me, 0, true);
            self.0.wait_until(is_notified, Relaxed);
        }
        mutex.lock()
    }

    #[track_caller]
    pub(crate) fn notify_one(&self) {
        // At most all other threads wait.
        let which = choose((check::threads() - 1).max(1));
        self.0
            .update(Update::new(Op::ClearNth, which as u64), Relaxed);
    }

    #[track_caller]
    pub(crate) fn notify_all(&self) {
        self.0.update(Update::new(Op::Swap, 0), Relaxed);
    }
}
