//! The layout of a block home's medium, and access to its blocks. There are *n* NAT blocks.
//!
//! ```text
//! block  0, 1     the superblock and its copy
//!        2, 3     the heads of the checkpoint packs A and B
//!        4, 5     their maps
//!        6        the first copies of the NAT blocks
//!        6 + n    their second copies
//!        6 + 2n   segments of nodes
//! ```

use spanlock_journal_commit::Storage;

use super::pack::{MAP_BITS, NAT_ENTRIES};
use crate::error::Error;
use crate::home::Identity;
use crate::node::{BLOCK_BYTES, Block};
use crate::superblock::{SUPERBLOCK_BYTES, Superblock};

const MAGIC: &[u8; 8] = b"SpanlkNB";
const HEADS: Block = 2;
const MAPS: Block = 4;
const NAT: Block = 6;
/// The fewest segments of a home: two are being filled, and cleaning needs room.
const LEAST_SEGMENTS: u32 = 8;
/// The largest number of node ids, because the map of a pack is one block.
const MOST_NODES: u32 = NAT_ENTRIES * MAP_BITS;

/// The sizes of a home's parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub(super) nodes: u32,
    pub(super) segment_blocks: u32,
    pub(super) segments: u32,
}

impl Layout {
    /// Returns the layout of a medium with this many bytes.
    fn new(bytes: u64, nodes: u32, segment_blocks: u32) -> Result<Self, Error> {
        if !(2..=MOST_NODES).contains(&nodes) {
            return Err(Error::BadOption {
                what: "the number of node ids",
                found: u64::from(nodes),
                wanted: "from 2 to 33,358,080 for nodes in blocks",
            });
        }
        let mut layout = Layout {
            nodes,
            segment_blocks,
            segments: LEAST_SEGMENTS,
        };
        if layout.bytes() > bytes {
            return Err(Error::TooSmall {
                half: HALF,
                needed: layout.bytes(),
                found: bytes,
            });
        }
        // Blocks have 32-bit numbers. The last one is not used, so that an end is a number, too.
        let blocks = (bytes / BLOCK_BYTES as u64).min(u64::from(u32::MAX)) as u32;
        layout.segments = (blocks - layout.log()) / segment_blocks;
        Ok(layout)
    }

    /// Returns the number of NAT blocks.
    pub(super) fn nat_blocks(&self) -> u32 {
        self.nodes.div_ceil(NAT_ENTRIES)
    }

    /// Returns where a copy of a NAT block lies.
    pub(super) fn nat(&self, number: u32, copy: bool) -> Block {
        NAT + number + if copy { self.nat_blocks() } else { 0 }
    }

    /// Returns the first block of the first segment.
    pub(super) fn log(&self) -> Block {
        NAT + 2 * self.nat_blocks()
    }

    /// Returns how many blocks the segments have.
    pub(super) fn log_blocks(&self) -> u64 {
        u64::from(self.segments) * u64::from(self.segment_blocks)
    }

    /// Returns the end of the last segment.
    fn end(&self) -> u64 {
        u64::from(self.log()) + self.log_blocks()
    }

    fn bytes(&self) -> u64 {
        self.end() * BLOCK_BYTES as u64
    }

    /// Returns the end of the segment that has the block.
    pub(super) fn segment_end(&self, block: Block) -> Block {
        block + self.segment_blocks - (block - self.log()) % self.segment_blocks
    }

    /// Returns whether a segment has the block.
    pub(super) fn has(&self, block: Block) -> bool {
        block >= self.log() && u64::from(block) < self.end()
    }
}

/// Returns how many blocks a medium needs for its tables, the fewest segments, and five blocks for
/// every four node ids.
pub(super) fn blocks_for(nodes: u32, segment_blocks: u32) -> u64 {
    let layout = Layout {
        nodes,
        segment_blocks,
        segments: LEAST_SEGMENTS,
    };
    layout.end() + u64::from(nodes) + u64::from(nodes / 4)
}

/// Returns where the head of a pack lies.
pub(super) fn head(serial: u64) -> Block {
    HEADS + (serial % 2) as Block
}

/// Returns where the map of a pack lies.
pub(super) fn map(serial: u64) -> Block {
    MAPS + (serial % 2) as Block
}

const HALF: &str = "node half";

/// Returns the error for a damaged block.
pub(super) fn corrupt(what: &'static str, block: Block) -> Error {
    Error::Corrupt {
        what,
        half: HALF,
        at: u64::from(block) * BLOCK_BYTES as u64,
    }
}

/// The storage, in blocks.
#[derive(Debug)]
pub(super) struct Medium<N> {
    storage: N,
    pub(super) layout: Layout,
}

