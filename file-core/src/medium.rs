//! The region with its geometry, and the rules by which its bytes change hands.
//!
//! Every access to the region goes through [`Medium`]. Which thread may touch which bytes is
//! decided elsewhere (range locks, log mutexes, the allocator); the rules are here, and every
//! `SAFETY:` comment of the crate that concerns the region cites them.
//!
//! # Invariants
//! - **M1** A page of the data area is at any time one of: *free* (in the allocator), *private*
//!   (taken by one operation and not yet reachable), a *log page* of one chain, or a *data page* in
//!   one file's index.
//! - **M2** A private page is accessed by the operation that took it and by nobody else. The
//!   operation fences all its stores to the page before it makes the page reachable. It gives the
//!   page back only if it has not stored to it: nothing that can fail comes between an operation's
//!   first store and its last fence.
//! - **M3** A data page is never stored to. It is read only under a hold of the file's range lock
//!   over its page of the file. It becomes free again only by who holds that page exclusively and
//!   has replaced it, or when the last handle of a removed file is dropped.
//! - **M4** A slot of a log page belongs to the reservation that took it, under the log's mutex,
//!   from the end of the log. Nobody else accesses it; the running volume never reads it. Its first
//!   word is zero until the mark is published there. The mark of a directory's group may be erased
//!   again, once, by who holds the directory's mutex.
//! - **M5** A log page's tail is stored while the page is private. After that only its next pointer
//!   changes, once, by who holds the log's mutex.
//! - **M6** The line of an inode is stored by the operation that took the inode's number from the
//!   pool of free ones, before the number is reachable by the directory. After that only its head
//!   pointer changes, by who holds the log's mutex.
//! - **M7** A page or an inode number becomes free only after the mark or the head pointer that
//!   ends its use is durable. So whatever reuses it cannot become durable before that.
//! - **M8** Formatting and recovery are alone with the region: no handle to the volume exists yet.

use spanlock_pmem::{Durable, Flushed, Pmem};
use spanlock_sync::atomic::{AtomicU64, Ordering};
use spanlock_sync::{Arc, Mutex};

use crate::alloc::{Allocator, Extent};
use crate::layout::{Geometry, I_HEAD_AT, PAGE, RawInode, T_NEXT_AT, page_at};

/// What is free, and what is counted: shared by the volume and its inodes, which outlive a removal.
#[derive(Debug)]
pub(crate) struct Space {
    pub(crate) alloc: Allocator,
    /// Inode numbers that no file has.
    free_inodes: Mutex<Vec<u32>>,
    log_pages: AtomicU64,
    compactions: AtomicU64,
}

impl Space {
    /// `free_inodes` are handed out from the end.
    pub(crate) fn new(alloc: Allocator, free_inodes: Vec<u32>) -> Self {
        Space {
            alloc,
            free_inodes: Mutex::new(free_inodes),
            log_pages: AtomicU64::new(0),
            compactions: AtomicU64::new(0),
        }
    }

    /// Takes the number of a free inode.
    pub(crate) fn take_inode(&self) -> Option<u32> {
        self.free_inodes.lock().pop()
    }

    /// Gives an inode number back (M7).
    pub(crate) fn give_inode(&self, number: u32) {
        self.free_inodes.lock().push(number);
    }

    /// How many inodes are free.
    pub(crate) fn free_inodes(&self) -> u64 {
        self.free_inodes.lock().len() as u64
    }

    /// Counts pages that became log pages.
    pub(crate) fn count_log_pages(&self, more: u64) {
        // Relaxed: a statistic.
        self.log_pages.fetch_add(more, Ordering::Relaxed);
    }

    /// Gives the pages of a log back (M7).
    pub(crate) fn give_log_pages(&self, pages: &[u32]) {
        // Relaxed: a statistic.
        self.log_pages
            .fetch_sub(pages.len() as u64, Ordering::Relaxed);
        for &page in pages {
            self.alloc.give(Extent {
                start: page,
                len: 1,
            });
        }
    }

    /// Counts a compaction.
    pub(crate) fn count_compaction(&self) {
        // Relaxed: a statistic.
        self.compactions.fetch_add(1, Ordering::Relaxed);
    }

    /// Log pages in use, and compactions so far.
    pub(crate) fn log_numbers(&self) -> (u64, u64) {
        // Relaxed, both: statistics.
        (
            self.log_pages.load(Ordering::Relaxed),
            self.compactions.load(Ordering::Relaxed),
        )
    }
}

/// The region, what it holds where, and what of it is free.
#[derive(Debug)]
pub(crate) struct Medium<P> {
    pub(crate) pmem: P,
    pub(crate) geometry: Geometry,
    pub(crate) space: Arc<Space>,
}

impl<P: Pmem> Medium<P> {
    /// Stores a whole private page. Durable once fenced.
    #[inline]
    pub(crate) fn store_page(&self, page: u32, image: &[u8; PAGE]) -> Flushed {
        self.store_pages(page, image)
    }

    /// Stores whole private pages, consecutive from `page` on. Durable once fenced.
    #[inline]
    pub(crate) fn store_pages(&self, page: u32, images: &[u8]) -> Flushed {
        // SAFETY: M2, the pages are the caller's alone until it has fenced.
        unsafe { self.pmem.write_streaming(page_at(page), images) }
    }

    /// Reads from a data page, `within` bytes from its start. The caller holds the page of the file (M3).
    #[inline]
    pub(crate) fn load_data(&self, page: u32, within: usize, into: &mut [u8]) {
        debug_assert!(within + into.len() <= PAGE);
        // SAFETY: M3, nobody stores to a data page, and it does not become free meanwhile; who
        // stored to it had fenced before it became one (M2).
        unsafe { self.pmem.read(page_at(page) + within as u64, into) }
    }

    /// Stores slots of a log page, `within` bytes from its start. The caller has reserved them (M4).
    #[inline]
    pub(crate) fn store_slots(&self, page: u32, within: usize, slots: &[u8]) -> Flushed {
        // SAFETY: M4.
        let written = unsafe { self.pmem.write(page_at(page) + within as u64, slots) };
        self.pmem.flush(written)
    }

    /// Stores the line of an inode whose number the caller took (M6).
    pub(crate) fn store_inode(&self, inode: &RawInode) -> Flushed {
        let at = self.geometry.inode_at(inode.number);
        // SAFETY: M6.
        let written = unsafe { self.pmem.write(at, &inode.encode()) };
        self.pmem.flush(written)
    }

    /// Makes a word durable that publishes what `after` proves. The caller owns the word (M4, M5, M6).
    #[inline]
    pub(crate) fn publish(&self, at: u64, word: u64, after: Durable) {
        let written = self.pmem.publish(at, word, after);
        self.pmem.persist(written);
    }

    /// Where the head pointer of inode `number` lies.
    pub(crate) fn head_at(&self, number: u32) -> u64 {
        self.geometry.inode_at(number) + I_HEAD_AT as u64
    }

    /// Where the next pointer of log page `page` lies.
    pub(crate) fn next_at(&self, page: u32) -> u64 {
        page_at(page) + T_NEXT_AT as u64
    }
}
