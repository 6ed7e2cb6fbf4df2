//! The tree of a file's nodes: finding the slot of a page, adding, deleting and visiting nodes.
//!
//! ```text
//!   inode ─┬─ 923 blocks
//!          ├─ 2 × direct ───── 1,016 blocks
//!          ├─ 2 × indirect ─── 1,016 × direct
//!          └─ double-indirect  1,016 × indirect
//! ```
//!
//! # Invariants
//! - **N-T1** While a thread holds a page in the file's range lock, the nodes above the page stay.
//!   Only a truncation or a removal deletes a node, and it holds all pages of the node.
//! - **N-T2** The slot of a page changes only while the page is held exclusively.
//! - **N-T3** Nodes are added, deleted and captured under the mutex `Inode::tree`. So a captured
//!   image names only nodes that are stored, or captured at the same time.

use std::ops::Range;

use spanlock_sync::injected_bug;

use crate::cache::{About, Cache, Replaced};
use crate::error::Error;
use crate::home::Home;
use crate::inode::Inode;
use crate::nids::Nids;
use crate::node::{BLOCK_BYTES, Block, Nid, Node, Path, Place, decode};

/// The nodes of a volume: stored, cached, and their ids.
pub(crate) struct Tree<H> {
    pub(crate) home: H,
    pub(crate) cache: Cache,
    pub(crate) nids: Nids,
}

/// The slots of some consecutive pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leaf {
    pub(crate) nid: Nid,
    /// The slot of the first of the pages.
    pub(crate) slot: u16,
    /// The number of pages, at least one.
    pub(crate) pages: u32,
}

/// What a truncation has cut off.
#[derive(Debug, Default)]
pub(crate) struct Cut {
    /// Blocks that can be freed now.
    pub(crate) fresh: Vec<Block>,
    /// Blocks that stored images may name.
    pub(crate) kept: Vec<Block>,
    pub(crate) nodes: Vec<Nid>,
}

impl<H: Home> Tree<H> {
    /// Reads a stored node.
    pub(crate) fn load(&self, nid: Nid) -> Result<Node, Error> {
        let damaged = |what| Error::DamagedNode { nid, what };
        let bytes = self.home.load(nid)?;
        let bytes = bytes.ok_or(damaged("a file needs it, and it is not there"))?;
        decode(nid, &bytes).map_err(damaged)
    }

    fn load_for_cache(&self, nid: Nid) -> Result<(About, Vec<u32>), Error> {
        let node = self.load(nid)?;
        Ok((node.about, node.slots))
    }

    /// Returns the identity of a cached or stored node. Does not cache it: the node may be gone by
    /// now and its id be reused, and the newer node must not find the older one in the cache.
    pub(crate) fn peek(&self, nid: Nid) -> Result<Option<About>, Error> {
        let not_cached = Error::DamagedNode {
            nid,
            what: "it is not cached",
        };
        if let Ok(about) = self.cache.about(nid, || Err(not_cached)) {
            return Ok(Some(about));
        }
        match self.home.load(nid)? {
            None => Ok(None),
            Some(bytes) => Ok(decode(nid, &bytes).ok().map(|it| it.about)),
        }
    }

    pub(crate) fn get(&self, nid: Nid, slot: usize) -> Result<u32, Error> {
        self.cache.get(nid, slot, || self.load_for_cache(nid))
    }

    /// Sets a slot of a node of this file.
    pub(crate) fn set<L>(
        &self,
        inode: &Inode<L>,
        nid: Nid,
        slot: usize,
        value: u32,
    ) -> Result<Replaced, Error> {
        let load = || self.load_for_cache(nid);
        (self.cache).set(nid, slot, value, load, |about| inode.note(about))
    }

    /// Notes that the file's size changes.
    pub(crate) fn touch<L>(&self, inode: &Inode<L>) -> Result<(), Error> {
        let load = || self.load_for_cache(inode.nid);
        (self.cache).touch(inode.nid, load, |about| inode.note(about))
    }

    /// Finds the node with the slot of the first page, and how many of `pages` have their slots
    /// there: F2FS's `get_dnode_of_data`. Returns `None` if there is no such node. The caller holds
    /// the first page.
    pub(crate) fn leaf(&self, inode: Nid, pages: Range<u32>) -> Result<Option<Leaf>, Error> {
        let path = Path::to(pages.start);
        let (inner, last) = path.parts();
        let mut nid = inode;
        for slot in inner {
            nid = self.get(nid, usize::from(*slot))?;
            if nid == 0 {
                return Ok(None);
            }
        }
        let place = match inner.len() {
            0 => Place::INODE,
            _ => Place::INODE.child(0),
        };
        let rest = place.slots() as u32 - u32::from(last);
        Ok(Some(Leaf {
            nid,
            slot: last,
            pages: rest.min(pages.end - pages.start),
        }))
    }

