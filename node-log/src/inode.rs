//! A file in memory.

use std::sync::Arc;

use spanlock_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use spanlock_sync::{BlockingMutex, Mutex};

use crate::cache::About;
use crate::error::Error;
use crate::home::Change;
use crate::node::{Block, Head, Nid, Place};
use crate::rendezvous::Rendezvous;

/// A file in memory. All files of an open volume are.
pub(crate) struct Inode<L> {
    pub(crate) nid: Nid,
    pub(crate) name: Arc<str>,
    /// The file's number in the order of creation.
    pub(crate) created: u64,
    /// The range lock, over bytes. Threads lock whole pages.
    pub(crate) lock: L,
    size: AtomicU64,
    /// The size in the last captured image, or the stored one.
    captured_size: AtomicU64,
    is_removed: AtomicBool,
    /// Held while nodes are added to the file's tree or deleted, and during a capture. So no image
    /// names a node that has no image (N-T3).
    pub(crate) tree: Mutex<()>,
    pub(crate) changes: Mutex<Changes>,
    /// Held while the file is committed or removed. If the node half was full, it keeps what was
    /// captured for the next commit.
    pub(crate) commit: BlockingMutex<Commit>,
    /// Where concurrent `fsync`s of the file meet.
    pub(crate) sync: Rendezvous,
}

/// What has changed since the last capture. The cache keeps track of the slots.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// The changed nodes.
    pub(crate) dirty: Vec<About>,
    /// Nodes that a truncation has deleted.
    pub(crate) freed: Vec<Nid>,
    /// Blocks of deleted nodes that stored images may still name.
    pub(crate) kept: Vec<Block>,
}

/// What has been captured of a file, and is not committed yet.
#[derive(Debug, Default)]
pub(crate) struct Commit {
    pub(crate) change: Change,
    /// Blocks that become free once the change is durable.
    pub(crate) replaced: Vec<Block>,
    /// All node ids that become free then, including those of nodes that were never stored.
    pub(crate) freed: Vec<Nid>,
}

impl Commit {
    pub(crate) fn is_empty(&self) -> bool {
        self.change.stores.is_empty() && self.freed.is_empty() && self.replaced.is_empty()
    }
}

impl<L> Inode<L> {
    pub(crate) fn new(nid: Nid, head: Head, lock: L) -> Self {
        Inode {
            nid,
            name: head.name,
            created: head.created,
            lock,
            size: AtomicU64::new(head.size),
            captured_size: AtomicU64::new(head.size),
            is_removed: AtomicBool::new(false),
            tree: Mutex::new(()),
            changes: Mutex::new(Changes::default()),
            commit: BlockingMutex::new(Commit::default()),
            sync: Rendezvous::new(),
        }
    }

    /// Returns the identity of this node in the cache.
    pub(crate) fn about(&self) -> About {
        About {
            nid: self.nid,
            inode: self.nid,
            place: Place::INODE.packed(),
        }
    }

    pub(crate) fn head(&self, size: u64) -> Head {
        Head {
            size,
            created: self.created,
            name: self.name.clone(),
        }
    }

    /// Returns the size of the file in bytes.
    pub(crate) fn size(&self) -> u64 {
        // Relaxed: a capture that reads a size takes the mutexes of the nodes afterwards, under
        // which the writer set the slots before it raised the size. If the writer took one of them
        // later, it would raise the size after the capture's load, which could not return it. A
        // thread that holds pages learns in the same way of the size that their writer stored.
        self.size.load(Ordering::Relaxed)
    }

    /// Raises the size to at least `end`. The caller has set the slots of the new pages. The inode
    /// need not be dirty: a capture looks whether the size has changed.
    pub(crate) fn grow(&self, end: u64) {
        // Relaxed: see `size`.
        self.size.fetch_max(end, Ordering::Relaxed);
    }

    /// Returns the size in the last captured image, or the stored one. The caller holds
    /// [`commit`](Self::commit), as for [`set_captured_size`](Self::set_captured_size).
    pub(crate) fn captured_size(&self) -> u64 {
        // Relaxed: used only under `commit`.
        self.captured_size.load(Ordering::Relaxed)
    }

    pub(crate) fn set_captured_size(&self, size: u64) {
        // Relaxed: as above.
        self.captured_size.store(size, Ordering::Relaxed);
    }

    /// Sets the size. The caller holds [`tree`](Self::tree), and all pages from the size on, so
    /// nothing grows the file.
    pub(crate) fn set_size(&self, size: u64) {
        // Relaxed: see `size`; a capture holds `tree`, too.
        self.size.store(size, Ordering::Relaxed);
    }

    /// Marks the file as removed. The caller holds all of its range lock, and `commit`.
    pub(crate) fn set_removed(&self) {
        // Relaxed: each user of the file checks while it holds a range of it, or `commit`.
        self.is_removed.store(true, Ordering::Relaxed);
    }

    /// Fails if the file is removed.
    pub(crate) fn check_present(&self) -> Result<(), Error> {
        // Relaxed: see `set_removed`.
        match self.is_removed.load(Ordering::Relaxed) {
            true => Err(Error::Removed {
                name: self.name.clone(),
            }),
            false => Ok(()),
        }
    }

    /// Notes that a clean node becomes dirty. The cache calls this before another thread can find
    /// it dirty.
    pub(crate) fn note(&self, about: About) {
        self.changes.lock().dirty.push(about);
    }
}
