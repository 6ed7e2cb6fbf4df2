//! The reader-writer lock.

use core::cell::UnsafeCell;
use core::fmt;
use core::ops::{Deref, DerefMut};
use std::sync::{LockResult, TryLockError, TryLockResult};

use spanlock_explorer::Ordering::{Acquire, Relaxed, Release};
use spanlock_explorer::{Condition, Op, Update};

use crate::execution::{Kept, kept, require};

/// The word counts the readers, or has the writer's bit.
const UNLOCKED: u64 = 0;
const READER: u64 = 1;
const WRITER: u64 = 1 << 63;

/// A reader-writer lock. A panic fails the model, so the lock is never poisoned.
pub struct RwLock<T> {
    word: Kept,
    value: UnsafeCell<T>,
}

// SAFETY: the value moves with the lock.
unsafe impl<T: Send> Send for RwLock<T> {}
// SAFETY: readers only share the value, and a writer has it alone.
unsafe impl<T: Send + Sync> Sync for RwLock<T> {}

impl<T> RwLock<T> {
    /// Returns a lock around the value.
    ///
    /// # Panics
    /// Outside a model.
    #[track_caller]
    pub fn new(value: T) -> RwLock<T> {
        require("sync::RwLock::new");
        RwLock {
            word: kept(UNLOCKED),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits until there is no writer, and locks for reading.
    ///
    /// # Errors
    /// Never.
    #[track_caller]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        require("sync::RwLock::read");
        let has_no_writer = Condition::masked(WRITER, 0, true);
        let add = Update::new(Op::Add, READER);
        self.word.update_when(has_no_writer, add, Acquire);
        Ok(RwLockReadGuard(self))
    }

    /// Locks for reading if there is no writer.
    ///
    /// # Errors
    /// There is one.
    #[track_caller]
    pub fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
        require("sync::RwLock::try_read");
        let mut word = self.word.load(Relaxed);
        while word != WRITER {
            match (self.word).compare_exchange(word, word + READER, Acquire, Relaxed) {
                Ok(_) => return Ok(RwLockReadGuard(self)),
                Err(other) => word = other,
            }
        }
        Err(TryLockError::WouldBlock)
    }

    /// Waits until the lock is unlocked, and locks for writing.
    ///
    /// # Errors
    /// Never.
    #[track_caller]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        require("sync::RwLock::write");
        self.word.exchange_when(UNLOCKED, WRITER, Acquire);
        Ok(RwLockWriteGuard(self))
    }

    /// Locks for writing if the lock is unlocked.
    ///
    /// # Errors
    /// It is locked.
    #[track_caller]
    pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        require("sync::RwLock::try_write");
        match (self.word).compare_exchange(UNLOCKED, WRITER, Acquire, Relaxed) {
            Ok(_) => Ok(RwLockWriteGuard(self)),
            Err(_) => Err(TryLockError::WouldBlock),
        }
    }

    /// Returns the value: `&mut` proves that no other thread has access.
    ///
    /// # Errors
    /// Never.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        Ok(self.value.get_mut())
    }

    /// Returns the value.
    ///
    /// # Errors
    /// Never.
    pub fn into_inner(self) -> LockResult<T> {
        Ok(self.value.into_inner())
    }
}

impl<T: Default> Default for RwLock<T> {
    #[track_caller]
    fn default() -> RwLock<T> {
        RwLock::new(T::default())
    }
}

impl<T> From<T> for RwLock<T> {
    #[track_caller]
    fn from(value: T) -> RwLock<T> {
        RwLock::new(value)
    }
}

impl<T> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RwLock").finish_non_exhaustive()
    }
}

/// Shared access to the value of a lock, until this is dropped.
#[must_use = "the lock is unlocked at once otherwise"]
pub struct RwLockReadGuard<'a, T>(&'a RwLock<T>);

/// Access to the value of a lock, until this is dropped.
#[must_use = "the lock is unlocked at once otherwise"]
pub struct RwLockWriteGuard<'a, T>(&'a RwLock<T>);

impl<T> Drop for RwLockReadGuard<'_, T> {
    #[track_caller]
    fn drop(&mut self) {
        self.0.word.update(Update::new(Op::Sub, READER), Release);
    }
}

impl<T> Drop for RwLockWriteGuard<'_, T> {
    #[track_caller]
    fn drop(&mut self) {
        self.0.word.store(UNLOCKED, Release);
    }
}

impl<T> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread has locked for reading.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread has locked for writing.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread has locked for writing, and `&mut self` proves that this is the only
        // access through the guard.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T: fmt::Debug> fmt::Debug for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: fmt::Debug> fmt::Debug for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}
