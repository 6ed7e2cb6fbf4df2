//! The reader-writer lock.

use core::fmt;
use core::ops::{Deref, DerefMut};
use std::sync::{LockResult, TryLockError, TryLockResult};

use spanlock_explorer::Ordering::{Acquire, Relaxed, Release};
use spanlock_explorer::{Condition, Op, Update, at};

use super::lock::{Held, Lock, UNLOCKED, guard, lock};
use crate::execution::require;

/// The word counts the readers, or has the writer's bit.
const READER: u64 = 1;
const WRITER: u64 = 1 << 63;

lock!(
    /// A reader-writer lock. As in std, a thread that panics while it has locked it for writing
    /// poisons it.
    RwLock<T>, Sync
);

guard!(RwLockReadGuard<T>, RwLock, |lock, _| {
    lock.word.update(Update::new(Op::Sub, READER), Release);
});
guard!(mut RwLockWriteGuard<T>, RwLock);

impl<T> RwLock<T> {
    /// Waits until there is no writer, and locks for reading.
    ///
    /// # Errors
    /// The lock is poisoned.
    #[track_caller]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        require("sync::RwLock::read");
        let has_no_writer = Condition::masked(WRITER, 0, true);
        let add = Update::new(Op::Add, READER);
        self.0.word.update_when(has_no_writer, add, Acquire);
        self.0.locked(|held| RwLockReadGuard { lock: self, held })
    }

    /// Locks for reading if there is no writer.
    ///
    /// # Errors
    /// There is a writer, or the lock is poisoned.
    #[track_caller]
    pub fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
        require("sync::RwLock::try_read");
        let mut word = self.0.word.load(Relaxed);
        while word != WRITER {
            match (self.0.word).compare_exchange(word, word + READER, Acquire, Relaxed) {
                Ok(_) => return Ok(self.0.locked(|held| RwLockReadGuard { lock: self, held })?),
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
        self.0.word.exchange_when(UNLOCKED, WRITER, Acquire);
        self.0.locked(|held| RwLockWriteGuard { lock: self, held })
    }

    /// Locks for writing if the lock is unlocked.
    ///
    /// # Errors
    /// The lock is locked or poisoned.
    #[track_caller]
    pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        require("sync::RwLock::try_write");
        let locked = (self.0.word).compare_exchange(UNLOCKED, WRITER, Acquire, Relaxed);
        locked.map_err(|_| TryLockError::WouldBlock)?;
        Ok(self
            .0
            .locked(|held| RwLockWriteGuard { lock: self, held })?)
    }
}
