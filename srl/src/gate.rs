//! The gate: where requests of many segments and requests of a few meet.
//!
//! # The problem
//! A request of the whole file must not take every segment's word: at 4 KiB a segment, a gigabyte has 262,144 of them. And whoever takes a page must not pay for
//! the possibility that somebody wants the whole file.
//!
//! # How
//! A **wide** request takes no words. It has an entry in an interval tree ([`spanlock_interval_lock`]) where wide requests wait for each other, first come,
//! first served; the gate is *closed* while there is one. Once its entry is granted it *scans* the words of its range by plain loads, and
//! waits at each that somebody holds in conflict. A **small** request takes its words, then looks at the gate: open, as a rule, and it is done. If it is closed, the
//! small request asks the interval tree. If no entry conflicts it is done too. Otherwise it backs off: gives its words back, and gets an entry
//! behind the others. When that is granted it takes its words, and leaves the tree: its hold is in the words, as any small one's.
//!
//! | | small request | | wide request |
//! |---|---|---|---|
//! | 1 | takes its words | 1 | closes the gate, has its entry |
//! | 2 | light barrier | 2 | heavy barrier |
//! | 3 | looks at the gate, and at the entries if it is closed | 3 | scans the words |
//!
//! # Invariants
//! - **G-I1** The gate is closed while a wide request has an entry.
//! - **G-I2** Of a small and a wide request that conflict, one sees the other. Both write, pass a barrier, and read what the other wrote: either the scan sees the words taken, and
//!   waits for them; or the small request sees the gate closed, hence the entry, and backs off.
//! - **G-I3** So no small hold conflicts with a wide one: the wide one is granted after its scan, and every small request that took a word later than that backs off.
//! - **G-I4** Nobody waits in a circle. A small request waits for an entry only when it holds no words, and at words only in ascending order; a wide one waits
//!   for an entry only when it has nothing, and then for holders of words, all of whom have got past the gate, or back off from it, or wait at a higher word.
//! - **G-I6** No section ([`Space::enter`](crate::Space::enter)) ends while a small request holds words that have not passed the gate, unless it has an entry of its own. So whoever
//!   closes the gate, finds words free, unlinks them and waits for all sections to end, frees words that nobody uses. A request looks at the gate after each
//!   [`Piece`](crate::Piece): what it must give back in that one it has in its hands, for it may be linked no longer; what has passed is found as any hold.
//! - **G-I5** Nobody starves. A wide request is passed by no small one that comes later and conflicts: it backs off. A small one that has backed off is passed by no wide
//!   one that comes later: it has an entry.
//!
//! # Orderings
//!
//! | letter | where | ordering | pairs with | needed by the model |
//! |---|---|---|---|---|
//! | J | small: between taking the words and the look at the gate | light barrier | K | `srl-gate/try-leaves-no-trace` |
//! | K | wide: between closing the gate and the scan | heavy barrier | J | `srl-gate/try-leaves-no-trace` |
//! | L | opening the gate ([`Flag::lower`]) | Release | M | `srl-gate/try-leaves-no-trace` |
//! | M | small: the look at the gate ([`Flag::is_raised`]) | Acquire | L | `srl-gate/try-leaves-no-trace` |
//!
//! Between wide requests, and between a wide and a small one that saw the gate closed, the interval tree's mutex orders.

use core::ops::Range;

use spanlock_interval_lock::IntervalLock;
use spanlock_range_lock::Access;
use spanlock_sync::atomic::Ordering::Acquire;
use spanlock_sync::barrier::{self, Flag};
use spanlock_sync::{DefaultPark, Park, injected_bug};

use crate::lock::entry_of;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Gate<P = DefaultPark> {
    /// How many wide requests there are.
    wide: Flag,
    entries: IntervalLock<P>,
}

impl Default for Gate {
    /// An open one.
    fn default() -> Self {
        Gate {
            wide: Flag::default(),
            entries: IntervalLock::new(),
        }
    }
}

impl<P: Park> Gate<P> {
    /// The same gate, whose waiters sleep by `Q`.
    pub(crate) fn with_parking<Q: Park>(self) -> Gate<Q> {
        Gate {
            wide: self.wide,
            entries: self.entries.with_parking(),
        }
    }

    /// Closes the gate for one more wide request.
    pub(crate) fn close(&self) {
        // The barrier K orders it before the scan.
        self.wide.raise();
    }

    /// Opens the gate for one wide request.
    pub(crate) fn open(&self) {
        // Release [L→M]: what was done under the wide hold is seen by whoever finds the gate open.
        self.wide.lower();
    }

    /// Between closing the gate and the scan.
    pub(crate) fn before_scan(&self) {
        // Heavy [K→J].
        barrier::heavy();
    }

    /// Whether a small request that has taken its words has to back off.
    #[inline]
    pub(crate) fn stops(&self, touched: &Range<u64>, access: Access) -> bool {
        self.is_closed() && self.would_block(touched, access)
    }

    /// Whether a small request that has taken its words has to ask [whether it has to back off](Self::would_block).
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        // Light [J→K], Acquire [M→L].
        self.wide.is_raised(Acquire)
            && !injected_bug!(
                "gate-look-skipped",
                "a small request that has taken its words does not check the gate",
                killed_by = "srl-gate/exclusion, srl-gate/exclusion-read-write, \
                    srl-gate/exclusion-write-read, reclamation"
            )
    }

    /// Whether a small request that found the gate closed has to back off.
    #[cold]
    pub(crate) fn would_block(&self, touched: &Range<u64>, access: Access) -> bool {
        self.entries.would_block(entry_of(touched), access)
    }

    /// The requests that have entries: wide ones, and small ones that have backed off.
    pub(crate) fn entries(&self) -> &IntervalLock<P> {
        &self.entries
    }
}
