//! Lanes: log pages that threads have of their own, so that writers of disjoint pages of a file
//! share no cache line that either changes.
//!
//! # The problem
//! If all writers of a file append to one page, the tail and the state of that page move from core
//! to core with every write. But recovery applies groups in the order of the chain. So if each
//! thread appends to a page of its own, a group may lie before a group that it replaces.
//!
//! # The rule
//! Each page has a [rank](Rank) in memory: a page with a higher rank comes later in the chain. A
//! write may use its thread's lane if that page's rank is at least the rank of every page with a
//! group that the write replaces. The index names these pages. Otherwise it uses the *newest* page,
//! the last one of the chain, whichever lane has it. There, each group comes after all groups that
//! are finished.
//!
//! ```text
//!   chain:      page 1 ───► page 2 ───► page 3 ───► page 4      ranks
//!   lane of       A           —           B           C
//!
//!   A overwrites what only A has written:       page 1
//!   A overwrites a page that B has written:     page 4, the newest
//!   B truncates the file:                       page 4; ranks below 4 are barred from then on
//! ```
//!
//! A truncation, a hole or a time cannot be found through the index by the write that replaces it.
//! So these use the newest page, and raise the *barrier*: later writes use no lane below it.
//!
//! # Properties
//! - **Cost**: a write in its own lane changes no word that another lane's thread changes. It loads
//!   the ranks of the log pages that it replaces groups of.
//! - **When**: a log gets lanes if operations of several threads are under way whenever a page
//!   becomes full, and keeps them while it is in memory.
//! - **Limits**: there are [`LANES`] lanes. Threads with equal numbers, modulo that, share one. A
//!   file of a few hot pages that all threads overwrite is as slow as without lanes.
//! - **Cleaning** keeps pages with open slots, so it closes the lanes that are far behind.
//!
//! F-L7 to F-L10 of `tail.rs` state the rule. The suite `file-core-lanes` checks it.

#[cfg(test)]
mod tests;

use spanlock_sync::atomic::{AtomicU32, AtomicU64, Ordering};
use spanlock_sync::hint::scaled;
use spanlock_sync::thread;

use crate::log::chain::Slots;
use crate::log::end::End;
use crate::medium::log_page::Rank;
use crate::medium::space::Space;

/// The number of lanes of a log. Under a checker, each thread of a program has one.
pub(super) const LANES: usize = scaled(16, 2) as usize;

/// A cleaning closes a lane whose page is this far behind the newest: twice as far as a lane is in
/// use if all threads write equally often.
const STALE: u32 = 2 * LANES as u32;

/// After which groups a new group must come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// After all groups that are finished.
    Last,
    /// After those in pages of up to this rank, and after those that raised the barrier.
    After(Rank),
}

/// A value on cache lines of its own: two, because processors fetch lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Apart<T>(pub(super) T);

/// The ends of a log that has lanes.
#[derive(Debug)]
pub(super) struct Lanes {
    /// See [`Newest`]. Changed under the log's mutex. A write in its own lane does not read it.
    newest: Apart<AtomicU64>,
    /// The highest rank of a page whose groups later writes may not find through the index.
    barrier: Apart<AtomicU32>,
    ends: [Apart<End>; LANES],
}

/// The rank of the newest page, and the lane that has it.
#[derive(Clone, Copy)]
struct Newest(u64);

impl Newest {
    fn new(rank: Rank, lane: usize) -> Newest {
        Newest(u64::from(rank.0) << 32 | lane as u64)
    }

    fn rank(self) -> Rank {
        Rank((self.0 >> 32) as u32)
    }

    fn lane(self) -> usize {
        self.0 as u32 as usize
    }
}

/// Returns the lane that a thread uses.
#[inline]
fn lane_of(thread: usize) -> usize {
    thread % LANES
}

impl Lanes {
    /// Creates lanes without pages.
    pub(super) fn new() -> Lanes {
        Lanes {
            newest: Apart(AtomicU64::new(Newest::new(Rank::LOWEST, 0).0)),
            barrier: Apart(AtomicU32::new(Rank::LOWEST.0)),
            ends: core::array::from_fn(|_| Apart(End::closed())),
        }
    }

