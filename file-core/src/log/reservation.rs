//! The slots that an operation has at the end of a log.

use spanlock_pmem::{Durable, Flushed, Pmem};
use spanlock_sync::injected_bug;

use crate::log::chain::Slots;
use crate::log::tail::{Log, SlotAddress};
use crate::medium::bytes::Medium;
use crate::medium::layout::{PAGE_SLOTS, SLOT_BYTES, WORD_BYTES, mark_of};
use crate::medium::log_page::PageUse;
use crate::medium::space::Space;

/// Reserved slots at the end of a log, to be filled and committed by one operation.
///
/// If a panic drops it before it is [ended](Self::end), it poisons the log (F-L5).
#[derive(Debug)]
#[must_use = "the slots of a reservation keep their page from being cleaned until it ends"]
pub(crate) struct Reservation<'l> {
    pub(super) log: &'l Log,
    pub(super) space: &'l Space,
    pub(super) slots: Slots,
    pub(super) ended: bool,
}

impl Reservation<'_> {
    /// Returns the position of the group.
    pub(crate) fn place(&self) -> SlotAddress {
        SlotAddress {
            page: self.slots.page,
            slot: self.slots.slot,
        }
    }

    /// Commits `group`, whose first words are all zero. `flushed` stands for all stores that the
    /// group refers to. The group and those stores are durable on return.
    pub(crate) fn commit<P: Pmem>(&mut self, medium: &Medium<P>, group: &[u8], flushed: Flushed) {
        let (mark, stored) = self.store(medium, group);
        let flushed = flushed.and(stored);
        let mark_at = self.place().at();
        if injected_bug!(
            "mark-before-data",
            "a group is committed before its data and slots are durable",
            killed_by = "file-core/patch-patch, file-core/append-create"
        ) {
            medium.publish(mark_at, mark, Durable::at_rest());
            drop(flushed);
            return;
        }
        // One fence covers data and slots, another the mark.
        let durable = medium.pmem.fence(flushed);
        medium.publish(mark_at, mark, durable);
    }

    /// Stores `group`, whose first words are all zero, without its mark. Durable once fenced. Also
    /// returns the mark.
    pub(crate) fn store<P: Pmem>(&self, medium: &Medium<P>, group: &[u8]) -> (u64, Flushed) {
        let Slots {
            page, slot, count, ..
        } = self.slots;
        debug_assert_eq!(group.len(), count as usize * SLOT_BYTES);
        debug_assert!(
            group
                .chunks_exact(SLOT_BYTES)
                .all(|s| s[..WORD_BYTES] == [0; WORD_BYTES])
        );
        let mut within = slot as usize * SLOT_BYTES;
        let mut rest = group;
        let mut flushed = Flushed::nothing();
        for page in core::iter::once(page).chain(self.slots.further.iter().copied()) {
            let here = rest.len().min(PAGE_SLOTS as usize * SLOT_BYTES - within);
            let (slots, behind) = rest.split_at(here);
            flushed = flushed.and(medium.store_slots(page, within, slots));
            (rest, within) = (behind, 0);
        }
        let mark = mark_of(self.space.log_pages.seed(page), slot, group);
        (mark, flushed)
    }

    /// Splits a reservation that lies in one page. The first part has `slots` slots.
    pub(crate) fn split(mut self, slots: u32) -> (Self, Self) {
        let Slots {
            page, slot, count, ..
        } = self.slots;
        debug_assert!(slots < count && count <= PAGE_SLOTS);
        let second = Reservation {
            log: self.log,
            space: self.space,
            slots: Slots {
                page,
                slot: slot + slots,
                count: count - slots,
                further: Vec::new(),
            },
            ended: false,
        };
        self.slots.count = slots;
        (self, second)
    }

    /// Ends the operation without a group. The operation has stored nothing.
    pub(crate) fn cancel(self) {
        self.end(PageUse::default());
    }

    /// Ends the operation, after it has committed and updated the index and size (F-L4). `change`
    /// says how the operation changes what its page is needed for.
    #[inline]
    pub(crate) fn end(mut self, change: PageUse) {
        self.ended = true;
        self.log.end(self.space, &self.slots, change);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if !self.ended {
            // F-L5: between a reservation and its end, no step but the journal's can fail, so this
            // is a panic or a damaged journal.
            self.log.poison();
            self.log.end(self.space, &self.slots, PageUse::default());
        }
    }
}