impl<N: Storage> Medium<N> {
    /// Lays out a medium that has no home yet, or one whose creation was interrupted: no volume has
    /// used it.
    pub(super) fn create(storage: N, nodes: u32, segment_blocks: u32) -> Result<Self, Error> {
        let layout = Layout::new(storage.len(), nodes, segment_blocks)?;
        let medium = Medium { storage, layout };
        let used = |it: Superblock| it.identity.generation > 0;
        for copy in 0..2 {
            let bytes = medium.read(copy)?;
            let is_used = match Superblock::decode(&bytes[..SUPERBLOCK_BYTES], MAGIC, HALF) {
                Ok(superblock) => superblock.is_some_and(used),
                Err(_) => true,
            };
            if is_used || bytes[SUPERBLOCK_BYTES..].iter().any(|&byte| byte != 0) {
                return Err(Error::Occupied { half: HALF });
            }
        }
        Ok(medium)
    }

    /// Reads the layout and the identity from the newer superblock.
    pub(super) fn open(storage: N) -> Result<(Self, Identity), Error> {
        let mut layout = Layout {
            nodes: 0,
            segment_blocks: 1,
            segments: 0,
        };
        let mut medium = Medium { storage, layout };
        let (mut newest, mut why) = (None, Error::NotAVolume { half: HALF });
        if medium.storage.len() < u64::from(NAT) * BLOCK_BYTES as u64 {
            return Err(why);
        }
        for copy in 0..2 {
            match Superblock::decode(&medium.read(copy)?[..SUPERBLOCK_BYTES], MAGIC, HALF) {
                Ok(Some(found)) => {
                    let age = |it: &Superblock| (it.identity.generation, !it.identity.is_opening);
                    if newest.as_ref().is_none_or(|it| age(it) < age(&found)) {
                        newest = Some(found);
                    }
                }
                Ok(None) => {}
                Err(error) => why = error,
            }
        }
        let Superblock { identity, numbers } = newest.ok_or(why)?;
        let is_sound = numbers[..3].iter().all(|&it| u32::try_from(it).is_ok());
        [layout.nodes, layout.segment_blocks, layout.segments] =
            [0, 1, 2].map(|it| numbers[it] as u32);
        if !is_sound || layout.nodes > MOST_NODES || layout.segment_blocks == 0 {
            return Err(corrupt("the superblock has sizes that no home has", 0));
        }
        if layout.bytes() > medium.storage.len() {
            return Err(Error::TooSmall {
                half: HALF,
                needed: layout.bytes(),
                found: medium.storage.len(),
            });
        }
        medium.layout = layout;
        Ok((medium, identity))
    }

    /// Writes the superblock and then its copy, so that a crash damages at most one of them.
    pub(super) fn write_superblock(&self, identity: Identity) -> Result<(), Error> {
        let mut numbers = [0; 8];
        let layout = &self.layout;
        let sizes = [layout.nodes, layout.segment_blocks, layout.segments];
        numbers[..3].copy_from_slice(&sizes.map(u64::from));
        let mut bytes = [0; BLOCK_BYTES];
        let superblock = Superblock { identity, numbers };
        bytes[..SUPERBLOCK_BYTES].copy_from_slice(&superblock.encode(MAGIC));
        self.write_durably(0, &bytes)?;
        self.write_durably(1, &bytes)
    }

    /// Returns a block.
    pub(super) fn read(&self, block: Block) -> Result<[u8; BLOCK_BYTES], Error> {
        let mut bytes = [0; BLOCK_BYTES];
        (self.storage.read_at(&mut bytes, at(block))).map_err(Error::io("reading a node block"))?;
        Ok(bytes)
    }

    /// Writes consecutive blocks.
    pub(super) fn write(&self, block: Block, bytes: &[u8]) -> Result<(), Error> {
        let written = self.storage.write_at(bytes, at(block));
        written.map_err(Error::io("writing node blocks"))
    }

    /// Writes consecutive blocks durably. Does not make earlier writes durable.
    pub(super) fn write_durably(&self, block: Block, bytes: &[u8]) -> Result<(), Error> {
        let written = self.storage.write_fua(bytes, at(block));
        written.map_err(Error::io("writing node blocks durably"))
    }

    /// Writes blocks, with one call for each run of consecutive ones.
    pub(super) fn write_runs(&self, blocks: &[Block], bytes: &[u8]) -> Result<(), Error> {
        let mut bytes = bytes;
        for run in blocks.chunk_by(|one, next| one + 1 == *next) {
            let (now, later) = bytes.split_at(run.len() * BLOCK_BYTES);
            self.write(run[0], now)?;
            bytes = later;
        }
        Ok(())
    }

    /// Makes all earlier writes durable.
    pub(super) fn flush(&self) -> Result<(), Error> {
        (self.storage.flush()).map_err(Error::io("flushing node blocks"))
    }
}

fn at(block: Block) -> u64 {
    u64::from(block) * BLOCK_BYTES as u64
}
