//! A file in memory.

use std::sync::Arc;

use spanlock_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use spanlock_sync::{BlockingMutex, Mutex};

use crate::cache::About;
use crate::error::Error;
use crate::home::Change;
use crate::node::{Block, Head, Nid, Place};
use crate::rendezvous::Rendezvous;

/// A file in memory. All of the volume's are, for as long as it is open.
pub(crate) struct Inode<L> {
    pub(crate) nid: Nid,
    pub(crate) name: Arc<str>,
    /// Counts creations.
    pub(crate) created: u64,
    /// Over bytes; all holds are of whole pages.
    pub(crate) lock: L,
    size: AtomicU64,
    is_removed: AtomicBool,
    /// Held by all that add nodes to the file's tree or take some away, and by captures, so that no
    /// image names a node that has none.
    pub(crate) tree: Mutex<()>,
    pub(crate) changes: Mutex<Changes>,
    /// Held while the file is committed or removed. Has what was captured and could not be
    /// committed because the node half was full.
    pub(crate) commit: BlockingMutex<Commit>,
    /// The `fsync`s meet here.
    pub(crate) sync: Rendezvous,
}

/// What has changed since the last capture, besides the slots, of which the cache keeps account.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// The nodes that changed.
    pub(crate) dirty: Vec<About>,
    /// Nodes that a truncation has taken away.
    pub(crate) freed: Vec<Nid>,
    /// Blocks that such nodes named, and stored images may still name.
    pub(crate) kept: Vec<Block>,
}

/// What has been captured of a file, and is not committed yet.
#[derive(Debug, Default)]
pub(crate) struct Commit {
    pub(crate) change: Change,
    /// Blocks that are free once the change is durable.
    pub(crate) replaced: Vec<Block>,
    /// All node ids that are free then, those that were never stored included.
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
            is_removed: AtomicBool::new(false),
            tree: Mutex::new(()),
            changes: Mutex::new(Changes::default()),
            commit: BlockingMutex::new(Commit::default()),
            sync: Rendezvous::new(),
        }
    }

    /// Returns what the cache says about this node.
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

    /// Returns the bytes of the file.
    pub(crate) fn size(&self) -> u64 {
        // Acquire [N-Z]: a capture that reads a size also finds the slots of the blocks below it;
        // pairs with `grow`.
        self.size.load(Ordering::Acquire)
    }

    /// Raises the size to `end`, unless it is as large. Returns whether it was smaller. The caller
    /// has set the slots of the new blocks.
    pub(crate) fn grow(&self, end: u64) -> bool {
        // Release [N-Z]: pairs with `size`.
        self.size.fetch_max(end, Ordering::Release) < end
    }

    /// Sets the size. The caller holds [`tree`](Self::tree), and all pages from the size on, so
    /// nothing grows the file.
    pub(crate) fn set_size(&self, size: u64) {
        // Release [N-Z]: as in `grow`.
        self.size.store(size, Ordering::Release);
    }

    /// Says that the file is removed. The caller holds all of it.
    pub(crate) fn set_removed(&self) {
        // Relaxed: all that use the file look while they hold a part of it, or `commit`.
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

    /// Says that a clean node becomes dirty. The cache calls this before another thread can find it
    /// dirty.
    pub(crate) fn note(&self, about: About) {
        self.changes.lock().dirty.push(about);
    }
}
