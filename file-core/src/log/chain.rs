//! A log's chain of pages: its state under the log's mutex, its pointers, and storing its pages.

use spanlock_pmem::{Flushed, Pmem};
use spanlock_sync::injected_bug;

use crate::medium::bytes::Medium;
use crate::medium::layout::{LogId, PAGE, PageId, SLOT_BYTES, page_at, seal};

/// Whether a thread cleans a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cleaning {
    None,
    /// Others may add pages to the log meanwhile.
    Beside,
    /// Others wait before they add a page.
    Alone,
}

/// The state of a log, guarded by its mutex.
#[derive(Debug)]
pub(crate) struct LogState {
    pub(crate) id: LogId,
    /// The chain's pages, oldest first.
    pub(crate) pages: Vec<u32>,
    /// The birth number of the next page.
    pub(crate) births: u64,
    pub(crate) cleaning: Cleaning,
    /// The number of pages from which on a cleaning is worthwhile, unless it is less than
    /// [`Space::least_cleaned`](crate::medium::space::Space::least_cleaned).
    clean_at: usize,
    /// Removals clean the log once it has fewer live slots than this.
    pub(crate) trim_below: u64,
    /// How many pages in a row were crowded when they became full, up to the page before the last.
    /// This says whether the log gets lanes.
    pub(crate) crowded: u32,
}

impl LogState {
    pub(crate) fn new(id: LogId, pages: Vec<u32>, births: u64) -> Self {
        LogState {
            id,
            clean_at: pages.len(),
            trim_below: u64::MAX,
            pages,
            births,
            cleaning: Cleaning::None,
            crowded: 0,
        }
    }

    /// Returns whether a cleaning is worthwhile before the log gets another page.
    pub(crate) fn is_due(&self, least_cleaned: usize) -> bool {
        self.pages.len() >= self.clean_at.max(least_cleaned) && self.cleaning == Cleaning::None
    }

    /// Records that a cleaning has left `pages` pages. The next one is worthwhile once the log has
    /// more than `bound` pages, and an eighth more than now.
    pub(crate) fn clean_after(&mut self, bound: u64, pages: usize) {
        self.clean_at = (bound as usize + 1).max(pages + 1 + pages / 8);
        self.trim_below = u64::MAX;
    }

    /// Returns birth numbers for `count` pages: the first of them.
    pub(crate) fn take_births(&mut self, count: u64) -> u64 {
        let first = self.births;
        // A forged volume can hold the largest number. Births only have to differ in practice.
        self.births = first.wrapping_add(count);
        first
    }
}

/// Slots that belong to a reservation, or to no operation yet.
#[derive(Debug)]
pub(crate) struct Slots {
    pub(crate) page: u32,
    /// The first slot in the page.
    pub(crate) slot: u32,
    pub(crate) count: u32,
    /// The pages after the first, if the slots take more than one. They begin in slot 0 then.
    pub(crate) further: Vec<u32>,
}

/// Returns the byte offset of the next pointer of `page`, or of the log's head if there is no
/// page, and the seed of that pointer.
pub(crate) fn pointer_after<P: Pmem>(
    medium: &Medium<P>,
    id: LogId,
    page: Option<u32>,
) -> (u64, u32) {
    match page {
        Some(page) => (medium.next_at(page), medium.space.log_pages.seed(page)),
        None => (medium.head_at(id.inode), id.head_seed()),
    }
}

/// Stores a log page that holds `slots`, followed by zero slots, so that no mark from an earlier
/// use of the page remains (F-L1). The page is private (F-M2).
pub(crate) fn store_log_page<P: Pmem>(
    medium: &Medium<P>,
    id: PageId,
    slots: &[u8],
    next: Option<u32>,
) -> Flushed {
    debug_assert!(slots.len().is_multiple_of(SLOT_BYTES));
    let mut image = [0; PAGE];
    if injected_bug!(
        "stale-marks",
        "a recycled page keeps the slots of its earlier use, and marks are not bound to their place",
        killed_by = "file-core-full/patch-patch, file-core-full/sequences-of-2"
    ) {
        // SAFETY: F-M2.
        unsafe { medium.pmem.read(page_at(id.page), &mut image) };
    }
    image[..slots.len()].copy_from_slice(slots);
    id.put_tail(&mut image, next.map_or(0, |next| seal(id.seed(), next)));
    medium.store_page(id.page, &image)
}
