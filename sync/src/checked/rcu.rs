//! The counters of one `Rcu`, one for each thread of the model. `Rcu`s share no counters.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::atomic::AtomicUsize;
use crate::rcu::Memory;
use crate::{check, thread};

#[derive(Debug)]
pub(crate) struct Counters {
    counters: Box<[AtomicUsize]>,
    /// The one entry that each thread remembers.
    memories: Box<[Memory]>,
}

// SAFETY: a thread touches only its own memory.
unsafe impl Sync for Counters {}
// SAFETY: the pointer in an entry is only stored here. Only the caller of `recall` uses it.
unsafe impl Send for Counters {}

/// Returns a new stamp.
///
/// Uses std's atomic, because the checkers do not track statics. So drawing a stamp is not a step
/// of the search. The search misses nothing, because the shipped counter orders nothing either.
pub(crate) fn new_stamp() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    // Relaxed: only the number's uniqueness matters.
    LAST.fetch_add(1, Relaxed) + 1
}

impl Counters {
    pub(crate) fn new() -> Self {
        let threads = check::threads();
        Counters {
            counters: (0..threads).map(|_| AtomicUsize::new(0)).collect(),
            memories: (0..threads).map(|_| Memory::default()).collect(),
        }
    }

    pub(crate) fn mine(&self) -> &AtomicUsize {
        &self.counters[thread::index()]
    }

    pub(crate) fn memory(&self, _key: u64) -> &Memory {
        &self.memories[thread::index()]
    }

    pub(crate) fn for_each(&self, f: impl FnMut(&AtomicUsize)) {
        self.counters.iter().for_each(f);
    }
}
