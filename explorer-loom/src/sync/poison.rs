//! The poison of locks.

use core::panic::Location;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{LockResult, PoisonError};
use std::thread::panicking;

/// Whether a thread has panicked while it had locked. Only a thread that has locked accesses it.
#[derive(Default)]
pub(super) struct Poison(AtomicBool);

impl Poison {
    /// Returns the guard, or the value, as std does: as an error if the lock is poisoned.
    pub(super) fn of<G>(&self, guard: G) -> LockResult<G> {
        // Relaxed, all: the lock orders the accesses.
        match self.0.load(Relaxed) {
            false => Ok(guard),
            true => Err(PoisonError::new(guard)),
        }
    }
}

/// What a guard knows of its thread.
pub(super) struct Held {
    /// Where it has locked.
    pub(super) since: &'static Location<'static>,
    panicked: bool,
}

impl Held {
    #[track_caller]
    pub(super) fn new() -> Held {
        Held {
            since: Location::caller(),
            panicked: panicking(),
        }
    }

    /// Poisons the lock if the thread has begun to panic since. The explorer runs no other thread
    /// while one unwinds, and says so if it would have to.
    pub(super) fn poison(&self, lock: &Poison) {
        if !self.panicked && panicking() {
            lock.0.store(true, Relaxed);
        }
    }
}
