//! Writing the live groups of a log to fresh pages.

use spanlock_pmem::{Durable, Flushed, Pmem};
use spanlock_sync::injected_bug;

use crate::log::chain::store_log_page;
use crate::log::live::{IsOld, LIVE_PER_PAGE, Live, LiveGroup, bound};
use crate::log::record::{GroupWriter, slots_for};
use crate::log::tail::SlotAddress;
use crate::medium::alloc::Class;
use crate::medium::bytes::Medium;
use crate::medium::error::Error;
use crate::medium::extent::Extent;
use crate::medium::layout::{LogId, PAGE_SLOTS, PageId, SLOT_BYTES, WORD_BYTES, mark_of, seal};
use crate::medium::log_page::{PageState, Rank};
use crate::medium::space::Space;

/// Counts the slots that [`CopyWriter`] would write.
pub(super) struct Count {
    /// Slots, including those that are left over in pages.
    pub(super) slots: u64,
    /// The result of [`Live::each`].
    pub(super) looked_at: u64,
}

impl Count {
    pub(super) fn of(live: &dyn Live, is_old: &IsOld<'_>) -> Count {
        let mut slots = 0;
        let looked_at = live.each(is_old, &mut |group| {
            let wanted = slots_for(group.bytes) as u64;
            let left = u64::from(PAGE_SLOTS) - slots % u64::from(PAGE_SLOTS);
            slots += if wanted > left { left + wanted } else { wanted };
        });
        Count { slots, looked_at }
    }

    /// Returns the number of pages.
    pub(super) fn pages(&self) -> u64 {
        self.slots.div_ceil(u64::from(PAGE_SLOTS))
    }

    /// Returns whether copying `pages` pages frees some.
    pub(super) fn pays(&self, pages: usize) -> bool {
        self.pages() < pages as u64
    }

    /// Returns whether there are free pages for copies of `slots` slots. If not, a cleaning of all
    /// pages would only lose the room in the last one, which it closes.
    pub(super) fn fits(slots: u64, space: &Space) -> bool {
        slots.div_ceil(u64::from(PAGE_SLOTS)) <= space.alloc.free_pages().0
    }

    /// Returns the most pages that the log may have before a compaction.
    pub(super) fn bound(&self, space: &Space) -> u64 {
        bound(space, self.slots).max(self.looked_at / LIVE_PER_PAGE)
    }
}

/// Writes live groups to fresh pages.
pub(super) struct CopyWriter<'a, P> {
    medium: &'a Medium<P>,
    log: LogId,
    /// The birth number of the first fresh page.
    birth: u64,
    /// The most pages to take. Writers may split runs meanwhile, and more fresh pages than old ones
    /// are of no use.
    most: usize,
    fresh: PrivatePages,
    /// The slots of the last page, which is not stored yet.
    slots: Vec<u8>,
    error: Option<Error>,
}

/// A page that nothing points to yet.
pub(super) struct PrivatePage {
    pub(super) page: u32,
    live: u32,
}

/// Stored pages that nothing points to yet, and their groups.
pub(super) struct PrivatePages {
    pub(super) pages: Vec<PrivatePage>,
    groups: Vec<(u64, SlotAddress)>,
    stored: Flushed,
}

/// Fresh pages that the log has, and their groups.
pub(super) struct LinkedPages {
    pub(super) pages: Vec<u32>,
    pub(super) groups: Vec<(u64, SlotAddress)>,
}

impl<'a, P: Pmem> CopyWriter<'a, P> {
    pub(super) fn new(medium: &'a Medium<P>, log: LogId, birth: u64, most: usize) -> Self {
        CopyWriter {
            medium,
            log,
            birth,
            most,
            fresh: PrivatePages {
                pages: Vec::new(),
                groups: Vec::new(),
                stored: Flushed::nothing(),
            },
            slots: Vec::new(),
            error: None,
        }
    }

    /// Returns the number of slots in use in the last page.
    pub(super) fn used(&self) -> u32 {
        (self.slots.len() / SLOT_BYTES) as u32
    }

    /// Returns the identity of the last page.
    fn id(&self) -> PageId {
        let nth = self.fresh.pages.len() - 1;
        PageId {
            log: self.log,
            birth: self.birth.wrapping_add(nth as u64),
            page: self.fresh.pages[nth].page,
        }
    }

