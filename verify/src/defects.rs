//! The defects that are seeded: which lock can make which, and which properties are there to find it.
//!
//! A defect is in a lock's source, beside the line that it breaks: `injected_bug!`. Where a lock has none that others have there is no line of its to break:
//!
//! - `release-by-store`: under the interval tree's mutex there is no word that two change, and readers of `rw-distributed` have words of their own.
//! - `reader-cancel-grants`: only the interval tree grants to those who wait, and so does the gate that stands on it. Who waits for a word takes it himself, so nobody is
//!   granted anything by another's leaving.
//! - `wake-before-change`: in the interval tree whom to wake comes out of the change itself.
//! - `no-aging`: `rw-distributed` does not bound it as a whole.
//! - `waiter-stays`: the other locks wait by the word's queue, or by the interval tree's.
//! - `srl-gate` is `srl-array` with a wide range: its words are taken and given back by the same lines.
//! - `try-keeps`: who finds all that he wants in one word or one tree takes it in one step.

use std::str::FromStr;

use Defect::*;

macro_rules! defects {
    ($($defect:ident $name:literal $what:literal)*) => {
        /// A mistake that was made in some lock before, or that is easily made.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Defect {
            $(#[doc = $what] $defect,)*
        }

        impl Defect {
            /// All of them.
            pub const ALL: &[Defect] = &[$(Defect::$defect),*];

            /// Its name, as one gives it to `cargo verify`: `no-recheck`.
            pub const fn name(self) -> &'static str {
                match self { $(Defect::$defect => $name),* }
            }

            /// What is done wrong.
            pub const fn what(self) -> &'static str {
                match self { $(Defect::$defect => $what),* }
            }
        }
    };
}

defects! {
    ReleaseByStore "release-by-store"
        "a hold of a word that others hold too is given back by a load and a store, not by a read-modify-write"
    NoEndStop "no-end-stop"
        "who walks over a range does not stop at its end"
    NoRecheck "no-recheck"
        "who has joined a queue sleeps without a second look at what it waits for"
    ReaderCancelGrants "reader-cancel-grants"
        "a waiting reader that gives up is taken out of the counts of those who never counted it"
    WakeBeforeChange "wake-before-change"
        "those who wait are woken, and then what they wait for is changed"
    NoAging "no-aging"
        "nobody counts how many arrivals pass a waiter"
    GateScanSkipped "gate-scan-skipped"
        "a wide request with its entry does not look whether small ones hold words of its range"
    GateLookSkipped "gate-look-skipped"
        "a small request that has its words does not look whether the gate is closed"
    NodeFreedTooEarly "node-freed-too-early"
        "a node that was unlinked is freed before those have left who had found it"
    TryKeeps "try-keeps"
        "a try that fails keeps what it had taken until then"
    WaiterStays "waiter-stays"
        "who gives up leaves its place in the queue behind"
    TicketTwice "ticket-twice"
        "a ticket is taken by a load and a store, so that two can have the same"
    LateJoin "late-join"
        "a handle joins a transaction that is locked for its commit"
    CommitBlockTooEarly "commit-block-too-early"
        "the commit block is written before what it commits is flushed"
    FlushErrorSwallowed "flush-error-swallowed"
        "a flush that failed is taken for one that did not"
    NoSettle "no-settle"
        "who has flushed does not wait for what else was under way, and may fail"
    PoisonUntold "poison-untold"
        "a failure is noted, and those who wait are not woken"
    RightDiesWithOwner "right-dies-with-owner"
        "who leaves the commit block unwritten keeps the right to write it"
}

impl FromStr for Defect {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.iter().find(|defect| defect.name() == name);
        found.copied().ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|defect| defect.name()).collect();
            format!(
                "no defect is called `{name}`: there are {}",
                names.join(", ")
            )
        })
    }
}

/// A defect in a lock.
#[derive(Clone, Debug)]
pub struct Seeded {
    /// What is done wrong.
    pub defect: Defect,
    /// Who does it.
    pub primitive: &'static str,
    /// The properties that it breaks: the models of one of them must fail.
    pub properties: &'static [&'static str],
}

