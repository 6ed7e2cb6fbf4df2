//! One counter per core, for all `Rcu`s together.

use core::cell::{Cell, UnsafeCell};

use spanlock_cores::MAX_CORES;

use super::{PerCore, Place};
use crate::atomic::{AtomicU64, Ordering::Relaxed};
use crate::rcu::Memory;

/// The number of entries that a core remembers: as many as a thread, as shipped.
const MEMORIES: usize = 16;

static COUNTERS: PerCore<AtomicU64> =
    PerCore([const { Place(UnsafeCell::new(AtomicU64::new(0))) }; MAX_CORES]);
static MEMORY: PerCore<[Memory; MEMORIES]> = PerCore(
    [const {
        Place(UnsafeCell::new(
            [const { Cell::new((0, 0, None)) }; MEMORIES],
        ))
    }; MAX_CORES],
);

/// Not called: no core ends.
pub(crate) fn retire() {
    unreachable!("each core keeps its counter")
}

pub(crate) fn new_stamp() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    // Relaxed: only the number's uniqueness matters.
    LAST.fetch_add(1, Relaxed) + 1
}

#[derive(Debug)]
pub(crate) struct Counters;

impl Counters {
    pub(crate) fn new() -> Self {
        Counters
    }

    pub(crate) fn mine(&self) -> &'static AtomicU64 {
        // SAFETY: nobody has an exclusive reference to a counter.
        unsafe { &*COUNTERS.mine() }
    }

    pub(crate) fn memory(&self, key: u64) -> &Memory {
        // SAFETY: nobody has an exclusive reference to an entry.
        unsafe { &(*MEMORY.mine())[key as usize % MEMORIES] }
    }

    pub(crate) fn for_each(&self, mut f: impl FnMut(&AtomicU64)) {
        // SAFETY: as for `mine`. Counters are atomics, so any core may read them.
        (COUNTERS.0.iter()).for_each(|place| f(unsafe { &*place.0.get() }));
    }
}
