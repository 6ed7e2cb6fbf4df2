//! Programs in which one thread passes data to another: message passing, release sequences,
//! causality, load buffering.

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
            name: "message-passing",
            claim: "with Release and Acquire, a thread that sees the flag sees the data",
            reason: "the Acquire that reads from the Release synchronizes with it (atomics.order \
                     2)",
            allowed: "00 01 11",
            deviations: &[],
        },
        threads: &[
            &[Store(X, 1, Relaxed), Store(Y, 1, Release)],
            &[Load(Y, Acquire), Load(X, Relaxed)],
        ],
        finals: &[],
    },
    Memory {
        litmus: Litmus {
            name: "message-passing-relaxed",
            claim: "with Relaxed alone, the flag can be seen before the data",
            reason: "nothing synchronizes, so the happens-before relation hides no store from the \
                     second load (intro.races 14)",
            allowed: "00 01 10 11",
            deviations: &[],
        },
        threads: &[
            &[Store(X, 1, Relaxed), Store(Y, 1, Relaxed)],
            &[Load(Y, Relaxed), Load(X, Relaxed)],
        ],
        finals: &[],
    },
    Memory {
        litmus: Litmus {
            name: "message-passing-release-alone",
            claim: "a Release without an Acquire orders nothing",
            reason: "synchronizing needs both sides (atomics.order 2)",
            allowed: "00 01 10 11",
            deviations: &[],
        },
        threads: &[
            &[Store(X, 1, Relaxed), Store(Y, 1, Release)],
            &[Load(Y, Relaxed), Load(X, Relaxed)],
        ],
        finals: &[],
    },
    Memory {
        litmus: Litmus {
            name: "message-passing-acquire-alone",
            claim: "an Acquire without a Release orders nothing",
            reason: "synchronizing needs both sides (atomics.order 2)",
            allowed: "00 01 10 11",
            deviations: &[],
        },
        threads: &[
            &[Store(X, 1, Relaxed), Store(Y, 1, Relaxed)],
            &[Load(Y, Acquire), Load(X, Relaxed)],
        ],
        finals: &[],
    },
    Memory {
        litmus: Litmus {
            name: "message-passing-fenced",
            claim: "a release fence and an acquire fence around relaxed accesses suffice too",
            reason: "a release fence before the store synchronizes with an acquire fence after \
                     the load (atomics.fences 2)",
            allowed: "00 01 11",
            deviations: &[],
        },
        threads: &[
            &[Store(X, 1, Relaxed), Fence(Release), Store(Y, 1, Relaxed)],
            &[Load(Y, Relaxed), Fence(Acquire), Load(X, Relaxed)],
        ],
        finals: &[],
    },
    Memory {
        litmus: Litmus {
            name: "message-passing-release-fence",
            claim: "a release fence pairs with an Acquire load",
            reason: "atomics.fences 3",
            allowed: "00 01 11",
            deviations: &[],
        },
        threads: &[
            &[Store(X, 1, Relaxed), Fence(Release), Store(Y, 1, Relaxed)],
            &[Load(Y, Acquire), Load(X, Relaxed)],
        ],
        finals: &[],
    },
    Memory {
        litmus: Litmus {
            name: "message-passing-acquire-fence",
            claim: "a Release store pairs with an acquire fence",
            reason: "atomics.fences 4",
            allowed: "00 01 11",
            deviations: &[],
        },
        threads: &[
            &[Store(X, 1, Relaxed), Store(Y, 1, Release)],
            &[Load(Y, Relaxed), Fence(Acquire), Load(X, Relaxed)],
        ],
        finals: &[],
    },
    Memory {
        litmus: Litmus {
            name: "message-passing-late-fence",
            claim: "an acquire fence before the load that sees the flag comes too early",
            reason: "the fence must follow the load (atomics.fences 4)",
            allowed: "00 01 10 11",
            deviations: &[],
        },
        threads: &[
            &[Store(X, 1, Relaxed), Store(Y, 1, Release)],
            &[Fence(Acquire), Load(Y, Relaxed), Load(X, Relaxed)],
        ],
        finals: &[],
    },
    Memory {
        litmus: Litmus {
            name: "message-passing-swaps",
            claim: "read-modify-writes on both sides synchronize; our locks acquire and release \
                    words in this way",
            reason: "as for loads and stores (atomics.order 2)",
            allowed: "011 200 201",
            deviations: &[],
        },
        threads: &[
            &[Store(X, 1, Relaxed), Add(Y, 1, Release)],
            &[Swap(Y, 2, Acquire), Load(X, Relaxed)],
        ],
        finals: &[],
    },
    Memory {
        litmus: Litmus {
            name: "release-sequence",
            claim: "a read-modify-write by the same thread continues the release sequence of its \
                    earlier Release",
            reason: "a read-modify-write continues a release sequence, whatever its ordering \
                     (intro.races 5)",
            allowed: "100 101 111 121",
            deviations: &[],
        },
        threads: &[
            &[
                Store(X, 1, Relaxed),
                Store(Y, 1, Release),
                Add(Y, 1, Relaxed),
            ],
            &[Load(Y, Acquire), Load(X, Relaxed)],
        ],
        finals: &[],
    },
    Memory {
        litmus: Litmus {
            name: "release-sequence-of-others",
            claim: "a read-modify-write by another thread continues a release sequence too, so a \
                    writer that acquires after two readers synchronizes with both",
            reason: "a read-modify-write continues a release sequence, whatever its ordering \
                     (intro.races 5)",
            allowed: "000 001 010 011 100 110 111 211",
            deviations: &[],
        },
        threads: &[
            &[Load(Y, Acquire), Load(X, Relaxed)],
            &[Store(X, 1, Relaxed), Store(Y, 1, Release)],
            &[Add(Y, 1, Relaxed)],
        ],
        finals: &[],
    },
    Memory {
        litmus: Litmus {
            name: "release-sequence-own-store",
            claim: "a store ends a release sequence, even a store by the same thread",
            reason: "since C++20, a store belongs only to the release sequence that it heads \
                     (P0982)",
            allowed: "00 01 11 20 21",
            deviations: &[],
        },
        threads: &[
            &[
                Store(X, 1, Relaxed),
                Store(Y, 1, Release),
                Store(Y, 2, Relaxed),
            ],
            &[Load(Y, Acquire), Load(X, Relaxed)],
        ],
        finals: &[],
    },
    Memory {
        litmus: Litmus {
            name: "release-sequence-other-store",
            claim: "a store by another thread ends a release sequence too",
            reason: "a store belongs only to the release sequence that it heads (intro.races 5)",
            allowed: "00 01 11 20 21",
            deviations: &[],
        },
        threads: &[
            &[Load(Y, Acquire), Load(X, Relaxed)],
            &[Store(X, 1, Relaxed), Store(Y, 1, Release)],
            &[Store(Y, 2, Relaxed)],
        ],
        finals: &[],
    },
    Memory {
        litmus: Litmus {
            name: "causality",
            claim: "if a thread acquires a Release, it also sees what the releasing thread had \
                    seen before (WRC)",
            reason: "happens-before is transitive (intro.races 10)",
            allowed: "000 001 010 011 100 101 111",
            deviations: &[],
        },
        threads: &[
            &[Store(X, 1, Relaxed)],
            &[Load(X, Relaxed), Store(Y, 1, Release)],
            &[Load(Y, Acquire), Load(X, Relaxed)],
        ],
        finals: &[],
    },
    Memory {
        litmus: Litmus {
            name: "causality-chain",
            claim: "causality also holds through two words and two threads (ISA2)",
            reason: "happens-before is transitive (intro.races 10)",
            allowed: "000 001 010 011 100 101 111",
            deviations: &[],
        },
        threads: &[
            &[Store(X, 1, Relaxed), Store(Y, 1, Release)],
            &[Load(Y, Acquire), Store(Z, 1, Release)],
            &[Load(Z, Acquire), Load(X, Relaxed)],
        ],
        finals: &[],
    },
    Memory {
        litmus: Litmus {
            name: "load-buffering",
            claim: "each of two loads can see the store that the other thread executes after its \
                    own load",
            reason: "nothing orders a load before a later store of another word",
            allowed: "00 01 10 11",
            deviations: &[
                misses(Explorer, "11", LOAD_BUFFERING),
                misses(Weak, "11", LOAD_BUFFERING),
            ],
        },
        threads: &[
            &[Load(Y, Relaxed), Store(X, 1, Relaxed)],
            &[Load(X, Relaxed), Store(Y, 1, Relaxed)],
        ],
        finals: &[],
    },
    Memory {
        litmus: Litmus {
            name: "load-buffering-released",
            claim: "Release stores and Acquire loads forbid load buffering",
            reason: "each load would happen before itself (intro.races 10)",
            allowed: "00 01 10",
            deviations: &[],
        },
        threads: &[
            &[Load(Y, Acquire), Store(X, 1, Release)],
            &[Load(X, Acquire), Store(Y, 1, Release)],
        ],
        finals: &[],
    },
];
