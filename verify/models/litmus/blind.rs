//! The checkers' known errors, and their consequences.

/// A way in which checkers deviate from the memory model.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BlindSpot {
    /// Its name.
    pub name: &'static str,
    /// How the checkers deviate.
    pub what: &'static str,
    /// The consequence for our locks, and the mode that covers it.
    pub consequence: &'static str,
}

/// Every blind spot.
pub(crate) const ALL: &[&BlindSpot] = &[
    LOAD_THEN_STORE,
    STALE_READS,
    LOAD_BUFFERING,
    READ_BY_RMW,
    STALE_FAILURE,
    SEQCST_ACCESSES,
    STORE_INTO_RMW,
    SPURIOUS_FAILURE,
    SPURIOUS_WAKE,
    TIME_OUT,
    TRY_LOCK,
];

pub(super) const LOAD_THEN_STORE: &BlindSpot = &BlindSpot {
    name: "load, then store",
    what: "Stock loom compares a store or a read-modify-write only with the last access of the \
           word. A thread's own earlier load then stands in for the racing access, and loom does \
           not try the other order (loom issues 166 and 392).",
    consequence: "A contended acquisition of a word reads it, then executes a compare-exchange. \
                  `rmw-load` has no loads, and `dfs` has no such reduction, so both show these \
                  interleavings. Therefore the full run has every program of two threads in all \
                  three modes, except those of a whole journal and those with faults of their \
                  own. A `dfs` row fails if it shows an outcome that loom's two modes together do \
                  not.",
};

pub(super) const STALE_READS: &BlindSpot = &BlindSpot {
    name: "stale reads",
    what: "In `rmw-load` every load is a read-modify-write, and under shuttle every operation is \
           SeqCst. A load always sees the latest value.",
    consequence: "These modes show no outcome that needs a stale value. `weak` does: every \
                  program of two threads runs in it, and the mutants weaken each ordering there.",
};

pub(super) const LOAD_BUFFERING: &BlindSpot = &BlindSpot {
    name: "load buffering",
    what: "No checker lets a load see a store that is executed later: each executes the steps of a \
           thread in order.",
    consequence: "No mode covers it, so no argument may rest on a relaxed load staying before a \
                  later relaxed store. Ours do not: a hold ends with a Release, which keeps \
                  everything before it, and begins with an Acquire, which keeps everything after \
                  it.",
};

pub(super) const READ_BY_RMW: &BlindSpot = &BlindSpot {
    name: "reading by read-modify-write",
    what: "A read-modify-write reads the value that was stored last in time, as if stores reached \
           every word at once. C++ ties it only to its own word's modification order, in which \
           another thread's earlier store may come later.",
    consequence: "Where two sides store to one word and check another, loom shows the race only \
                  through a side that checks by a load. In our wait queue the releasing side does \
                  (`is_occupied`), so the models show that both barriers are needed. The waiter \
                  checks by a compare-exchange, and keeps its barrier all the same.",
};

pub(super) const STALE_FAILURE: &BlindSpot = &BlindSpot {
    name: "a failed compare-exchange that reads a stale value",
    what: "A compare-exchange that fails is a load. It may read an old value and so fail although \
           the latest value is the expected one. No mode shows that.",
    consequence: "No code takes a failed compare-exchange as proof that the word has changed. \
                  Loops retry with the value read, and a thread that gives up enqueues and \
                  rechecks after the barrier. Fault plans make weak compare-exchanges fail for no \
                  reason, and every compare-exchange in the loops of our locks is weak.",
};

pub(super) const SEQCST_ACCESSES: &BlindSpot = &BlindSpot {
    name: "SeqCst accesses",
    what: "Loom treats SeqCst loads and stores as Acquire and Release, and so shows forbidden \
           outcomes. Its SeqCst fences are right.",
    consequence: "False alarms only. Where our code needs a total order it has SeqCst fences, \
                  never SeqCst accesses.",
};

pub(super) const STORE_INTO_RMW: &BlindSpot = &BlindSpot {
    name: "a store inside a read-modify-write",
    what: "Loom lets a plain store that races with a read-modify-write fall between its read and \
           its write, where the store is lost.",
    consequence: "False alarms only. Our plain stores go to words that no other thread changes \
                  meanwhile (R-I2). In `rmw-load`, stores are swaps.",
};

pub(super) const SPURIOUS_FAILURE: &BlindSpot = &BlindSpot {
    name: "spurious failure",
    what: "A weak compare-exchange never fails spuriously.",
    consequence: "Covered by fault plans in both modes of loom: with `weak-cas@t.i`, the i-th weak \
                  compare-exchange of thread t fails.",
};

pub(super) const SPURIOUS_WAKE: &BlindSpot = &BlindSpot {
    name: "spurious wakes",
    what: "No wait on a condition variable ends by itself. Loom's `park` does not either; \
           shuttle's does.",
    consequence: "Covered by fault plans in both modes of loom: with `spurious-wake@t.i`, the \
                  i-th sleep of thread t ends by itself. Our locks sleep only through the facade.",
};

pub(super) const TIME_OUT: &BlindSpot = &BlindSpot {
    name: "timeouts",
    what: "No wait with a time limit ends by its limit.",
    consequence: "Covered by fault plans in both modes of loom: with `time-out@t.i`, the i-th \
                  sleep of thread t with a deadline ends by it.",
};

pub(super) const TRY_LOCK: &BlindSpot = &BlindSpot {
    name: "failing tries of a mutex",
    what: "Loom never explores a `try_lock` that fails because another thread holds the mutex.",
    consequence: "The facade's mutex has no `try_lock`. Tries of our locks are atomic operations, \
                  and are explored as such.",
};
