//! Under a checker: a table for each lock, so that models know nothing of each other.

use core::ops::Range;

use super::Bucket;
use crate::Mutex;

pub(super) fn evictions() -> usize {
    0
}

pub(super) fn note_evictions(_count: usize) {}

/// The table is the lock's own.
#[derive(Default)]
pub(super) struct Number;

impl Number {
    pub(super) fn get(&self) -> u32 {
        0
    }

    pub(super) fn get_or_new(&self) -> u32 {
        0
    }
}

/// One bucket for every address: as if all hashes collided. So the handle's own count says all.
pub(super) struct Table {
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
    pub(super) fn bucket(&self, _word: usize) -> &Mutex<Bucket> {
        &self.bucket
    }

    #[inline]
    pub(super) fn is_occupied(&self, _word: usize) -> bool {
        true
    }

    pub(super) fn raise(&self, _word: usize) {}

    pub(super) fn lower(&self, _word: usize, _by: u32) {}

    /// Nobody is to be evicted: the table goes with its lock.
    pub(super) fn each_bucket(&self, _words: &Range<usize>, _f: impl FnMut(&Mutex<Bucket>) -> u32) {
    }
}
