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
    /// The new images of the nodes that changed, `inode` among them if it did.
    pub stores: Vec<Stored>,
    /// Nodes that no stored node names any more. Their ids can be reused once the commit has
    /// returned.
    pub frees: Vec<Nid>,
}

/// The image of one node, as `node` encodes it.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The node.
    pub nid: Nid,
    /// Its bytes, without zero slots at the end.
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

/// Which volume a half belongs to, and how often that was opened for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Random, the same in both halves.
    pub volume: u128,
    /// Counts openings for writing.
    pub generation: u64,
    /// The generation has been written here, and perhaps not yet in the data half.
    pub is_opening: bool,
}

/// What a home has made durable since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Persisted {
    /// Nodes stored.
    pub nodes: u64,
    /// Bytes of nodes written.
    pub node_bytes: u64,
    /// Bytes of the address table and of commit records written.
    pub table_bytes: u64,
}

/// Stores nodes, and the node address table (NAT), which says where each one is.
///
/// Several threads may call these methods at once; but at most one commits for the same file, and
/// none commits or removes during [`checkpoint`](Home::checkpoint) if
/// [`BLOCKS_WRITERS`](Home::BLOCKS_WRITERS).
pub trait Home: Send + Sync + Sized {
    /// The medium.
    type Medium;
    /// Whether the volume must keep all other changes away while it makes a checkpoint.
    const BLOCKS_WRITERS: bool;

    /// Formats the medium. `segment_blocks` is the size of a segment, where the home has segments.
    fn create(
        medium: Self::Medium,
        volume: u128,
        nodes: u32,
        segment_blocks: u32,
    ) -> Result<Self, Error>;

    /// Opens the medium, and recovers the NAT. Writes nothing, so that a volume whose halves do not
    /// fit is not changed.
    fn open(medium: Self::Medium) -> Result<Self, Error>;

    /// Returns what the medium's superblock says.
    fn identity(&self) -> Identity;

    /// Writes the superblock durably. The first call also writes whatever recovery has to write.
    fn stamp(&self, identity: Identity) -> Result<(), Error>;

    /// Returns the number of node ids: ids are 1 to this, less one.
    fn nodes(&self) -> u32;

    /// Returns whether the node is stored.
    fn has(&self, nid: Nid) -> bool;

    /// Returns the image of the node that is stored. Checks it.
    fn load(&self, nid: Nid) -> Result<Option<Vec<u8>>, Error>;

    /// Forgets a stored node that no inode reaches. Only before the volume is used.
    fn forget(&self, nid: Nid) -> Result<(), Error>;

    /// Makes the change durable, all or nothing. `data` proves that the blocks that it names are.
    fn commit(&self, change: &Change, data: DataDurable) -> Result<(), Error>;

    /// Removes a file's nodes.
    fn remove(&self, inode: Nid, others: &[Nid]) -> Result<Removal, Error>;

    /// Makes everything durable. `changes` has those files that changed since their last commit.
    fn checkpoint(&self, changes: &[Change], data: DataDurable) -> Result<(), Error>;

    /// Returns what has been made durable since the home was opened.
    fn persisted(&self) -> Persisted;
}
