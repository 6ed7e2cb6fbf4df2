//! Read-modify-writes and compare-exchanges.

use spanlock_sync::atomic::Ordering::*;

use super::blind::*;
use super::memory::Memory;
use super::memory::Op::*;
use super::memory::Word::*;
use super::{Litmus, adds, misses};
use spanlock_verify::Mode::*;

/// The models.
pub(super) const ALL: &[Memory] = &[
    Memory {
        litmus: Litmus {
            name: "fetch-add-race",
            claim: "no two additions read the same value",
            reason: "a read-modify-write reads the last value before its own (atomics.order 10)",
            allowed: "012 102",
            deviations: &[],
        },
        threads: &[&[Add(X, 1, Relaxed)], &[Add(X, 1, Relaxed)]],
        finals: &[X],
    },
    Memory {
        litmus: Litmus {
            name: "swap-race",
            claim: "no two swaps read the same value",
            reason: "a read-modify-write reads the last value before its own (atomics.order 10)",
            allowed: "0123 0312 2013 2301 3021 3102",
            deviations: &[],
        },
        threads: &[
            &[Swap(X, 1, Relaxed)],
            &[Swap(X, 2, Relaxed)],
            &[Swap(X, 3, Relaxed)],
        ],
        finals: &[X],
    },
    Memory {
        litmus: Litmus {
            name: "add-against-store",
            claim: "no store falls between the read and the write of an addition",
            reason: "a read-modify-write reads the last value before its own (atomics.order 10)",
            allowed: "05 56",
            deviations: &[adds(Weak, "01", STORE_INTO_RMW)],
        },
        threads: &[&[Add(X, 1, Relaxed)], &[Store(X, 5, Relaxed)]],
        finals: &[X],
    },
    Memory {
        litmus: Litmus {
            name: "compare-exchange-race",
            claim: "if two compare-exchanges expect the same value, one succeeds and the other \
                    reads the new value",
            reason: "a read-modify-write reads the last value before its own (atomics.order 10); a \
                     strong compare-exchange fails only if it reads another value",
            allowed: "10011 02102",
            deviations: &[],
        },
        threads: &[
            &[Cas(X, (0, 1), Relaxed, Relaxed)],
            &[Cas(X, (0, 2), Relaxed, Relaxed)],
        ],
        finals: &[X],
    },
    Memory {
        litmus: Litmus {
            name: "compare-exchange-passes",
            claim: "a thread that acquires a lock of one word sees what the last holder did",
            reason: "Acquire on success reads from the Release (atomics.order 2)",
            allowed: "000 001 111",
            deviations: &[],
        },
        threads: &[
            &[Store(Y, 1, Relaxed), Store(X, 1, Release)],
            &[Cas(X, (1, 2), Acquire, Relaxed), Load(Y, Relaxed)],
        ],
        finals: &[],
    },
    Memory {
        litmus: Litmus {
            name: "failed-compare-exchange-relaxed",
            claim: "a compare-exchange that fails with Relaxed acquires nothing",
            reason: "a failed compare-exchange is a load with the failure ordering \
                     (atomics.types.operations)",
            allowed: "000 001 010 011",
            deviations: &[],
        },
        threads: &[
            &[Store(Y, 1, Relaxed), Store(X, 1, Release)],
            &[Cas(X, (5, 6), Acquire, Relaxed), Load(Y, Relaxed)],
        ],
        finals: &[],
    },
    Memory {
        litmus: Litmus {
            name: "failed-compare-exchange-acquire",
            claim: "a compare-exchange that fails with Acquire acquires",
            reason: "a failed compare-exchange is a load with the failure ordering \
                     (atomics.types.operations)",
            allowed: "000 001 011",
            deviations: &[],
        },
        threads: &[
            &[Store(Y, 1, Relaxed), Store(X, 1, Release)],
            &[Cas(X, (5, 6), Acquire, Acquire), Load(Y, Relaxed)],
        ],
        finals: &[],
    },
    Memory {
        litmus: Litmus {
            name: "failed-compare-exchange-stale",
            claim: "a compare-exchange that fails can read a stale value",
            reason: "a failed compare-exchange is a load (atomics.types.operations), which reads \
                     any store that is not hidden",
            allowed: "000 001 100 101",
            deviations: &[misses(Weak, "100", STALE_FAILURE)],
        },
        threads: &[
            &[Store(X, 1, Relaxed), Store(Y, 1, Relaxed)],
            &[Load(Y, Relaxed), Cas(X, (5, 6), Relaxed, Relaxed)],
        ],
        finals: &[],
    },
    Memory {
        litmus: Litmus {
            name: "compare-exchange-fails-on-stale",
            claim: "a strong compare-exchange can fail although the latest value is the expected \
                    one",
            reason: "only a successful compare-exchange must read the last value (atomics.order \
                     10)",
            allowed: "000 011 100 111",
            deviations: &[misses(Weak, "100", STALE_FAILURE)],
        },
        threads: &[
            &[Store(X, 1, Relaxed), Store(Y, 1, Relaxed)],
            &[Load(Y, Relaxed), Cas(X, (1, 2), Relaxed, Relaxed)],
        ],
        finals: &[],
    },
    Memory {
        litmus: Litmus {
            name: "compare-exchange-weak",
            claim: "a weak compare-exchange can fail although the value is the expected one",
            reason: "a weak compare-exchange may fail spuriously (atomics.types.operations)",
            allowed: "000 100 101",
            deviations: &[misses(Weak, "000", SPURIOUS_FAILURE)],
        },
        threads: &[&[CasWeak(X, (0, 1), Relaxed, Relaxed)], &[Load(X, Relaxed)]],
        finals: &[],
    },
];