    /// Makes room for `slots` slots in the last page. Returns whether it has room.
    pub(super) fn make_room(&mut self, slots: u32) -> bool {
        let has_room = !self.fresh.pages.is_empty() && self.used() + slots <= PAGE_SLOTS;
        if self.error.is_some() || has_room {
            return has_room;
        }
        let alloc = &self.medium.space.alloc;
        let taken = match self.fresh.pages.len() < self.most {
            true => alloc.take(self.log.inode as u64, 1, Class::Compaction),
            false => Err(Error::NoSpace { needed: 1, free: 0 }),
        };
        match taken {
            Ok(taken) => {
                let page = taken.iter().next().expect("one was taken").start;
                self.store_last(Some(page));
                self.fresh.pages.push(PrivatePage { page, live: 0 });
                true
            }
            Err(error) => {
                self.error = Some(error);
                false
            }
        }
    }

    pub(super) fn group(&mut self, group: &LiveGroup<'_>) {
        let count = slots_for(group.bytes) as u32;
        if !self.make_room(count) {
            return;
        }
        let (id, slot, start) = (self.id(), self.used(), self.slots.len());
        self.slots.resize(start + count as usize * SLOT_BYTES, 0);
        let slots = &mut self.slots[start..];
        (group.put)(&mut GroupWriter::new(slots));
        let mark = mark_of(id.seed(), slot, slots);
        slots[..WORD_BYTES].copy_from_slice(&mark.to_le_bytes());
        let place = SlotAddress {
            page: id.page,
            slot,
        };
        self.fresh.groups.push((group.tag, place));
        if let Some(last) = self.fresh.pages.last_mut() {
            last.live += group.live;
        }
    }

    /// Stores the last page, if there is one, with a pointer to `next`.
    fn store_last(&mut self, next: Option<u32>) {
        if self.fresh.pages.is_empty() {
            return;
        }
        let stored = store_log_page(self.medium, self.id(), &self.slots, next);
        let before = core::mem::replace(&mut self.fresh.stored, Flushed::nothing());
        self.fresh.stored = before.and(stored);
        self.slots.clear();
    }

    /// Stores the last page, with a pointer to `next`. It has `open` slots for later operations.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; the pages are free again.
    pub(super) fn end(mut self, next: Option<u32>, open: u32) -> Result<PrivatePages, Error> {
        self.store_last(next);
        if let Some(error) = self.error {
            self.fresh.give_back(self.medium);
            return Err(error);
        }
        let last = self.fresh.pages.len().saturating_sub(1);
        for (nth, PrivatePage { page, live }) in self.fresh.pages.iter().enumerate() {
            let id = PageId {
                log: self.log,
                birth: self.birth.wrapping_add(nth as u64),
                page: *page,
            };
            let open = if nth == last { open } else { 0 };
            let pages = &self.medium.space.log_pages;
            let state = PageState::recovered(open, 0, false);
            pages.start(*page, id.seed(), Rank::LOWEST, state);
            pages.add_live(*page, *live);
        }
        Ok(self.fresh)
    }
}

impl PrivatePages {
    /// Makes the log begin with `first`, which is the first of these pages if there are any, or
    /// makes the log empty.
    pub(super) fn publish<P: Pmem>(
        self,
        medium: &Medium<P>,
        id: LogId,
        first: Option<u32>,
    ) -> LinkedPages {
        let durable = if injected_bug!(
            "head-before-chain",
            "a compaction moves the head before the new chain is durable",
            killed_by = "file-core-full/patch-patch, file-core-full/second-append"
        ) {
            drop(self.stored);
            Durable::at_rest()
        } else {
            medium.pmem.fence(self.stored)
        };
        let head = first.map_or(0, |first| seal(id.head_seed(), first));
        let is_not_durable = injected_bug!(
            "last-page-freed-before-head",
            "the pages of a log become free before the head that leaves them is durable",
            killed_by = "file-core-emptied/sequences-of-2"
        );
        if is_not_durable {
            drop(medium.store_word(medium.head_at(id.inode), head, durable));
        } else {
            medium.publish(medium.head_at(id.inode), head, durable);
        }
        medium.space.count_log_pages(self.pages.len() as u64);
        if !self.pages.is_empty() {
            medium.space.count_compaction();
        }
        LinkedPages {
            pages: self.pages.iter().map(|it| it.page).collect(),
            groups: self.groups,
        }
    }

    /// Makes the pages free again.
    pub(super) fn give_back<P: Pmem>(self, medium: &Medium<P>) {
        // F-M2: no store to the pages may persist once another operation has them.
        medium.pmem.fence(self.stored);
        for PrivatePage { page, .. } in self.pages {
            medium.space.log_pages.forget(page);
            medium.space.alloc.release(Extent {
                start: page,
                len: 1,
            });
        }
    }
}
