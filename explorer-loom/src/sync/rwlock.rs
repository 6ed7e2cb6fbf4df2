//! The reader-writer lock.

use core::cell::UnsafeCell;
use core::fmt;
use core::ops::{Deref, DerefMut};
use std::sync::{LockResult, TryLockError, TryLockResult};

use spanlock_explorer::Ordering::{Acquire, Relaxed, Release};
use spanlock_explorer::{Condition, Op, Update, at};

use super::poison::{Held, Poison};
use crate::execution::{Kept, kept, require};

/// The word counts the readers, or has the writer's bit.
const UNLOCKED: u64 = 0;
const READER: u64 = 1;
const WRITER: u64 = 1 << 63;

/// A reader-writer lock. As in std, a thread that panics while it has locked it for writing poisons
/// it.
pub struct RwLock<T> {
    word: Kept,
    poison: Poison,
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
            poison: Poison::default(),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits until there is no writer, and locks for reading.
    ///
    /// # Errors
    /// The lock is poisoned.
    #[track_caller]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        require("sync::RwLock::read");
        let has_no_writer = Condition::masked(WRITER, 0, true);
        let add = Update::new(Op::Add, READER);
        self.word.update_when(has_no_writer, add, Acquire);
        self.reader()
    }

    /// Locks for reading if there is no writer.
    ///
    /// # Errors
    /// There is one, or the lock is poisoned.
    #[track_caller]
    pub fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
        require("sync::RwLock::try_read");
        let mut word = self.word.load(Relaxed);
        while word != WRITER {
            match (self.word).compare_exchange(word, word + READER, Acquire, Relaxed) {
                Ok(_) => return Ok(self.reader()?),
                Err(other) => word = other,
            }
        }
        Err(TryLockError::WouldBlock)
    }

    /// Waits until the lock is unlocked, and locks for writing.
    ///
    /// # Errors
    /// The lock is poisoned.
    #[track_caller]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        require("sync::RwLock::write");
        self.word.exchange_when(UNLOCKED, WRITER, Acquire);
        self.writer()
    }

    /// Locks for writing if the lock is unlocked.
    ///
    /// # Errors
    /// The lock is locked or poisoned.
    #[track_caller]
    pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        require("sync::RwLock::try_write");
        match (self.word).compare_exchange(UNLOCKED, WRITER, Acquire, Relaxed) {
            Ok(_) => Ok(self.writer()?),
            Err(_) => Err(TryLockError::WouldBlock),
        }
    }

    /// Returns the value: `&mut` proves that no other thread has access.
    ///
    /// # Errors
    /// The lock is poisoned.
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.poison.of(self.value.get_mut())
    }

    /// Returns the value.
    ///
    /// # Errors
    /// The lock is poisoned.
    pub fn into_inner(self) -> LockResult<T> {
        self.poison.of(self.value.into_inner())
    }

    #[track_caller]
    fn reader(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        let held = Held::new();
        self.poison.of(RwLockReadGuard { lock: self, held })
    }

    #[track_caller]
    fn writer(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        let held = Held::new();
        self.poison.of(RwLockWriteGuard { lock: self, held })
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
pub struct RwLockReadGuard<'a, T> {
    lock: &'a RwLock<T>,
    held: Held,
}

/// Access to the value of a lock, until this is dropped.
#[must_use = "the lock is unlocked at once otherwise"]
pub struct RwLockWriteGuard<'a, T> {
    lock: &'a RwLock<T>,
    held: Held,
}

impl<T> Drop for RwLockReadGuard<'_, T> {
    fn drop(&mut self) {
        let leave = Update::new(Op::Sub, READER);
        at(self.held.since, || self.lock.word.update(leave, Release));
    }
}

impl<T> Drop for RwLockWriteGuard<'_, T> {
    fn drop(&mut self) {
        self.held.poison(&self.lock.poison);
        at(self.held.since, || self.lock.word.store(UNLOCKED, Release));
    }
}

impl<T> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread has locked for reading.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: this thread has locked for writing.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this thread has locked for writing, and `&mut self` proves that this is the only
        // access through the guard.
        unsafe { &mut *self.lock.value.get() }
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