    #[inline]
    fn newest(&self) -> Newest {
        // Relaxed: a thread whose group must come after another one has synchronized with that
        // one's thread, by the range lock. So it sees the newest page of that time, or a later one
        // (F-L10).
        Newest(self.newest.0.load(Ordering::Relaxed))
    }

    fn end_of(&self, newest: Newest) -> &End {
        &self.ends[newest.lane()].0
    }

    /// Takes slots of the thread's own page or, if they would come too early there, of the newest.
    #[inline]
    pub(super) fn try_take(&self, space: &Space, count: u32, order: Order) -> Option<Slots> {
        let least = match order {
            Order::Last => return self.take_newest(space, count, None),
            // Relaxed: as in `newest`.
            Order::After(rank) => rank.max(Rank(self.barrier.0.load(Ordering::Relaxed))),
        };
        let own = &self.ends[lane_of(thread::index())].0;
        let seen = own.tail();
        if !seen.has_room(count) {
            // A new page for this lane comes after all others. If the ranks are used up, the lane
            // gets none (F-L7).
            return match self.newest().rank() {
                Rank::HIGHEST => self.take_newest(space, count, Some(least)),
                _ => None,
            };
        }
        match space.log_pages.rank(seen.page()) >= least {
            true => own.take(space, seen, count, least),
            false => self.take_newest(space, count, Some(least)),
        }
    }

    /// Takes slots of the newest page, whose rank must be at least `least`, or that of the newest.
    fn take_newest(&self, space: &Space, count: u32, least: Option<Rank>) -> Option<Slots> {
        let newest = self.newest();
        let end = self.end_of(newest);
        end.take(space, end.tail(), count, least.unwrap_or(newest.rank()))
    }

    /// Returns the rank of the `nth` page that is added next. The caller holds the mutex.
    pub(super) fn next_rank(&self, nth: usize) -> Rank {
        let Rank(newest) = self.newest().rank();
        Rank(newest.saturating_add(1 + nth as u32))
    }

    /// Moves the lane of thread `thread` to slot `slot` of `page`, which is linked and becomes the
    /// newest page, with this rank. The caller holds the mutex.
    pub(super) fn enter(&self, space: &Space, thread: usize, rank: Rank, page: u32, slot: u32) {
        let lane = match rank {
            // The ranks are used up, so one lane gets all pages (F-L7).
            Rank::HIGHEST => 0,
            _ => lane_of(thread),
        };
        // F-L10: this comes first. Relaxed: T of the entry carries it.
        let newest = Newest::new(rank, lane);
        self.newest.0.store(newest.0, Ordering::Relaxed);
        self.ends[lane].0.enter(space, page, slot);
    }

    /// Bars later writes from pages whose rank is less than that of `page`. The caller has slots
    /// there, and holds the range that its group changes.
    pub(super) fn raise_barrier(&self, space: &Space, page: u32) {
        let Rank(rank) = space.log_pages.rank(page);
        // Relaxed: the range lock orders this before the writes that must see it.
        self.barrier.0.fetch_max(rank, Ordering::Relaxed);
    }

    /// Returns whether the newest page has room.
    pub(super) fn has_room(&self, slots: u32) -> bool {
        self.end_of(self.newest()).tail().has_room(slots)
    }

    /// Closes all lanes, so that the slots of their pages settle. The caller holds the mutex.
    pub(super) fn close(&self, space: &Space) {
        self.ends.iter().for_each(|it| it.0.close(space));
    }

    /// Closes the lanes that would keep a cleaning from their pages, but not the lane that has the
    /// newest page: those that are far behind or, if `all`, all of them. Returns how many lanes
    /// besides the newest stay open. The caller holds the mutex.
    pub(super) fn close_old(&self, space: &Space, all: bool) -> usize {
        let newest = self.newest();
        let open = |(lane, it): &(usize, &Apart<End>)| *lane != newest.lane() && it.0.is_open();
        let mut stay = 0;
        for (_, Apart(end)) in self.ends.iter().enumerate().filter(open) {
            // The page has open slots, so this is its rank.
            let Rank(rank) = space.log_pages.rank(end.tail().page());
            if all || rank.saturating_add(STALE) < newest.rank().0 {
                end.close(space);
            } else {
                stay += 1;
            }
        }
        stay
    }

    /// Makes all lanes refuse additions.
    pub(super) fn poison(&self) {
        self.ends.iter().for_each(|it| it.0.poison());
    }
}
