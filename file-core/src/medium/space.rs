//! What of a volume is free: pages, inode numbers and generations. Also counts its log pages and
//! cleanings.

use spanlock_sync::Mutex;
use spanlock_sync::atomic::{AtomicU64, Ordering};

use crate::medium::alloc::Allocator;
use crate::medium::extent::Extent;
use crate::medium::layout::{Geometry, ROOT_GENERATION};
use crate::medium::log_page::LogPages;

/// Free space and statistics. The volume shares it with its inodes, because a removed file outlives
/// its name.
#[derive(Debug)]
pub(crate) struct Space {
    pub(crate) alloc: Allocator,
    pub(crate) log_pages: LogPages,
    /// A log with fewer pages is not cleaned unless the volume is full. It is 8, or less on a small
    /// volume, where each page is a larger share of the space.
    pub(crate) least_cleaned: usize,
    /// Inode numbers that are free.
    free_inodes: Mutex<Vec<u32>>,
    /// Larger than every generation that recovery could read and every one used since.
    generation: AtomicU64,
    log_page_count: AtomicU64,
    compactions: AtomicU64,
    unlinked: AtomicU64,
}

impl Space {
    /// Creates the space, without free pages or inodes.
    pub(crate) fn new(geometry: &Geometry) -> Self {
        let (first, count) = (geometry.data_start(), geometry.data_pages());
        Space {
            alloc: Allocator::new(first, count),
            log_pages: LogPages::new(first, count),
            least_cleaned: (count as usize / 64).clamp(2, 8),
            free_inodes: Mutex::new(Vec::new()),
            generation: AtomicU64::new(ROOT_GENERATION + 1),
            log_page_count: AtomicU64::new(0),
            compactions: AtomicU64::new(0),
            unlinked: AtomicU64::new(0),
        }
    }

    /// Frees inode numbers. They are taken from the last on.
    pub(crate) fn release_inodes(&self, numbers: impl Iterator<Item = u32>) {
        self.free_inodes.lock().extend(numbers);
    }

    /// Takes the number of a free inode.
    pub(crate) fn take_inode(&self) -> Option<u32> {
        self.free_inodes.lock().pop()
    }

    /// Frees an inode number (F-M7).
    pub(crate) fn release_inode(&self, number: u32) {
        self.free_inodes.lock().push(number);
    }

    /// Sets the largest generation in use.
    pub(crate) fn set_last_generation(&self, last: u64) {
        // Relaxed: no other thread has the volume yet. A forged volume can hold the largest number.
        self.generation
            .store(last.wrapping_add(1), Ordering::Relaxed);
    }

    /// Returns a generation that was not used since the volume was opened.
    pub(crate) fn next_generation(&self) -> u64 {
        // Relaxed: only that no two are the same matters.
        self.generation.fetch_add(1, Ordering::Relaxed)
    }

    /// Returns the number of free inodes.
    pub(crate) fn free_inodes(&self) -> u64 {
        self.free_inodes.lock().len() as u64
    }

    /// Counts `more` pages that became log pages.
    pub(crate) fn count_log_pages(&self, more: u64) {
        // Relaxed: a statistic.
        self.log_page_count.fetch_add(more, Ordering::Relaxed);
    }

    /// Takes away live references to a log page. If the page was unlinked and these were the last,
    /// it becomes free (F-P2).
    pub(crate) fn take_live(&self, page: u32, count: u32) {
        if self.log_pages.take_live(page, count) {
            self.release_log_page(page);
        }
    }

    /// Takes away a live reference to each of these log pages.
    pub(crate) fn take_each(&self, pages: Vec<u32>) {
        for page in pages {
            self.take_live(page, 1);
        }
    }

    /// Marks a log page as unlinked, once that is durable. The page becomes free when no live
    /// reference is left.
    pub(crate) fn unlink_log_page(&self, page: u32) {
        if self.log_pages.unlink(page) {
            self.release_log_page(page);
        }
    }

    /// Frees a log page (F-M7).
    pub(crate) fn release_log_page(&self, page: u32) {
        // Relaxed: a statistic.
        self.log_page_count.fetch_sub(1, Ordering::Relaxed);
        self.log_pages.forget(page);
        self.alloc.release(Extent {
            start: page,
            len: 1,
        });
    }

    /// Counts a cleaning that copied live groups.
    pub(crate) fn count_compaction(&self) {
        // Relaxed: a statistic.
        self.compactions.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts pages that were unlinked in place.
    pub(crate) fn count_unlinked(&self, pages: u64) {
        // Relaxed: a statistic.
        self.unlinked.fetch_add(pages, Ordering::Relaxed);
    }

    /// Returns the number of log pages in use, of compactions so far, and of unlinked pages.
    pub(crate) fn log_numbers(&self) -> (u64, u64, u64) {
        // Relaxed, all: statistics.
        (
            self.log_page_count.load(Ordering::Relaxed),
            self.compactions.load(Ordering::Relaxed),
            self.unlinked.load(Ordering::Relaxed),
        )
    }
}
