//! Where nodes live: in blocks, as F2FS has them, or in persistent memory.

pub(crate) mod block;
pub(crate) mod nvm;

use crate::device::DataDurable;
use crate::error::Error;
use crate::node::Nid;

/// The nodes of one file that a commit stores, all or nothing.
#[derive(Clone, Debug, Default)]
pub struct Change {
    /// The file's inode.
    pub inode: Nid,
    /// The new images of all changed nodes, including `inode` if it changed. Children come before
    /// parents, and the inode last.
    pub stores: Vec<Stored>,
    /// Stored nodes that the file no longer has. Their ids can be reused once the commit has
    /// returned.
    pub frees: Vec<Nid>,
}

/// The image of one node: its bytes as `docs/format.md` describes them.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The node.
    pub nid: Nid,
    /// Its bytes, without trailing zero slots.
    pub bytes: Vec<u8>,
}

/// When the blocks and node ids of a removed file can be reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// Now: the removal is durable.
    Durable,
    /// After the next checkpoint, which makes the removal durable.
    AtCheckpoint,
}

/// Which volume a half belongs to, and how often that volume was opened for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The volume's id, the same in both halves.
    pub volume: u128,
    /// The number of openings for writing.
    pub generation: u64,
    /// Whether the data half may still have the generation before. Only in the node half.
    pub is_opening: bool,
}

/// What a home has made durable since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Persisted {
    /// The number of nodes stored. A node that is stored twice counts twice.
    pub nodes: u64,
    /// The bytes written for them: whole 64-byte lines in persistent memory, or 4,096 for each.
    pub node_bytes: u64,
    /// The bytes written to the NAT, and to redo slots or checkpoint packs.
    pub table_bytes: u64,
}

/// Stores nodes, and the node address table (NAT), which says where each one is.
///
/// Several threads may call these methods at the same time. The volume guarantees that at most one
/// thread at a time commits or removes a given file. If
/// [`BLOCKS_WRITERS`](Home::BLOCKS_WRITERS), none does during [`checkpoint`](Home::checkpoint).
pub trait Home: Send + Sync + Sized {
    /// The medium.
    type Medium;
    /// Whether all other changes must wait during a checkpoint.
    const BLOCKS_WRITERS: bool;

    /// Formats the medium for node ids below `nodes`. A home that has segments makes them of
    /// `segment_blocks` blocks.
    fn create(
        medium: Self::Medium,
        volume: u128,
        nodes: u32,
        segment_blocks: u32,
    ) -> Result<Self, Error>;

    /// Opens the medium, and recovers the NAT. Writes nothing, so that halves that do not belong
    /// together stay as they are.
    fn open(medium: Self::Medium) -> Result<Self, Error>;

    /// Returns the identity that was last written to the medium.
    fn identity(&self) -> Identity;

    /// Writes the identity durably. The first call after opening first writes what recovery needs
    /// to write. Nothing else may be written before it.
    fn stamp(&self, identity: Identity) -> Result<(), Error>;

    /// Returns the end of the node ids: they begin with 1, and are less than this.
    fn nodes(&self) -> u32;

    /// Returns whether the node is stored.
    fn has(&self, nid: Nid) -> bool;

    /// Returns the image of a stored node, or `None` if there is none.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the checksum does not match, [`Error::Io`].
    fn load(&self, nid: Nid) -> Result<Option<Vec<u8>>, Error>;

    /// Deletes a stored node that no inode reaches. Only before the volume is used.
    fn forget(&self, nid: Nid) -> Result<(), Error>;

    /// Makes the change durable, all or nothing. `data` proves that the blocks that its nodes name
    /// are durable.
    ///
    /// # Errors
    /// [`Error::NodesFull`]: nothing was changed. Any other error is final: the volume fails.
    fn commit(&self, change: &Change, data: DataDurable) -> Result<(), Error>;

    /// Removes a file's inode and its other nodes. The result says when that is durable.
    fn remove(&self, inode: Nid, others: &[Nid]) -> Result<Removal, Error>;

    /// Makes everything durable, including `changes`: one for each file that changed since its last
    /// commit. The errors are those of [`commit`](Home::commit).
    fn checkpoint(&self, changes: &[Change], data: DataDurable) -> Result<(), Error>;

    /// Returns what has been made durable since the home was opened.
    fn persisted(&self) -> Persisted;
}
