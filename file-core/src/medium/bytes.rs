//! The bytes of the region, and the rules for access to them.
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
//! - **F-M1** A page of the data area is always in one of four states: *free* (in the allocator),
//!   *private* (taken by one operation and not yet reachable), a *log page* of one chain, or a
//!   *data page* in one file's index.
//! - **F-M2** Only the operation that took a private page accesses it. The operation fences all its
//!   stores to the page before it makes the page reachable, or returns the page to the allocator.
//!   Except in a cleaning and in a commit through the [`journal`](crate::medium::journal), no step
//!   that can fail comes between an operation's first store and its last fence.
//! - **F-M3** A data page is never stored to. A thread reads it only while it holds, in the file's
//!   range lock, the file page that the data page stores. A data page becomes free in two cases: a
//!   thread that holds that file page exclusively has replaced it, or the last handle of a removed
//!   file is dropped.
//! - **F-M4** A slot of a log page belongs to the reservation that took it from the end of the log
//!   (F-L1). No other operation accesses it, and a running volume never reads it. Its first word is
//!   zero until the mark is published there. The thread that holds a directory's mutex may erase
//!   the mark of a group of the directory, once. Recovery may also do that, and may store the words
//!   of a change of several names again: see [`journal`](crate::medium::journal). The pages of the
//!   journal belong to the thread that holds the tree's mutex, or to recovery.
//! - **F-M5** A log page's tail is stored while the page is private. After that only its next
//!   pointer changes, as F-L6 says.
//! - **F-M6** An inode's line is stored by the operation that took the inode's number from the pool
//!   of free numbers, before a directory can refer to the number. After that only its head
//!   pointer changes, as F-L6 says.
//! - **F-M7** A page or an inode number becomes free only after the mark or the pointer that ends
//!   its use is durable. So no later use of it can become durable before that.
//! - **F-M8** Formatting and recovery have exclusive use of the region: no handle to the volume
//!   exists yet.

use spanlock_pmem::{Durable, Flushed, Pmem};
use spanlock_sync::Arc;

use crate::medium::layout::{
    Geometry, I_HEAD_AT, PAGE, PAGE_SLOTS, RawInode, SLOT_BYTES, T_NEXT_AT, page_at,
};
use crate::medium::space::Space;
use crate::medium::time::Clock;

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
        // SAFETY: F-M2, the caller has exclusive use of the pages until it has fenced.
        unsafe { self.pmem.write_streaming(page_at(page), images) }
    }

    /// Reads from a data page, starting `within` bytes from its start. The caller holds the
    /// corresponding file page (F-M3).
    #[inline]
    pub(crate) fn load_data(&self, page: u32, within: usize, into: &mut [u8]) {
        debug_assert!(within + into.len() <= PAGE);
        // SAFETY: F-M3, no thread stores to a data page or frees it meanwhile. The operation that
        // stored to it fenced those stores before the page became reachable (F-M2).
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
    /// (F-M4).
    #[inline]
    #[track_caller]
    pub(crate) fn store_slots(&self, page: u32, within: usize, slots: &[u8]) -> Flushed {
        // SAFETY: F-M4.
        let written = unsafe { self.pmem.write(page_at(page) + within as u64, slots) };
        self.pmem.flush(written)
    }

    /// Stores the line of an inode whose number the caller has taken (F-M6).
    #[track_caller]
    pub(crate) fn store_inode(&self, inode: &RawInode) -> Flushed {
        let at = self.geometry.inode_at(inode.id.number);
        // SAFETY: F-M6.
        let written = unsafe { self.pmem.write(at, &inode.encode()) };
        self.pmem.flush(written)
    }

    /// Publishes a word after the stores that `after` proves durable, and makes the word durable.
    /// The caller owns the word (F-M4, F-M5, F-M6).
    #[inline]
    #[track_caller]
    pub(crate) fn publish(&self, at: u64, word: u64, after: Durable) {
        let written = self.pmem.publish(at, word, after);
        self.pmem.persist(written);
    }

    /// Stores a word after the stores that `after` proves durable. Durable once fenced. The caller
    /// owns the word (F-M5, F-M6).
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
