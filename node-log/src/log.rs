//! The log: segments of blocks, which are filled in order and freed when no block is in use.
//!
//! In memory only: recovery [claims](Log::claim) the blocks that nodes name. It serves the data log
//! and the block home's node log.

use crate::node::{Block, Nid};

/// Which head a block goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heat {
    /// Written by the user.
    Hot,
    /// Moved by cleaning: it is likely to stay.
    Cold,
}

/// Which slot of which node names a block. In the node log: the node itself, and slot 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) nid: Nid,
    pub(crate) slot: u16,
}

/// Blocks that are set aside for a writer, so that a later [`allocate`](Log::allocate) cannot fail.
/// Dropping it gives back the blocks that were not allocated.
pub(crate) struct Room<'l> {
    log: &'l Log,
    blocks: u32,
}

/// See the [module](self).
pub(crate) struct Log {}

impl Log {
    /// Creates a log of segments that are all free. The first block of the first segment is
    /// `first`.
    pub(crate) fn new(_first: Block, _segments: u32, _segment_blocks: u32) -> Self {
        todo!()
    }

    /// Recovery: marks a block as used. Returns its owner so far if it has one, or `None` (with the
    /// block's number) if no segment has the block.
    pub(crate) fn claim(&self, _block: Block, _owner: Owner) -> Result<(), Option<Owner>> {
        todo!()
    }

    /// Sets blocks aside. `None`: there are not enough, so the volume must clean. Cold blocks may
    /// use the segments that are kept for cleaning; hot ones may not.
    pub(crate) fn reserve(&self, _blocks: u32, _heat: Heat) -> Option<Room<'_>> {
        todo!()
    }

    /// Sets blocks free. Their data may be overwritten at once.
    pub(crate) fn free(&self, _blocks: &[Block]) {
        todo!()
    }

    /// Returns the owner that was set last.
    pub(crate) fn owner(&self, _block: Block) -> Option<Owner> {
        todo!()
    }

    /// Returns the full segment with the fewest blocks in use (none if it has no free block), and
    /// those blocks with their owners. The segment stays in place.
    pub(crate) fn victim(&self) -> Option<Vec<(Block, Owner)>> {
        todo!()
    }

    /// Returns how many blocks can be reserved for the user now.
    pub(crate) fn room(&self) -> u64 {
        todo!()
    }

    /// Returns how many blocks are in use.
    pub(crate) fn used(&self) -> u64 {
        todo!()
    }
}

impl Room<'_> {
    /// Allocates up to `most` consecutive blocks, at least one. Returns the first, and how many.
    /// They are in use from now on; [`set_owner`](Room::set_owner) says by whom.
    ///
    /// # Panics
    /// If `most` is 0, or more than what is left of the room.
    pub(crate) fn allocate(&mut self, _most: u32) -> (Block, u32) {
        let _ = (self.log, self.blocks);
        todo!()
    }
}

impl Log {
    /// Says which slot names the block. Before that slot is set.
    pub(crate) fn set_owner(&self, _block: Block, _owner: Owner) {
        todo!()
    }
}
