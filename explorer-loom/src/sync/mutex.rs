//! The mutex.

use core::fmt;
use core::ops::{Deref, DerefMut};
use std::sync::{LockResult, TryLockError, TryLockResult};

use spanlock_explorer::Ordering::{Acquire, Relaxed, Release};
use spanlock_explorer::at;

use super::lock::{Held, Lock, UNLOCKED, guard, lock};
use crate::execution::require;

const LOCKED: u64 = 1;

lock!(
    /// A mutex. As in std, a thread that panics while it has locked the mutex poisons it.
    Mutex<T: Sized>, Send
);

guard!(mut MutexGuard<T: Sized>, Mutex);

impl<T: ?Sized> Mutex<T> {
    /// Waits until the mutex is unlocked, and locks it.
    ///
    /// # Errors
    /// The mutex is poisoned.
    #[track_caller]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        require("sync::Mutex::lock");
        self.0.word.exchange_when(UNLOCKED, LOCKED, Acquire);
        self.0.locked(|held| MutexGuard { lock: self, held })
    }

    /// Locks the mutex if it is unlocked.
    ///
    /// # Errors
    /// The mutex is locked or poisoned.
    #[track_caller]
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        require("sync::Mutex::try_lock");
        let locked = (self.0.word).compare_exchange(UNLOCKED, LOCKED, Acquire, Relaxed);
        locked.map_err(|_| TryLockError::WouldBlock)?;
        Ok(self.0.locked(|held| MutexGuard { lock: self, held })?)
    }
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    pub(super) fn mutex(&self) -> &'a Mutex<T> {
        self.lock
    }
}
