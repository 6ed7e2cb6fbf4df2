//! An end of a log: the word from which slots of one page are reserved. The invariants and letters
//! are those of `tail.rs`.

use spanlock_sync::atomic::{AtomicU64, Ordering};

use crate::log::chain::Slots;
use crate::medium::layout::PAGE_SLOTS;
use crate::medium::log_page::Rank;
use crate::medium::space::Space;

/// The value of an [`End`]: a page, and the next slot there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tail(pub(super) u64);

impl Tail {
    pub(super) const POISON: u64 = 1 << 31;

    pub(super) fn new(page: u32, slot: u32) -> Tail {
        Tail(u64::from(page) << 32 | u64::from(slot))
    }

    pub(super) fn page(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn slot(self) -> u32 {
        self.0 as u32 & !(Tail::POISON as u32)
    }

    pub(super) fn is_poisoned(self) -> bool {
        self.0 & Tail::POISON != 0
    }

    pub(super) fn has_room(self, slots: u32) -> bool {
        !self.is_poisoned() && self.slot() + slots <= PAGE_SLOTS
    }

    /// Returns the number of slots in the page that are not reserved.
    pub(super) fn left(self) -> u32 {
        PAGE_SLOTS.saturating_sub(self.slot())
    }
}

/// A place where operations reserve slots: a page of the log, and the first slot there that is not
/// reserved. See [`Tail`].
#[derive(Debug)]
pub(super) struct End(pub(super) AtomicU64);

impl End {
    pub(super) fn new(page: u32, slot: u32) -> End {
        End(AtomicU64::new(Tail::new(page, slot).0))
    }

    /// Creates an end without room.
    pub(super) fn closed() -> End {
        End::new(0, PAGE_SLOTS)
    }

    /// Returns a value that may be outdated.
    #[inline]
    pub(super) fn tail(&self) -> Tail {
        // Relaxed: `take` checks what it finds; the other callers hold the mutex, or need only the
        // poison, for which see the orderings of `tail.rs`.
        Tail(self.0.load(Ordering::Relaxed))
    }

    /// Takes slots, if there is room and the page's rank is at least `least`. The caller has loaded
    /// `seen`, and would use its page.
    #[inline]
    pub(super) fn take(&self, space: &Space, seen: Tail, count: u32, least: Rank) -> Option<Slots> {
        // Without this check, a long group would close a page in which shorter ones have room, and
        // repeated failed additions would overflow the slot into the poison bit and the page
        // number. With it, a thread fails at most once on each page: its own addition shows it that
        // the room is gone. A value that is outdated makes the addition fail, or sends the thread
        // to the mutex, under which it looks again.
        if !seen.has_room(count) {
            return None;
        }
        // Acquire [U←T]: the page's state and rank, and that it is linked.
        let tail = Tail(self.0.fetch_add(u64::from(count), Ordering::Acquire));
        // F-L8: another page may have come since the caller has looked. The slots keep it from
        // being freed, so this is its rank.
        if tail.has_room(count)
            && (least == Rank::LOWEST || space.log_pages.rank(tail.page()) >= least)
        {
            return Some(Slots {
                page: tail.page(),
                slot: tail.slot(),
                count,
                further: Vec::new(),
            });
        }
        // Another thread took the room, changed the page or poisoned the log.
        self.skip_added(space, tail, count);
        None
    }

    /// Skips the slots that an addition of `count` to the value `before` has moved past (F-L3).
    pub(super) fn skip_added(&self, space: &Space, before: Tail, count: u32) {
        let passed = before.left().min(count);
        space.log_pages.skip(before.page(), passed);
    }

    /// Moves to slot `slot` of `page`, which is linked. The caller holds the mutex. Returns the
    /// value before.
    pub(super) fn enter(&self, space: &Space, page: u32, slot: u32) -> Tail {
        let mut before = self.tail();
        loop {
            let new = Tail::new(page, slot).0 | before.0 & Tail::POISON;
            // Release [T→U]: the page's state and rank, and that it is linked. Relaxed on
            // failure: tried again.
            match (self.0).compare_exchange(before.0, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => break,
                Err(now) => before = Tail(now),
            }
        }
        // F-L3. An empty log has no page before.
        space.log_pages.skip(before.page(), before.left());
        before
    }

    /// Takes away the room, so that the page's slots settle. The caller holds the mutex.
    pub(super) fn close(&self, space: &Space) {
        let tail = self.tail();
        if tail.left() > 0 {
            self.enter(space, tail.page(), PAGE_SLOTS);
        }
    }

    /// Returns whether slots of the page are not reserved. The caller holds the mutex.
    pub(super) fn is_open(&self) -> bool {
        self.tail().left() > 0
    }

    /// Refuses all additions from now on.
    pub(super) fn poison(&self) {
        // Acquire [U←T]: the lanes, if they were opened before: see `Log::open_lanes`.
        self.0.fetch_or(Tail::POISON, Ordering::Acquire);
    }
}
