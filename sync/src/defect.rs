//! Mistakes that a lock can be told to make, to see that the models find them.
//!
//! Each stands beside the line that it breaks: `if defect(Defect::NoRecheck) { … }`. Under a checker a model's configuration says which one is made; as
//! shipped [`defect`] is a constant, and nothing is left of any.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::str::FromStr;

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

/// Whether the caller is to make this mistake. Never as shipped.
#[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
#[inline(always)]
pub const fn defect(_defect: Defect) -> bool {
    false
}

/// Whether the caller is to make this mistake: if the model's [configuration](crate::check::Config) says so.
#[cfg(any(spanlock_loom, spanlock_shuttle))]
#[track_caller]
pub fn defect(defect: Defect) -> bool {
    crate::check::is_made(defect)
}
