//! Programs that need one total order: store buffering, independent reads, writes in opposite
//! orders.

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
            name: "store-buffering",
            claim: "two threads that store and then load may both miss the other's store (SB)",
            reason: "nothing orders a store before a later load of another word",
            allowed: "00 01 10 11",
            deviations: &[],
        },
        threads: &[
            &[Store(X, 1, Relaxed), Load(Y, Relaxed)],
            &[Store(Y, 1, Relaxed), Load(X, Relaxed)],
        ],
        finals: &[],
    },
    Memory {
        litmus: Litmus {
            name: "store-buffering-fenced",
            claim: "with a SeqCst fence on both sides, at least one thread sees the other's store; \
                    our wait queue relies on this",
            reason: "SeqCst fences have a total order; the load after the later fence sees the \
                     store before the earlier one (atomics.order 4.4)",
            allowed: "01 10 11",
            deviations: &[],
        },
        threads: &[
            &[Store(X, 1, Relaxed), Fence(SeqCst), Load(Y, Relaxed)],
            &[Store(Y, 1, Relaxed), Fence(SeqCst), Load(X, Relaxed)],
        ],
        finals: &[],
    },
    Memory {
        litmus: Litmus {
            name: "store-buffering-one-fence",
            claim: "a SeqCst fence on one side alone does not forbid store buffering",
            reason: "a total order of one fence constrains nothing",
            allowed: "00 01 10 11",
            deviations: &[],
        },
        threads: &[
            &[Store(X, 1, Relaxed), Fence(SeqCst), Load(Y, Relaxed)],
            &[Store(Y, 1, Relaxed), Load(X, Relaxed)],
        ],
        finals: &[],
    },
    Memory {
        litmus: Litmus {
            name: "store-buffering-weak-fences",
            claim: "fences that are not SeqCst do not forbid store buffering",
            reason: "AcqRel fences do not order a store before a later load",
            allowed: "00 01 10 11",
            deviations: &[],
        },
        threads: &[
            &[Store(X, 1, Relaxed), Fence(AcqRel), Load(Y, Relaxed)],
            &[Store(Y, 1, Relaxed), Fence(AcqRel), Load(X, Relaxed)],
        ],
        finals: &[],
    },
    Memory {
        litmus: Litmus {
            name: "store-buffering-seqcst",
            claim: "SeqCst accesses on both sides forbid store buffering",
            reason: "one store is first in the total order, and the other thread's load comes \
                     after it (atomics.order 4.1)",
            allowed: "01 10 11",
            deviations: &[adds(Weak, "00", SEQCST_ACCESSES)],
        },
        threads: &[
            &[Store(X, 1, SeqCst), Load(Y, SeqCst)],
            &[Store(Y, 1, SeqCst), Load(X, SeqCst)],
        ],
        finals: &[],
    },
    Memory {
        litmus: Litmus {
            name: "store-buffering-mixed",
            claim: "a SeqCst fence on one side and SeqCst accesses on the other forbid store \
                    buffering",
            reason: "the total order contains the fence and the accesses (atomics.order 4.2, 4.3)",
            allowed: "01 10 11",
            deviations: &[adds(Weak, "00", SEQCST_ACCESSES)],
        },
        threads: &[
            &[Store(X, 1, Relaxed), Fence(SeqCst), Load(Y, Relaxed)],
            &[Store(Y, 1, SeqCst), Load(X, SeqCst)],
        ],
        finals: &[],
    },
    Memory {
        litmus: Litmus {
            name: "store-buffering-swaps",
            claim: "a store by an AcqRel read-modify-write does not forbid store buffering",
            reason: "AcqRel does not order the write before a later load of another word",
            allowed: "0000 0001 0100 0101",
            deviations: &[],
        },
        threads: &[
            &[Swap(X, 1, AcqRel), Load(Y, Acquire)],
            &[Swap(Y, 1, AcqRel), Load(X, Acquire)],
        ],
        finals: &[],
    },
    Memory {
        litmus: Litmus {
            name: "store-buffering-seqcst-swaps",
            claim: "stores by SeqCst read-modify-writes and SeqCst loads forbid store buffering",
            reason: "all four are in the total order (atomics.order 4.1)",
            allowed: "0001 0100 0101",
            deviations: &[adds(Weak, "0000", SEQCST_ACCESSES)],
        },
        threads: &[
            &[Swap(X, 1, SeqCst), Load(Y, SeqCst)],
            &[Swap(Y, 1, SeqCst), Load(X, SeqCst)],
        ],
        finals: &[],
    },
    Memory {
        litmus: Litmus {
            name: "store-buffering-read-by-add",
            claim: "reading by a read-modify-write does not forbid store buffering",
            reason: "a read-modify-write reads the latest value in its own word's order, which is \
                     unrelated to another word's",
            allowed: "00 01 10 11",
            deviations: &[misses(Weak, "00", READ_BY_RMW)],
        },
        threads: &[
            &[Store(X, 1, Relaxed), Add(Y, 0, AcqRel)],
            &[Store(Y, 1, Relaxed), Add(X, 0, AcqRel)],
        ],
        finals: &[],
    },
    Memory {
        litmus: Litmus {
            name: "independent-reads",
            claim: "two readers may see two stores in different orders (IRIW)",
            reason: "no thread's stores are ordered against another's (C++ is not multi-copy \
                     atomic)",
            allowed: "0000 0001 0010 0011 0100 0101 0110 0111 1000 1001 1010 1011 1100 1101 1110 1111",
            deviations: &[],
        },
        threads: &[
            &[Load(X, Acquire), Load(Y, Acquire)],
            &[Load(Y, Acquire), Load(X, Acquire)],
            &[Store(X, 1, Release)],
            &[Store(Y, 1, Release)],
        ],
        finals: &[],
    },
    Memory {
        litmus: Litmus {
            name: "independent-reads-fenced",
            claim: "with a SeqCst fence between each reader's loads, both readers see the stores \
                    in the same order",
            reason: "one fence is first in the total order; the thread with the other fence then \
                     sees what was seen before that first fence (atomics.order 4.4)",
            allowed: "0000 0001 0010 0011 0100 0101 0110 0111 1000 1001 1011 1100 1101 1110 1111",
            deviations: &[],
        },
        threads: &[
            &[Load(X, Relaxed), Fence(SeqCst), Load(Y, Relaxed)],
            &[Load(Y, Relaxed), Fence(SeqCst), Load(X, Relaxed)],
            &[Store(X, 1, Relaxed)],
            &[Store(Y, 1, Relaxed)],
        ],
        finals: &[],
    },
    Memory {
        litmus: Litmus {
            name: "independent-reads-seqcst",
            claim: "if all accesses are SeqCst, both readers see the stores in the same order",
            reason: "all accesses are in the total order (atomics.order 4.1)",
            allowed: "0000 0001 0010 0011 0100 0101 0110 0111 1000 1001 1011 1100 1101 1110 1111",
            deviations: &[adds(Weak, "1010", SEQCST_ACCESSES)],
        },
        threads: &[
            &[Load(X, SeqCst), Load(Y, SeqCst)],
            &[Load(Y, SeqCst), Load(X, SeqCst)],
            &[Store(X, 1, SeqCst)],
            &[Store(Y, 1, SeqCst)],
        ],
        finals: &[],
    },
    Memory {
        litmus: Litmus {
            name: "two-plus-two-writes",
            claim: "two threads write two words in opposite orders, and both first writes can end \
                    up last (2+2W)",
            reason: "the modification orders of two words are unrelated",
            allowed: "11 12 21 22",
            deviations: &[],
        },
        threads: &[
            &[Store(X, 1, Relaxed), Store(Y, 2, Relaxed)],
            &[Store(Y, 1, Relaxed), Store(X, 2, Relaxed)],
        ],
        finals: &[X, Y],
    },
    Memory {
        litmus: Litmus {
            name: "two-plus-two-writes-released",
            claim: "Release stores alone do not forbid 2+2W",
            reason: "synchronizing needs a read (atomics.order 2)",
            allowed: "11 12 21 22",
            deviations: &[],
        },
        threads: &[
            &[Store(X, 1, Release), Store(Y, 2, Release)],
            &[Store(Y, 1, Release), Store(X, 2, Release)],
        ],
        finals: &[X, Y],
    },
    Memory {
        litmus: Litmus {
            name: "two-plus-two-writes-fenced",
            claim: "SeqCst fences between the stores forbid 2+2W",
            reason: "one fence is first in the total order, and modification orders agree with it \
                     (atomics.order 4.4)",
            allowed: "12 21 22",
            deviations: &[],
        },
        threads: &[
            &[Store(X, 1, Relaxed), Fence(SeqCst), Store(Y, 2, Relaxed)],
            &[Store(Y, 1, Relaxed), Fence(SeqCst), Store(X, 2, Relaxed)],
        ],
        finals: &[X, Y],
    },
    Memory {
        litmus: Litmus {
            name: "write-read-fenced",
            claim: "if T1's store to a word comes after T0's, then T1 also sees what T0 stored \
                    before T0's fence (R)",
            reason: "one fence is first in the total order (atomics.order 4.4)",
            allowed: "01 11 12",
            deviations: &[],
        },
        threads: &[
            &[Store(X, 1, Relaxed), Fence(SeqCst), Store(Y, 1, Relaxed)],
            &[Store(Y, 2, Relaxed), Fence(SeqCst), Load(X, Relaxed)],
        ],
        finals: &[Y],
    },
];
