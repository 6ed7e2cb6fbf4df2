//! The options of a volume.

use std::time::Duration;

use crate::cache::Lookup;
use crate::error::Error;

/// Options with which a volume is created or opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub(crate) segment_blocks: u32,
    pub(crate) nodes: Option<u32>,
    pub(crate) id: Option<u128>,
    pub(crate) lookup: Lookup,
    pub(crate) cached_nodes: usize,
    pub(crate) checkpoint_every: Option<Duration>,
    pub(crate) read_only: bool,
}

impl Options {
    /// Returns the defaults: segments of 512 blocks, a node for every 16 blocks of data, a random
    /// id; the optimistic lookup, about 65,536 cached nodes, a checkpoint every 60 seconds.
    pub fn new() -> Self {
        Options {
            segment_blocks: 512,
            nodes: None,
            id: None,
            lookup: Lookup::default(),
            cached_nodes: 65_536,
            checkpoint_every: Some(Duration::from_secs(60)),
            read_only: false,
        }
    }

    /// Sets the blocks in a segment: a power of two from 8 to 512. Fixed when the volume is
    /// created.
    pub fn segment_blocks(mut self, blocks: u32) -> Self {
        self.segment_blocks = blocks;
        self
    }

    /// Sets the number of node ids, 8 to 2^30; for nodes in blocks, at most 33,358,080. Id 0 names
    /// no node, so the volume can have one node fewer. A file has an inode, a node for every 1,016
    /// blocks after its first 923, and an indirect node for every 1,016 of those. The default is a
    /// sixteenth of the blocks, but 64 to 2^24. Fixed when the volume is created.
    pub fn nodes(mut self, nodes: u32) -> Self {
        self.nodes = Some(nodes);
        self
    }

    /// Sets the volume's id, instead of a random one. Fixed when the volume is created.
    pub fn id(mut self, id: u128) -> Self {
        self.id = Some(id);
        self
    }

    /// Sets how nodes are looked up.
    pub fn lookup(mut self, lookup: Lookup) -> Self {
        self.lookup = lookup;
        self
    }

    /// Sets about how many nodes stay in memory, at about 4 KiB each. Nodes with unsynced changes
    /// stay even beyond this number.
    pub fn cached_nodes(mut self, nodes: usize) -> Self {
        self.cached_nodes = nodes;
        self
    }

    /// Sets the time after a checkpoint from which an `fsync` also makes the next one, as in F2FS
    /// (\[F2FS\] §3.1: 60 s). `None`: no `fsync` does.
    pub fn checkpoint_every(mut self, time: Option<Duration>) -> Self {
        self.checkpoint_every = time;
        self
    }

    /// Sets whether the volume is opened only for reading. Nothing is written then, so the halves
    /// may even have different generations: the files are those of the node half. Damaged nodes do
    /// not prevent the opening. A file whose inode is damaged is missing, and a read that needs
    /// another damaged node fails.
    pub fn read_only(mut self, on: bool) -> Self {
        self.read_only = on;
        self
    }

    /// Returns the number of node ids for a data half of this many blocks.
    pub(crate) fn nodes_for(&self, blocks: u64) -> u32 {
        let default = (blocks / 16).clamp(64, 1 << 24) as u32;
        self.nodes.unwrap_or(default)
    }

    /// Checks the options of a new volume whose data half has this many blocks. Returns the numbers
    /// of segments and of node ids.
    pub(crate) fn check(&self, blocks: u64) -> Result<(u32, u32), Error> {
        let bad = |what, found, wanted| {
            Err(Error::BadOption {
                what,
                found,
                wanted,
            })
        };
        let segment = self.segment_blocks;
        if !segment.is_power_of_two() || !(8..=512).contains(&segment) {
            let wanted = "a power of two from 8 to 512";
            return bad("the number of blocks of a segment", segment.into(), wanted);
        }
        let segments = blocks.saturating_sub(SUPERBLOCKS) / u64::from(segment);
        if segments < LEAST_SEGMENTS || blocks > u64::from(u32::MAX) {
            let wanted = "at least two, and room for eight segments, and fewer than 2^32";
            return bad("the number of blocks of the data half", blocks, wanted);
        }
        let nodes = self.nodes_for(blocks);
        if !(8..=1 << 30).contains(&nodes) {
            return bad("the number of nodes", nodes.into(), "from 8 to 2^30");
        }
        Ok((segments as u32, nodes))
    }
}

/// The blocks before the first segment: the superblock and its copy.
pub(crate) const SUPERBLOCKS: u64 = 2;
/// The fewest segments of a data half.
const LEAST_SEGMENTS: u64 = 8;

impl Default for Options {
    fn default() -> Self {
        Options::new()
    }
}
