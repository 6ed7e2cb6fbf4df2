//! A mutex and a condition variable over a futex: the algorithms of std on Linux.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};

use spanlock_cores::{pause, sleep, wake};

use crate::atomic::{AtomicU32, Ordering::*};

const UNLOCKED: u32 = 0;
const LOCKED: u32 = 1;
/// Locked, and others may sleep.
const CONTENDED: u32 = 2;

/// How often a thread looks at a locked mutex before it sleeps.
const SPINS: u32 = 100;

/// A lock around data, for short critical sections.
#[derive(Debug, Default)]
pub struct Mutex<T> {
    word: Word,
    value: UnsafeCell<T>,
}

/// The word of a mutex. Not generic: code that the compiler instruments must not contain it.
#[derive(Debug, Default)]
struct Word(AtomicU32);

// SAFETY: the mutex lets one thread at a time use the data.
unsafe impl<T: Send> Send for Mutex<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    /// Returns a mutex around `value`.
    pub const fn new(value: T) -> Self {
        Mutex {
            word: Word(AtomicU32::new(UNLOCKED)),
            value: UnsafeCell::new(value),
        }
    }

    /// Blocks until the mutex is unlocked, and locks it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.word.lock();
        MutexGuard(self)
    }

    /// Returns the data without locking: `&mut` proves that no other thread has access.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

impl Word {
    fn address(&self) -> usize {
        core::ptr::from_ref(&self.0).addr()
    }

    fn lock(&self) {
        // Acquire, here and below: pairs with the Release in `unlock`. Relaxed: nothing was locked.
        if self
            .0
            .compare_exchange(UNLOCKED, LOCKED, Acquire, Relaxed)
            .is_err()
        {
            self.lock_contended();
        }
    }

    fn lock_contended(&self) {
        let mut state = self.spin();
        if state == UNLOCKED {
            // Relaxed: as above.
            match self.0.compare_exchange(UNLOCKED, LOCKED, Acquire, Relaxed) {
                Ok(_) => return,
                Err(known) => state = known,
            }
        }
        loop {
            if state != CONTENDED && self.0.swap(CONTENDED, Acquire) == UNLOCKED {
                return;
            }
            // Relaxed: the sleep only ends earlier.
            let is_contended = || self.0.load(Relaxed) == CONTENDED;
            sleep(self.address(), None, is_contended);
            state = self.spin();
        }
    }

    fn spin(&self) -> u32 {
        let mut left = SPINS;
        loop {
            // Relaxed: a hint.
            let state = self.0.load(Relaxed);
            if state != LOCKED || left == 0 {
                return state;
            }
            pause();
            left -= 1;
        }
    }

    fn unlock(&self) {
        // Release: pairs with the Acquire in `lock`.
        if self.0.swap(UNLOCKED, Release) == CONTENDED {
            wake(self.address(), 1);
        }
    }
}

/// A lock around data, whose holder may sleep: here, an ordinary [`Mutex`].
pub type BlockingMutex<T> = Mutex<T>;

/// Access to the data of a [`Mutex`], which stays locked until this guard is dropped.
#[derive(Debug)]
#[must_use = "dropping the guard at once unlocks the mutex"]
pub struct MutexGuard<'a, T>(&'a Mutex<T>);

impl<T> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.0.word.unlock();
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
        // SAFETY: as above.
        unsafe { &mut *self.0.value.get() }
    }
}

/// A condition variable for one [`Mutex`].
#[derive(Debug, Default)]
pub struct Condvar(AtomicU32);

impl Condvar {
    /// Returns a condition variable without waiters.
    pub fn new() -> Self {
        Condvar::default()
    }

    /// Unlocks the mutex, sleeps until notified, and locks the mutex again. May return spuriously,
    /// so the caller rechecks its condition.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        // Relaxed, all: the mutex orders what the condition depends on.
        let seen = self.0.load(Relaxed);
        let mutex = guard.0;
        drop(guard);
        sleep(self.address(), None, || self.0.load(Relaxed) == seen);
        mutex.lock()
    }

    /// Wakes one waiter.
    pub fn notify_one(&self) {
        self.notify(1);
    }

    /// Wakes every waiter.
    pub fn notify_all(&self) {
        self.notify(usize::MAX);
    }

    fn notify(&self, most: usize) {
        // Relaxed: as in `wait`.
        self.0.fetch_add(1, Relaxed);
        wake(self.address(), most);
    }

    fn address(&self) -> usize {
        core::ptr::from_ref(&self.0).addr()
    }
}
