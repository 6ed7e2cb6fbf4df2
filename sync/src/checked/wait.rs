//! A waiting table for each lock, so that models do not influence each other.

use core::ops::Range;

use crate::Mutex;
use crate::wait::bucket::Bucket;

pub use super::bug::is_wake_left_out;

/// A lock's table is dropped with it.
pub(crate) const OUTLIVES_LOCKS: bool = false;

pub(crate) fn evictions() -> usize {
    0
}

pub(crate) fn note_evictions(_count: usize) {}

/// The number is the same for every lock, because each lock has a table of its own.
#[derive(Default)]
pub(crate) struct Number;

impl Number {
    pub(crate) fn get(&self) -> u32 {
        0
    }

    pub(crate) fn get_or_new(&self) -> u32 {
        0
    }
}

/// One bucket for every address, as if all hashes collided. So the count of waiters in the
/// `WaitQueue`'s handle (`wait.rs`) also says whether the bucket is occupied.
pub(crate) struct Table {
    bucket: Mutex<Bucket>,
}

impl Default for Table {
    fn default() -> Self {
        Table {
            bucket: Mutex::new(Bucket::new()),
        }
    }
}

impl Table {
    pub(crate) fn bucket(&self, _word: usize) -> &Mutex<Bucket> {
        &self.bucket
    }

    #[inline]
    pub(crate) fn is_occupied(&self, _word: usize) -> bool {
        true
    }

    pub(crate) fn raise(&self, _word: usize) {}

    pub(crate) fn lower(&self, _word: usize, _by: u32) {}

    /// Visits none, because the table is dropped with its lock.
    pub(crate) fn each_bucket(&self, _words: &Range<usize>, _f: impl FnMut(&Mutex<Bucket>) -> u32) {
    }
}