    /// Does what [`leaf`](Self::leaf) does, but adds missing nodes.
    pub(crate) fn leaf_or_new<L>(
        &self,
        inode: &Inode<L>,
        pages: Range<u32>,
    ) -> Result<Leaf, Error> {
        if let Some(leaf) = self.leaf(inode.nid, pages.clone())? {
            return Ok(leaf);
        }
        let tree = inode.tree.lock();
        let (mut nid, mut place) = (inode.nid, Place::INODE);
        for slot in Path::to(pages.start).parts().0 {
            let slot = usize::from(*slot);
            place = place.child(slot);
            let child = self.get(nid, slot)?;
            nid = match child {
                0 => self.add(inode, nid, slot, place)?,
                child => child,
            };
        }
        drop(tree);
        let leaf = self.leaf(inode.nid, pages)?;
        Ok(leaf.expect("N-T1: the nodes above a held page stay"))
    }

    /// Adds a node. The caller holds the tree.
    fn add<L>(
        &self,
        inode: &Inode<L>,
        parent: Nid,
        slot: usize,
        place: Place,
    ) -> Result<Nid, Error> {
        let nid = self.nids.take()?;
        self.cache.add(About {
            nid,
            inode: inode.nid,
            place: place.packed(),
        });
        if let Err(error) = self.set(inode, parent, slot, nid) {
            self.cache.remove(nid);
            self.nids.give_back(&[nid]);
            return Err(error);
        }
        // After the parent: N-T3 keeps captures away meanwhile.
        inode.note(About {
            nid,
            inode: inode.nid,
            place: place.packed(),
        });
        Ok(nid)
    }

    /// Returns all slots of a node, including trailing zeros.
    pub(crate) fn slots(&self, nid: Nid, place: Place) -> Result<Vec<u32>, Error> {
        (0..place.slots()).map(|slot| self.get(nid, slot)).collect()
    }

    /// Cuts off all pages from `from` on. The caller holds the pages and the tree. An error comes
    /// with `true` if something may have changed.
    pub(crate) fn cut<L>(&self, inode: &Inode<L>, from: u32) -> Result<Cut, (Error, bool)> {
        let mut nodes = Vec::new();
        let collect = |nid, place, _: &[u32]| {
            nodes.push((nid, place));
            Ok(())
        };
        // Every node is read before any is changed.
        walk(
            inode.nid,
            Place::INODE,
            from,
            |nid, place| self.slots(nid, place),
            collect,
        )
        .map_err(|error| (error, false))?;
        let mut cut = Cut::default();
        for (nid, place) in nodes {
            self.clear(inode, nid, place, from, &mut cut)
                .map_err(|error| (error, true))?;
            if place != Place::INODE && place.pages().start >= from {
                cut.kept.extend(self.cache.remove(nid));
                cut.nodes.push(nid);
            }
        }
        cut.nodes.sort_unstable();
        let mut changes = inode.changes.lock();
        let is_gone = |nid: &Nid| cut.nodes.binary_search(nid).is_ok();
        changes.dirty.retain(|it| !is_gone(&it.nid));
        Ok(cut)
    }

    /// Clears the slots of a node that lead to pages from `from` on.
    fn clear<L>(
        &self,
        inode: &Inode<L>,
        nid: Nid,
        place: Place,
        from: u32,
        cut: &mut Cut,
    ) -> Result<(), Error> {
        for slot in 0..place.slots() {
            let is_block = place.names_block(slot);
            let first = match is_block {
                true => place.page(slot),
                false => place.child(slot).pages().start,
            };
            if first < from || self.get(nid, slot)? == 0 {
                continue;
            }
            let replaced = self.set(inode, nid, slot, 0)?;
            let frees_early = injected_bug!(
                "frees-stored-blocks",
                "a truncation frees blocks that stored nodes still name",
                killed_by = "node-log-nvm/sequences-of-1, node-log-block/sequences-of-1"
            );
            if is_block && (replaced.is_fresh || frees_early) {
                cut.fresh.push(replaced.old);
            }
        }
        Ok(())
    }
}

/// Visits a node and all nodes below it that cover pages from `from` on, children before parents.
/// `read` returns a node's slots.
pub(crate) fn walk(
    nid: Nid,
    place: Place,
    from: u32,
    mut read: impl FnMut(Nid, Place) -> Result<Vec<u32>, Error>,
    mut visit: impl FnMut(Nid, Place, &[u32]) -> Result<(), Error>,
) -> Result<(), Error> {
    fn inner(
        nid: Nid,
        place: Place,
        from: u32,
        read: &mut impl FnMut(Nid, Place) -> Result<Vec<u32>, Error>,
        visit: &mut impl FnMut(Nid, Place, &[u32]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let slots = read(nid, place)?;
        for (slot, value) in slots.iter().enumerate() {
            if *value == 0 || place.names_block(slot) {
                continue;
            }
            let child = place.child(slot);
            if child.pages().end > from {
                inner(*value, child, from, read, visit)?;
            }
        }
        visit(nid, place, &slots)
    }
    inner(nid, place, from, &mut read, &mut visit)
}

/// Returns the page that has a byte.
pub(crate) fn page_of(byte: u64) -> u32 {
    (byte / BLOCK_BYTES as u64) as u32
}

/// Returns how many pages `bytes` bytes take.
pub(crate) fn pages_for(bytes: u64) -> u32 {
    bytes.div_ceil(BLOCK_BYTES as u64) as u32
}
