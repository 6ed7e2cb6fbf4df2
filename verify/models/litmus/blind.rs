//! The checkers' known errors, and their consequences.

/// A way in which checkers deviate from the memory model of C++20.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BlindSpot {
    /// Its name.
    pub name: &'static str,
    /// How the checkers deviate.
    pub what: &'static str,
    /// The consequence for our locks, and the checker that covers it.
    pub consequence: &'static str,
}

/// Every blind spot.
pub(crate) const ALL: &[&BlindSpot] = &[
    LOAD_THEN_STORE,
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
    what: "To decide which orders of accesses to explore, loom compares a store or a \
           read-modify-write only with the last access to the word. If that access is a load by \
           the same thread, loom overlooks an earlier racing access by another thread, and does \
           not explore the other order (loom issues 166 and 392).",
    consequence: "To acquire a contended word, a thread loads it and then executes a \
                  compare-exchange. Loom alone would miss errors there. The explorer shows these \
                  executions.",
};

pub(super) const LOAD_BUFFERING: &BlindSpot = &BlindSpot {
    name: "load buffering",
    what: "In C++, a relaxed load may take effect after a later store of the same thread to \
           another word. The checkers execute each thread in program order, so they never show \
           this.",
    consequence: "No checker covers this, so no proof may assume that a relaxed load takes effect \
                  before a later relaxed store. Our proofs do not assume it: a hold begins with an Acquire \
                  and ends with a Release, which keep the accesses in between inside the hold.",
};

pub(super) const READ_BY_RMW: &BlindSpot = &BlindSpot {
    name: "reading by read-modify-write",
    what: "In loom, a read-modify-write reads the value that was stored last in time. In \
           C++, it reads the value just before its own in the modification order of its word. A \
           store that another thread has executed earlier in time may come later in that order.",
    consequence: "If two threads each store one word and then check the other's, loom shows the \
                  race only if a thread checks by a load. The explorer always shows it.",
};

pub(super) const STALE_FAILURE: &BlindSpot = &BlindSpot {
    name: "a failed compare-exchange that reads a stale value",
    what: "A compare-exchange that fails is a load. So it may read an old value, and fail although \
           the latest value is the expected one. Loom does not show this.",
    consequence: "No code takes a failed compare-exchange as proof that the word has changed. \
                  Loops retry with the value that they have read. A thread that stops retrying \
                  enqueues, and checks again after a barrier. The explorer shows such failures.",
};

pub(super) const SEQCST_ACCESSES: &BlindSpot = &BlindSpot {
    name: "SeqCst accesses",
    what: "Loom treats SeqCst loads and stores as Acquire and Release, so it shows outcomes that \
           C++ forbids. Loom's SeqCst fences are correct.",
    consequence: "This causes false alarms only. Where our code needs a total order, it has SeqCst \
                  fences, never SeqCst accesses.",
};

pub(super) const STORE_INTO_RMW: &BlindSpot = &BlindSpot {
    name: "a store inside a read-modify-write",
    what: "Loom allows a plain store by another thread between the read and the write of a \
           read-modify-write, which then overwrites the stored value.",
    consequence: "This causes false alarms only. Our plain stores go to words that no other thread \
                  changes at that time (invariant R-I2 of `range-lock/src/rw_word.rs`).",
};

pub(super) const SPURIOUS_FAILURE: &BlindSpot = &BlindSpot {
    name: "spurious failure",
    what: "In loom, a weak compare-exchange never fails spuriously.",
    consequence: "The explorer covers this in programs of one or two threads: its search tries up to \
                  two faults in an execution.",
};

pub(super) const SPURIOUS_WAKE: &BlindSpot = &BlindSpot {
    name: "spurious wakes",
    what: "In loom, neither a wait on a condition variable nor a `park` ends by itself.",
    consequence: "The explorer covers this, as another kind of fault. Our locks sleep only through \
                  the facade.",
};

pub(super) const TIME_OUT: &BlindSpot = &BlindSpot {
    name: "timeouts",
    what: "In loom, a wait with a time limit never reaches its limit.",
    consequence: "The explorer covers this, as another kind of fault.",
};

pub(super) const TRY_LOCK: &BlindSpot = &BlindSpot {
    name: "failing tries of a mutex",
    what: "Loom never explores a `try_lock` that fails because another thread holds the mutex.",
    consequence: "The facade's mutex has no `try_lock`. A try of one of our locks consists of \
                  atomic operations, which the checkers explore.",
};
