//! Where the checkers are known to err, and what follows.

/// A way in which checkers deviate from the memory model.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BlindSpot {
    /// Its name.
    pub name: &'static str,
    /// What is so.
    pub what: &'static str,
    /// What follows for our locks, and which mode covers it.
    pub consequence: &'static str,
}

/// Every one.
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
    what: "Stock loom compares a store or a read-modify-write with the last access of the word only, and a thread's own earlier load stands \
           in for the racing one: it does not try the other order (loom issues 166 and 392).",
    consequence: "Every take of a word is a load, then a compare-exchange. `rmw-load` has no loads, and `dfs` no such reduction: both show \
                  these interleavings, so every program of two threads runs in all three, but for those of a whole journal and those with faults of their own, and its row fails if the two modes of loom together do not show what `dfs` does.",
};

pub(super) const STALE_READS: &BlindSpot = &BlindSpot {
    name: "stale reads",
    what: "In `rmw-load` every load is a read-modify-write, and under shuttle every operation is SeqCst: a load sees the latest value.",
    consequence: "Nothing that depends on an ordering is shown by these modes; `weak` shows it. Every program of two threads runs in `weak`, and the mutants test weakens \
                  each ordering there.",
};

pub(super) const LOAD_BUFFERING: &BlindSpot = &BlindSpot {
    name: "load buffering",
    what: "No checker lets a load see a store that is executed later: they execute each thread in its order.",
    consequence: "No mode covers it, so no argument may rest on a relaxed load staying before a later relaxed store. Ours do not: what ends a hold is a \
                  Release, which keeps everything before it, and what begins one an Acquire, which keeps everything after it.",
};

pub(super) const READ_BY_RMW: &BlindSpot = &BlindSpot {
    name: "reading by read-modify-write",
    what: "A read-modify-write reads the value that was stored last in time, as if stores reached every word at once. C++ ties it to its own word's order only: \
           another thread's earlier store may come later in it.",
    consequence: "Of two sides that store to one word and look at another, loom shows the race only through a side that looks by a load. In our \
                  waiting the changer does (`is_occupied`), so both barriers are shown to be needed; neither is left out because the waiter looks by a compare-exchange.",
};

pub(super) const STALE_FAILURE: &BlindSpot = &BlindSpot {
    name: "a failed compare-exchange that reads a stale value",
    what: "A compare-exchange that fails is a load, and may see an old value, so that it fails although the latest is the expected one. No mode shows \
           that.",
    consequence: "A failure is never taken as news: loops try again with what was read, and who gives up joins the queue and looks once more behind the barrier. \
                  That a take fails for no reason is covered for the weak ones, which all of ours in loops are, by fault plans.",
};

pub(super) const SEQCST_ACCESSES: &BlindSpot = &BlindSpot {
    name: "SeqCst accesses",
    what: "Loom takes SeqCst loads and stores for Acquire and Release: it shows outcomes that are forbidden. Its SeqCst fences are right.",
    consequence: "False alarms, nothing missed. Where order is needed our code has SeqCst fences, never SeqCst accesses.",
};

pub(super) const STORE_INTO_RMW: &BlindSpot = &BlindSpot {
    name: "a store inside of a read-modify-write",
    what: "Loom lets a plain store that races with a read-modify-write fall between its read and its write, where it is lost.",
    consequence: "False alarms, nothing missed. A plain store of ours goes to a word that nobody else changes meanwhile (R-I2); in `rmw-load` stores are swaps.",
};

pub(super) const SPURIOUS_FAILURE: &BlindSpot = &BlindSpot {
    name: "spurious failure",
    what: "A weak compare-exchange never fails by itself.",
    consequence: "Covered by fault plans (`weak-cas@t.i`: the i-th one of thread t fails), in both modes of loom.",
};

pub(super) const SPURIOUS_WAKE: &BlindSpot = &BlindSpot {
    name: "spurious wakes",
    what: "No wait on a condition variable ends by itself; loom's `park` does not, shuttle's does.",
    consequence: "Covered by fault plans (`spurious-wake@t.i`: the i-th sleep of thread t ends by itself), in both modes of loom. Our locks sleep by the door alone.",
};

pub(super) const TIME_OUT: &BlindSpot = &BlindSpot {
    name: "time-outs",
    what: "No wait with a time limit ends by its limit.",
    consequence: "Covered by fault plans (`time-out@t.i`: the i-th sleep of thread t with a deadline ends by it), in both modes of loom.",
};

pub(super) const TRY_LOCK: &BlindSpot = &BlindSpot {
    name: "failing tries of a mutex",
    what: "Loom does not try `try_lock` of its mutex while another thread holds it.",
    consequence: "The door's mutex has no `try_lock`. Tries of our locks are atomic operations, and explored as such.",
};
