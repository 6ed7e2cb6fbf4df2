//! Programs of one word: coherence.

use spanlock_sync::atomic::Ordering::*;

use super::blind::*;
use super::memory::Memory;
use super::memory::Op::*;
use super::memory::Word::*;
use super::{Litmus, misses};
use spanlock_verify::Mode::*;

/// The models.
pub(super) const ALL: &[Memory] = &[
    Memory {
        litmus: Litmus {
            name: "coherence-read-read",
            claim: "two loads by one thread never see two stores to a word in reverse order (CoRR)",
            reason: "read-read coherence (intro.races 16)",
            allowed: "00 01 02 11 12 22",
            deviations: &[],
        },
        threads: &[
            &[Store(X, 1, Relaxed), Store(X, 2, Relaxed)],
            &[Load(X, Relaxed), Load(X, Relaxed)],
        ],
        finals: &[],
    },
    Memory {
        litmus: Litmus {
            name: "coherence-writers-agree",
            claim: "two threads do not see their stores to a word in different orders",
            reason: "a word has one modification order (intro.races 4)",
            allowed: "11 12 22",
            deviations: &[],
        },
        threads: &[
            &[Store(X, 1, Relaxed), Load(X, Relaxed)],
            &[Store(X, 2, Relaxed), Load(X, Relaxed)],
        ],
        finals: &[],
    },
    Memory {
        litmus: Litmus {
            name: "coherence-write-write",
            claim: "a thread's later store is later in the modification order (CoWW)",
            reason: "write-write coherence (intro.races 15)",
            allowed: "02 12 22",
            deviations: &[],
        },
        threads: &[
            &[Store(X, 1, Relaxed), Store(X, 2, Relaxed)],
            &[Load(X, Relaxed)],
        ],
        finals: &[X],
    },
    Memory {
        litmus: Litmus {
            name: "coherence-write-read",
            claim: "a thread sees its own store, or a later one (CoWR)",
            reason: "write-read coherence (intro.races 18)",
            allowed: "11 12 22",
            deviations: &[],
        },
        threads: &[
            &[Store(X, 1, Relaxed), Load(X, Relaxed)],
            &[Store(X, 2, Relaxed)],
        ],
        finals: &[X],
    },
    Memory {
        litmus: Litmus {
            name: "coherence-read-write",
            claim: "a load never reads a later store of its own thread; in the modification order, \
                    that later store follows the store that the load read (CoRW)",
            reason: "read-write coherence (intro.races 17)",
            allowed: "01 02 21",
            deviations: &[],
        },
        threads: &[
            &[Load(X, Relaxed), Store(X, 1, Relaxed)],
            &[Store(X, 2, Relaxed)],
        ],
        finals: &[X],
    },
    Memory {
        litmus: Litmus {
            name: "coherence-over-threads",
            claim: "a store that happened before a load hides all earlier stores from it",
            reason: "coherence follows happens-before, not threads (intro.races 15 to 18)",
            allowed: "00 01 02 12",
            deviations: &[],
        },
        threads: &[
            &[
                Store(X, 1, Relaxed),
                Store(X, 2, Relaxed),
                Store(Y, 1, Release),
            ],
            &[Load(Y, Acquire), Load(X, Relaxed)],
        ],
        finals: &[],
    },
    Memory {
        litmus: Litmus {
            name: "load-then-store",
            claim: "a load can see another thread's load-then-store",
            reason: "nothing forbids it, even if all accesses are SeqCst",
            allowed: "00 10",
            deviations: &[misses(Weak, "10", LOAD_THEN_STORE)],
        },
        threads: &[
            &[Load(X, Acquire)],
            &[Load(X, Acquire), Store(X, 1, Release)],
        ],
        finals: &[],
    },
];
