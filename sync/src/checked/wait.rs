//! A waiting table for each lock, so that models do not influence each other.

use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use core::time::Duration;

use crate::Mutex;
use crate::atomic::AtomicU32;
use crate::wait::bucket::Bucket;

pub use super::bug::is_wake_left_out;

/// A lock's table is dropped with it.
pub(crate) const OUTLIVES_LOCKS: bool = false;

/// No clock runs under a checker: every moment is long past.
#[derive(Clone, Copy)]
pub(crate) struct Moment;

impl Moment {
    pub(crate) fn now() -> Self {
        Moment
    }

    pub(crate) fn is_past(self, _time: Duration) -> bool {
        true
    }
}

/// No process forks under a checker.
pub(crate) fn thread() -> usize {
    0
}

/// The number is the same for every lock, because each lock has a table of its own.
pub(crate) struct Number;

impl Number {
    pub(crate) const fn new() -> Self {
        Number
    }

    pub(crate) fn get(&self) -> u32 {
        0
    }

    pub(crate) fn get_or_new(&self) -> u32 {
        0
    }
}

/// One bucket for every address, as if all hashes collided. So the counts in the `WaitQueue`'s
/// handle (`wait.rs`) also say whether the bucket has waiters and armed queues.
pub(crate) struct Table {
    bucket: Mutex<Bucket>,
    credits: AtomicU32,
    /// Whether credits were ever added. This is std's atomic, unknown to the checker, so models
    /// without credits take no extra step. Under the explorer it is always set, because an
    /// execution must not depend on what the explorer does not know.
    has_credits: AtomicBool,
}

impl Table {
    pub(crate) fn new() -> Self {
        Table {
            bucket: Mutex::new(Bucket::new()),
            credits: AtomicU32::new(0),
            has_credits: AtomicBool::new(cfg!(spanlock_explorer)),
        }
    }

    pub(crate) fn bucket(&self, _word: usize) -> &Mutex<Bucket> {
        &self.bucket
    }

    #[inline]
    pub(crate) fn is_occupied(&self, _word: usize) -> bool {
        true
    }

    #[inline]
    pub(crate) fn is_armed(&self, _word: usize) -> bool {
        true
    }

    pub(crate) fn raise(&self, _word: usize) {}

    pub(crate) fn lower(&self, _word: usize) {}

    pub(crate) fn arm(&self, _word: usize) {}

    pub(crate) fn disarm(&self, _word: usize) {}

    pub(crate) fn take_back_credits(&self, _word: usize) -> u32 {
        // Relaxed, here and below: the flag is no part of the protocol.
        if !self.has_credits.load(Relaxed) {
            return 0;
        }
        // Without this, the store of 0 below would be an event of each generation.
        if cfg!(spanlock_explorer) && self.credits.load(Relaxed) == 0 {
            return 0;
        }
        // Relaxed: credits are added under the bucket's lock only, so none is overlooked.
        self.credits.swap(0, Relaxed)
    }

    pub(crate) fn has_credits(&self, _word: usize) -> bool {
        // Relaxed: as in `take_back_credits`.
        self.has_credits.load(Relaxed) && self.credits.load(Relaxed) != 0
    }

    pub(crate) fn add_credits(&self, _word: usize, credits: u32) {
        if credits > 0 {
            self.has_credits.store(true, Relaxed);
            // Relaxed: a credit publishes nothing; only the number matters.
            self.credits.fetch_add(credits, Relaxed);
        }
    }

    pub(crate) fn take_credit(&self, _word: usize) -> bool {
        if !self.has_credits.load(Relaxed) {
            return false;
        }
        // Relaxed, all: as above.
        let mut left = self.credits.load(Relaxed);
        while left > 0 {
            match (self.credits).compare_exchange(left, left - 1, Relaxed, Relaxed) {
                Ok(_) => return true,
                Err(now) => left = now,
            }
        }
        false
    }

    pub(crate) fn buckets(&self, _words: &Range<usize>) -> impl Iterator<Item = &Mutex<Bucket>> {
        core::iter::once(&self.bucket)
    }
}