impl Seeded {
    /// The name that `--filter` looks at: `no-recheck/srl-array`.
    pub fn name(&self) -> String {
        format!("{}/{}", self.defect.name(), self.primitive)
    }
}

/// Defects, the primitives that make them, and the properties that find them there.
#[rustfmt::skip]
const SEEDED: &[(Defect, &[&str], &[&str])] = &[
    (ReleaseByStore, &["rw-word"], &["downgrade-upgradable", "give-up-reader"]),
    (ReleaseByStore, &["packed-word"], &["exclusion", "exclusion-read-write"]),
    (ReleaseByStore, &["rw-counter", "srl-array", "srl-packed", "srl-tree"], &["readers-share"]),
    (NoEndStop, &["srl-array", "srl-packed", "srl-tree", "srl-gate", "interval-tree"], &["disjoint"]),
    (NoRecheck, &["rw-word"], &["give-up", "full-count"]),
    (NoRecheck, &["rw-counter", "rw-distributed", "srl-array", "srl-packed", "srl-tree", "interval-tree"], &["wakeup", "poll"]),
    (ReaderCancelGrants, &["interval-tree", "srl-gate"], &["cancel-reader"]),
    (WakeBeforeChange, &["rw-word"], &["give-up", "full-count"]),
    (WakeBeforeChange, &["rw-counter", "rw-distributed", "srl-array", "srl-packed", "srl-tree"], &["wakeup"]),
    (NoAging, &["rw-word", "rw-counter", "srl-array", "srl-packed", "srl-tree", "interval-tree"], &["bounded-overtaking"]),
    (GateScanSkipped, &["srl-gate"], &["exclusion", "exclusion-read-write", "exclusion-write-read"]),
    (GateScanSkipped, &["srl-array", "srl-packed", "srl-tree"], &["batch"]),
    (GateLookSkipped, &["srl-gate"], &["exclusion", "exclusion-read-write", "exclusion-write-read"]),
    (GateLookSkipped, &["srl-tree"], &["reclamation"]),
    (NodeFreedTooEarly, &["srl-tree"], &["reclamation"]),
    (NodeFreedTooEarly, &["sections"], &["grace", "recall"]),
    (TryKeeps, &["rw-distributed", "srl-array", "srl-tree"], &["try-leaves-no-trace"]),
    (WaiterStays, &["rw-word"], &["give-up", "give-up-writer"]),
    (WaiterStays, &["interval-tree"], &["cancel", "cancel-writer"]),
    (NoRecheck, &["journal-signal"], &["wake-each", "wake-deadline", "wake-3"]),
    (WakeBeforeChange, &["journal-owner"], &["seal-each"]),
    (WakeBeforeChange, &["journal-updates"], &["drain", "drain-3"]),
    (TicketTwice, &["journal-tickets"], &["hand-over", "hand-over-3"]),
    (LateJoin, &["journal-updates"], &["drain", "drain-3"]),
    (RightDiesWithOwner, &["journal-owner"], &["hand-on", "let-go-each"]),
    (CommitBlockTooEarly, &["journal-submission"], &["wait", "help"]),
    (FlushErrorSwallowed, &["journal-submission"], &["flush-fails"]),
    (FlushErrorSwallowed, &["compact-group"], &["fail-each", "fail-one"]),
    (NoSettle, &["journal-medium"], &["beside-a-failure", "beside-a-death"]),
    (NoSettle, &["journal-submission"], &["beside-a-failure"]),
    (NoSettle, &["compact-group"], &["fail-beside"]),
    (PoisonUntold, &["journal-medium"], &["told", "beside-a-failure"]),
    (PoisonUntold, &["journal-submission"], &["flush-fails", "write-fails"]),
    (PoisonUntold, &["compact-group"], &["fail-each"]),
    (PoisonUntold, &["compact-rendezvous"], &["fail-alone"]),
];

/// Every defect in every lock that can make it.
pub fn seeded() -> Vec<Seeded> {
    let all = SEEDED.iter().flat_map(|&(defect, primitives, properties)| {
        primitives.iter().map(move |&primitive| Seeded {
            defect,
            primitive,
            properties,
        })
    });
    all.collect()
}
