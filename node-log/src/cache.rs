//! The node cache: nodes in memory, and the three ways to look one up.

use spanlock_sync::Mutex;
use spanlock_sync::atomic::AtomicU32;

use crate::error::Error;
use crate::node::{Block, Nid};

/// How a lookup reads a node ([DNODE]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lookup {
    /// With the node's latch held exclusively, as F2FS does.
    Exclusive,
    /// With the node's latch held shared: the poster's remedy.
    Shared,
    /// Without a latch, pinned by an epoch.
    #[default]
    Optimistic,
}

/// What a cached node is, besides its slots. Constant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct About {
    pub(crate) nid: Nid,
    /// The file's inode.
    pub(crate) inode: Nid,
    /// Where the node stands in its file (`node::Place`, packed).
    pub(crate) place: u32,
}

/// A node in memory.
pub(crate) struct Entry {
    pub(crate) about: About,
    // latch, evicted flag, clock bit
    slots: Box<[AtomicU32]>,
    changes: Mutex<Changes>,
}

/// What has changed in a node since its last capture.
#[derive(Debug, Default)]
struct Changes {
    is_dirty: bool,
    /// Slots whose block no stored or captured image names.
    fresh: Vec<u64>,
    /// Blocks that a stored or captured image names, and the node no more.
    replaced: Vec<Block>,
}

/// What a capture takes from a node.
#[derive(Debug)]
pub(crate) struct Captured {
    /// The slots, without zeros at the end.
    pub(crate) slots: Vec<u32>,
    /// Blocks, not nodes, to be freed once the image is durable.
    pub(crate) replaced: Vec<Block>,
}

/// See the [module](self).
pub(crate) struct Cache {}

/// What [`Cache::set`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replaced {
    /// The slot's value before.
    pub(crate) old: u32,
    /// No stored or captured image names `old`: the caller frees it now. Otherwise the node keeps
    /// it, for its next capture.
    pub(crate) is_fresh: bool,
}

impl Cache {
    /// Creates a cache for node ids below `nodes` that keeps about `most` clean nodes.
    pub(crate) fn new(_nodes: u32, _lookup: Lookup, _most: usize) -> Self {
        todo!()
    }

    /// Returns one slot of a node. If the node is not cached, `load` returns what is to be cached.
    pub(crate) fn get(
        &self,
        _nid: Nid,
        _slot: usize,
        _load: impl FnOnce() -> Result<(About, Vec<u32>), Error>,
    ) -> Result<u32, Error> {
        todo!()
    }

    /// Returns what a cached or loaded node is.
    pub(crate) fn about(
        &self,
        _nid: Nid,
        _load: impl FnOnce() -> Result<(About, Vec<u32>), Error>,
    ) -> Result<About, Error> {
        todo!()
    }

    /// Adds a new node, which is dirty and has no slot set.
    pub(crate) fn add(&self, _about: About) {
        todo!()
    }

    /// Sets one slot. If the node was clean, calls `dirtied` before another thread can find it
    /// dirty: the caller puts it on the inode's list of dirty nodes.
    pub(crate) fn set(
        &self,
        _nid: Nid,
        _slot: usize,
        _value: u32,
        _load: impl FnOnce() -> Result<(About, Vec<u32>), Error>,
        _dirtied: impl FnOnce(About),
    ) -> Result<Replaced, Error> {
        todo!()
    }

    /// Makes a node dirty, and calls `dirtied` as [`set`](Self::set) does.
    pub(crate) fn touch(
        &self,
        _nid: Nid,
        _load: impl FnOnce() -> Result<(About, Vec<u32>), Error>,
        _dirtied: impl FnOnce(About),
    ) -> Result<(), Error> {
        todo!()
    }

    /// Takes the image of a dirty node, which is clean and has no fresh slot from then on. The node
    /// is not evicted until [`settle`](Self::settle), because its image is not stored yet.
    pub(crate) fn capture(&self, _nid: Nid) -> Captured {
        todo!()
    }

    /// The captured image has been stored, or the node was clean all along. Nothing happens if it
    /// was [removed](Self::remove) meanwhile.
    pub(crate) fn settle(&self, _nid: Nid) {
        todo!()
    }

    /// Forgets a node that no node names any more. Returns the blocks that it kept for its next
    /// capture.
    pub(crate) fn remove(&self, _nid: Nid) -> Vec<Block> {
        todo!()
    }
}
