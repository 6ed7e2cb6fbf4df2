//! The counters of one `Rcu`, one for each thread of the model. `Rcu`s share no counters.

use core::sync::atomic::Ordering::Relaxed;

use crate::atomic::AtomicU64;
use crate::rcu::Memory;
use crate::{check, thread};

#[derive(Debug)]
pub(crate) struct Counters {
    counters: Box<[AtomicU64]>,
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
    static LAST: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    // Relaxed: only the number's uniqueness matters.
    LAST.fetch_add(1, Relaxed) + 1
}

impl Counters {
    pub(crate) fn new() -> Self {
        let threads = check::threads();
        Counters {
            counters: (0..threads).map(|_| AtomicU64::new(0)).collect(),
            memories: (0..threads).map(|_| Memory::default()).collect(),
        }
    }

    pub(crate) fn mine(&self) -> &AtomicU64 {
        &self.counters[thread::index()]
    }

    /// Not called: under a checker, no counter is marked as that of an ending thread.
    pub(crate) fn retire(&self, _counter: &AtomicU64) {
        unreachable!("each thread of a model keeps its counter")
    }

    pub(crate) fn memory(&self, _key: u64) -> &Memory {
        &self.memories[thread::index()]
    }

    pub(crate) fn for_each(&self, f: impl FnMut(&AtomicU64)) {
        self.counters.iter().for_each(f);
    }
}
