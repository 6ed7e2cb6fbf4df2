//! The count of references of an `Arc` under the explorer.

use core::cell::Cell;

use spanlock_explorer::{Atomic, Op, Update, fence};

use crate::atomic::Ordering::{Acquire, Release};

/// Counts the references to a value, and those that were dropped.
///
/// A clone is no event: its reference is dropped later, so each thread that finds that only one
/// reference is left comes after all clones.
#[derive(Debug)]
pub(crate) struct References {
    made: Cell<u64>,
    dropped: Atomic,
}

// SAFETY: the explorer runs all threads on one system thread.
unsafe impl Sync for References {}

impl References {
    /// Counts the first reference.
    #[track_caller]
    pub(crate) fn new() -> Self {
        References {
            made: Cell::new(1),
            dropped: Atomic::new(0),
        }
    }

    /// Counts another reference.
    pub(crate) fn add(&self) {
        self.made.set(self.made.get() + 1);
    }

    /// Returns whether there is only one reference.
    #[track_caller]
    pub(crate) fn is_one(&self) -> bool {
        self.dropped.load(Acquire) + 1 == self.made.get()
    }

    /// Drops a reference. If it was the last one, all earlier drops happen before the return.
    #[track_caller]
    pub(crate) fn drop_one(&self) {
        let dropped = self.dropped.update(Update::new(Op::Add, 1), Release);
        if dropped + 1 == self.made.get() {
            fence(Acquire);
        }
    }
}
