//! The region with its geometry, and the rules for access to its bytes.
//!
//! Every access to the region goes through [`Medium`]. Range locks, log mutexes and the allocator
//! decide which thread may access which bytes. The rules they follow are listed here, and every
//! `SAFETY:` comment about the region cites them.
//!
//! ```text
//!                    taken                 reachable (after a fence)
//!      free ───────────────────► private ─────────────────────────────► log page or data page
//!       ▲                           │                                            │
//!       │        never stored to    │          its last use ended, durably       │
//!       └───────────────────────────┴────────────────────────────────────────────┘
//! ```
//!
//! # Invariants
//! - **M1** A page of the data area is always in one of four states: *free* (in the allocator),
//!   *private* (taken by one operation and not yet reachable), a *log page* of one chain, or a
//!   *data page* in one file's index.
//! - **M2** Only the operation that took a private page accesses it. The operation fences all its
//!   stores to the page before it makes the page reachable, or returns the page to the allocator.
//!   Except in a cleaning and in a commit through the [`journal`](crate::journal), no step that can
//!   fail comes between an operation's first store and its last fence.
//! - **M3** A data page is never stored to. A thread reads it only while it holds, in the file's
//!   range lock, the file page that the data page stores. A data page becomes free in two cases: a
//!   thread that holds that file page exclusively has replaced it, or the last handle of a removed
//!   file is dropped.
//! - **M4** A slot of a log page belongs to the reservation that took it from the end of the log
//!   (L1). No other operation accesses it, and a running volume never reads it. Its first word is
//!   zero until the mark is published there. The thread that holds a directory's mutex may erase
//!   the mark of a group of the directory, once. Recovery may also do that, and may store the words
//!   of a change of several names again: see [`journal`](crate::journal). The pages of the journal
//!   belong to the thread that holds the tree's mutex, or to recovery.
//! - **M5** A log page's tail is stored while the page is private. After that only its next pointer
//!   changes, as L6 says.
//! - **M6** An inode's line is stored by the operation that took the inode's number from the pool
//!   of free numbers, before a directory can refer to the number. After that only its head
//!   pointer changes, as L6 says.
//! - **M7** A page or an inode number becomes free only after the mark or the pointer that ends its
//!   use is durable. So no later use of it can become durable before that.
//! - **M8** Formatting and recovery have exclusive use of the region: no handle to the volume
//!   exists yet.

use spanlock_pmem::{Durable, Flushed, Pmem};
use spanlock_sync::atomic::{AtomicU64, Ordering};
use spanlock_sync::{Arc, Mutex};

use crate::alloc::{Allocator, Extent};
use crate::layout::{
    Geometry, I_HEAD_AT, PAGE, PAGE_SLOTS, ROOT_GENERATION, RawInode, SLOT_BYTES, T_NEXT_AT,
    page_at,
};
use crate::log_page::LogPages;
use crate::time::Clock;

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
    pub(crate) fn add_inodes(&self, numbers: impl Iterator<Item = u32>) {
        self.free_inodes.lock().extend(numbers);
    }

    /// Takes the number of a free inode.
    pub(crate) fn take_inode(&self) -> Option<u32> {
        self.free_inodes.lock().pop()
    }

    /// Frees an inode number (M7).
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

    /// Frees a log page (M7).
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

    /// Returns the number of log pages in use, of thorough cleanings so far, and of unlinked pages.
    pub(crate) fn log_numbers(&self) -> (u64, u64, u64) {
        // Relaxed, all: statistics.
        (
            self.log_page_count.load(Ordering::Relaxed),
            self.compactions.load(Ordering::Relaxed),
            self.unlinked.load(Ordering::Relaxed),
        )
    }
}

/// The region, its geometry, its free space, and its clock.
#[derive(Debug)]
pub(crate) struct Medium<P> {
    pub(crate) pmem: P,
    pub(crate) geometry: Geometry,
    pub(crate) space: Arc<Space>,
    /// See [`FormatOptions::clock`](crate::FormatOptions::clock).
    pub(crate) clock: Clock,
}

impl<P: Pmem> Medium<P> {
    /// Stores a whole private page. Durable once fenced.
    #[inline]
    #[track_caller]
    pub(crate) fn store_page(&self, page: u32, image: &[u8; PAGE]) -> Flushed {
        self.store_pages(page, image)
    }

    /// Stores whole private pages, consecutive from `page` on. Durable once fenced.
    #[inline]
    #[track_caller]
    pub(crate) fn store_pages(&self, page: u32, images: &[u8]) -> Flushed {
        // SAFETY: M2, the caller has exclusive use of the pages until it has fenced.
        unsafe { self.pmem.write_streaming(page_at(page), images) }
    }

    /// Reads from a data page, starting `within` bytes from its start. The caller holds the
    /// corresponding file page (M3).
    #[inline]
    pub(crate) fn load_data(&self, page: u32, within: usize, into: &mut [u8]) {
        debug_assert!(within + into.len() <= PAGE);
        // SAFETY: M3, no thread stores to a data page or frees it meanwhile. The operation that
        // stored to it fenced those stores before the page became reachable (M2).
        unsafe { self.pmem.read(page_at(page) + within as u64, into) }
    }

    /// Fetches reserved slots into the cache, as far as they lie in `page`. A new log page is not
    /// in the cache. What is fetched while an operation stores its data need not be waited for.
    #[inline]
    pub(crate) fn prefetch_slots(&self, page: u32, slot: u32, count: u32) {
        let at = page_at(page) + u64::from(slot) * SLOT_BYTES as u64;
        let count = count.min(PAGE_SLOTS - slot);
        self.pmem.prefetch(at, u64::from(count) * SLOT_BYTES as u64);
    }

    /// Stores slots of a log page, `within` bytes from its start. The caller has reserved them
    /// (M4).
    #[inline]
    #[track_caller]
    pub(crate) fn store_slots(&self, page: u32, within: usize, slots: &[u8]) -> Flushed {
        // SAFETY: M4.
        let written = unsafe { self.pmem.write(page_at(page) + within as u64, slots) };
        self.pmem.flush(written)
    }

    /// Stores the line of an inode whose number the caller has taken (M6).
    #[track_caller]
    pub(crate) fn store_inode(&self, inode: &RawInode) -> Flushed {
        let at = self.geometry.inode_at(inode.id.number);
        // SAFETY: M6.
        let written = unsafe { self.pmem.write(at, &inode.encode()) };
        self.pmem.flush(written)
    }

    /// Publishes a word after the stores that `after` proves durable, and makes the word durable.
    /// The caller owns the word (M4, M5, M6).
    #[inline]
    #[track_caller]
    pub(crate) fn publish(&self, at: u64, word: u64, after: Durable) {
        let written = self.pmem.publish(at, word, after);
        self.pmem.persist(written);
    }

    /// Stores a word after the stores that `after` proves durable. Durable once fenced. The caller
    /// owns the word (M5, M6).
    #[track_caller]
    pub(crate) fn store_word(&self, at: u64, word: u64, after: Durable) -> Flushed {
        let written = self.pmem.publish(at, word, after);
        self.pmem.flush(written)
    }

    /// Returns the byte offset of the head pointer of inode `number`.
    pub(crate) fn head_at(&self, number: u32) -> u64 {
        self.geometry.inode_at(number) + I_HEAD_AT as u64
    }

    /// Returns the byte offset of the next pointer of log page `page`.
    pub(crate) fn next_at(&self, page: u32) -> u64 {
        page_at(page) + T_NEXT_AT as u64
    }
}
