//! A log's state and its chain of pages, shared by [`log`](crate::log) and
//! [`compact`](crate::compact).
//!
//! L1…L5 are the invariants of the log.

use spanlock_pmem::{Durable, Flushed, Pmem};
use spanlock_sync::injected_bug;

use crate::alloc::Class;
use crate::error::Error;
use crate::layout::{Chain, HEAD_SEQUENCE, PAGE, PAGE_SLOTS, SLOT_BYTES, page_at};
use crate::medium::Medium;

/// Logs with fewer pages are not compacted unless the volume is full.
pub(crate) const MIN_COMPACTED_PAGES: usize = 8;

/// The state of a log, guarded by its mutex.
#[derive(Debug)]
pub(crate) struct LogState {
    pub(crate) chain: Chain,
    /// `chain.seed()`.
    seed: u32,
    /// The chain's pages in order.
    pub(crate) pages: Vec<u32>,
    /// The first slot that is not reserved.
    pub(crate) next: u32,
    /// Whether a thread compacts the log or waits to do so.
    pub(crate) quiescing: bool,
    /// Whether an operation panicked midway; see L5.
    pub(crate) poisoned: bool,
    /// The number of pages from which it is worth computing how much of the log is live.
    pub(crate) compact_at: usize,
}

impl LogState {
    pub(crate) fn new(chain: Chain, pages: Vec<u32>, next: u32) -> Self {
        LogState {
            chain,
            seed: chain.seed(),
            pages,
            next,
            quiescing: false,
            poisoned: false,
            compact_at: MIN_COMPACTED_PAGES,
        }
    }

    /// Returns the state after a compaction into `chain`.
    pub(crate) fn follow(&self, chain: Chain, pages: Vec<u32>, next: u32) -> Self {
        LogState {
            quiescing: self.quiescing,
            compact_at: self.compact_at,
            ..LogState::new(chain, pages, next)
        }
    }

    /// Checks for poison (L5). Called after every wait, because an operation in flight may have
    /// panicked.
    pub(crate) fn check_poison(&self) -> Result<(), Error> {
        match self.poisoned {
            true => Err(Error::Poisoned {
                inode: self.chain.inode,
            }),
            false => Ok(()),
        }
    }

    /// Returns the number of slots that can be reserved without adding a page.
    pub(crate) fn room(&self) -> u64 {
        self.pages.len() as u64 * PAGE_SLOTS as u64 - self.next as u64
    }

    /// Takes the next `slots` slots. There must be room for them.
    pub(crate) fn take(&mut self, slots: u32) -> Slots {
        let index = self.next;
        self.next += slots;
        let first = (index / PAGE_SLOTS) as usize;
        let last = ((self.next - 1) / PAGE_SLOTS) as usize;
        Slots {
            index,
            count: slots,
            seed: self.seed,
            first_page: self.pages[first],
            further_pages: self.pages[first + 1..=last].to_vec(),
        }
    }
}

/// The slots that belong to a reservation.
#[derive(Debug)]
pub(crate) struct Slots {
    /// The number of the first slot in the chain.
    pub(crate) index: u32,
    pub(crate) count: u32,
    /// The chain's seed.
    pub(crate) seed: u32,
    pub(crate) first_page: u32,
    pub(crate) further_pages: Vec<u32>,
}

/// Adds as many pages to the chain as `slots` more slots need.
pub(crate) fn extend<P: Pmem>(
    state: &mut LogState,
    medium: &Medium<P>,
    slots: u32,
    class: Class,
) -> Result<(), Error> {
    let lacking = slots as u64 - state.room();
    let count = lacking.div_ceil(PAGE_SLOTS as u64) as u32;
    let new = medium
        .space
        .alloc
        .take(state.chain.inode as u64, count, class)?;
    let new: Vec<u32> = new.pages().collect();
    let sequence = state.pages.len() as u32;
    // L5 demands this flag. It is conservative here: the next page's link would simply overwrite
    // this one's.
    state.poisoned = true;
    let stored = store_chain(medium, &state.chain, sequence, &new, &[]);
    let durable = if injected_bug!(
        "link-before-page",
        "a log page is linked before it is durable",
        killed_by = "file-core-page-end/patch-patch, file-core-page-end/create-create"
    ) {
        drop(stored);
        Durable::at_rest()
    } else {
        medium.pmem.fence(stored)
    };
    // The link is stored after the pages' fence and is durable before any thread can reserve on
    // them (L2).
    let (at, position) = match state.pages.last() {
        Some(&last) => (medium.next_at(last), sequence - 1),
        None => (medium.head_at(state.chain.inode), HEAD_SEQUENCE),
    };
    medium.publish(at, state.chain.seal(position, new[0]), durable);
    medium.space.count_log_pages(new.len() as u64);
    state.pages.extend(new);
    state.poisoned = false;
    Ok(())
}

/// Stores log pages of `chain` starting at position `sequence`, linked to each other. They hold
/// `slots`, followed by zero slots, so that no mark from an earlier use of the pages remains (L1).
/// The pages are private (M2).
pub(crate) fn store_chain<P: Pmem>(
    medium: &Medium<P>,
    chain: &Chain,
    sequence: u32,
    pages: &[u32],
    slots: &[u8],
) -> Flushed {
    let mut slots = slots.chunks(PAGE_SLOTS as usize * SLOT_BYTES);
    let mut stored = Flushed::nothing();
    for (i, &page) in pages.iter().enumerate() {
        let position = sequence + i as u32;
        let mut image = [0; PAGE];
        if injected_bug!(
            "stale-marks",
            "a recycled page keeps the slots of its earlier use, and marks are not bound to their place",
            killed_by = "file-core-full/patch-patch, file-core-full/sequences-of-2"
        ) {
            // SAFETY: M2.
            unsafe { medium.pmem.read(page_at(page), &mut image) };
        }
        if let Some(slots) = slots.next() {
            image[..slots.len()].copy_from_slice(slots);
        }
        let next = pages
            .get(i + 1)
            .map_or(0, |&next| chain.seal(position, next));
        chain.put_tail(&mut image, position, next);
        stored = stored.and(medium.store_page(page, &image));
    }
    stored
}
