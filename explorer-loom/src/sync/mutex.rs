//! The mutex.

use core::cell::UnsafeCell;
use core::fmt;
use core::ops::{Deref, DerefMut};
use std::sync::{LockResult, TryLockError, TryLockResult};

use spanlock_explorer::Ordering::{Acquire, Relaxed, Release};
use spanlock_explorer::at;

use super::poison::{Held, Poison};
use crate::execution::{Kept, kept, require};

const UNLOCKED: u64 = 0;
const LOCKED: u64 = 1;

/// A mutex. As in std, a thread that panics while it has locked the mutex poisons it.
pub struct Mutex<T: ?Sized> {
    word: Kept,
    poison: Poison,
    value: UnsafeCell<T>,
}

// SAFETY: the value moves with the mutex.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: only the thread that has locked the mutex accesses the value.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    /// Returns a mutex around the value.
    ///
    /// # Panics
    /// Outside a model.
    #[track_caller]
    pub fn new(value: T) -> Mutex<T> {
        require("sync::Mutex::new");
        Mutex {
            word: kept(UNLOCKED),
            poison: Poison::default(),
            value: UnsafeCell::new(value),
        }
    }

    /// Returns the value.
    ///
    /// # Errors
    /// The mutex is poisoned.
    pub fn into_inner(self) -> LockResult<T> {
        self.poison.of(self.value.into_inner())
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until the mutex is unlocked, and locks it.
    ///
    /// # Errors
    /// The mutex is poisoned.
    #[track_caller]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        require("sync::Mutex::lock");
        self.word.exchange_when(UNLOCKED, LOCKED, Acquire);
        self.guard()
    }

    /// Locks the mutex if it is unlocked.
    ///
    /// # Errors
    /// The mutex is locked or poisoned.
    #[track_caller]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        require("sync::Mutex::try_lock");
        match (self.word).compare_exchange(UNLOCKED, LOCKED, Acquire, Relaxed) {
            Ok(_) => Ok(self.guard()?),
            Err(_) => Err(TryLockError::WouldBlock),
        }
    }

    /// Returns the value: `&mut` proves that no other thread has access.
    ///
    /// # Errors
    /// The mutex is poisoned.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.poison.of(self.value.get_mut())
    }

    #[track_caller]
    fn guard(&self) -> LockResult<MutexGuard<'_, T>> {
        let held = Held::new();
        self.poison.of(MutexGuard { mutex: self, held })
    }
}

impl<T: Default> Default for Mutex<T> {
    #[track_caller]
    fn default() -> Mutex<T> {
        Mutex::new(T::default())
    }
}

impl<T> From<T> for Mutex<T> {
    #[track_caller]
    fn from(value: T) -> Mutex<T> {
        Mutex::new(value)
    }
}

impl<T: ?Sized> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").finish_non_exhaustive()
    }
}

/// Access to the value of a mutex, which is unlocked when this is dropped.
#[must_use = "the mutex is unlocked at once otherwise"]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    held: Held,
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    pub(super) fn mutex(&self) -> &'a Mutex<T> {
        self.mutex
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.held.poison(&self.mutex.poison);
        at(self.held.since, || self.mutex.word.store(UNLOCKED, Release));
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread has locked the mutex.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread has locked the mutex, and `&mut self` proves that this is the only
        // access through the guard.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
