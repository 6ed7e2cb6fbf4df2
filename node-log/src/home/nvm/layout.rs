//! The layout of the region, and the encoding of its words and pairs.
//!
//! ```text
//!   byte   0   superblock; its first word is written last     4096   redo slots
//!        512   generation word                                  …    NAT: a word for each node id
//!        576   generation word, copy                            …    heap, in blocks of 4 KiB
//!       1024   superblock, copy                                      to the end
//!
//!   NAT entry        bits  0–39   the node's first line, from the start of the region; 0 is none
//!                         40–47   the number of its lines, 1 to 64
//!                         48–63   the low bits of the node's CRC-32C
//!   generation word  bit      0   1: opening, see `docs/format.md`
//!                    bits  1–47   the generation
//!                         48–63   the low bits of the CRC-32C of the six bytes before
//!   redo slot        word     0   0: free; otherwise the number of pairs (low half), and the
//!                                 CRC-32C of the number and the pairs (high half)
//!                    words 1, 2   a pair: node id, NAT entry; more pairs follow
//! ```

use std::ops::{Range, RangeInclusive};

use crc32c::{crc32c, crc32c_append};
use spanlock_pmem::LINE_BYTES;

use super::heap::{BLOCK_LINES, Place};
use crate::error::Error;
use crate::home::Identity;
use crate::node::{BLOCK_BYTES, HEADER_BYTES, Nid};
use crate::superblock::{SUPERBLOCK_BYTES, Superblock};

/// Names the kind of half in a superblock.
pub(super) const MAGIC: &[u8; 8] = b"SpanlkNV";
/// The first word while the region is being formatted.
pub(super) const FORMATTING: u64 = u64::from_le_bytes(*b"SpanlkNF");
/// Where the copy of the superblock lies.
pub(super) const COPY: u64 = 1024;
/// Where the generation words lie.
pub(super) const GENERATIONS: [u64; 2] = [512, 576];
/// Where the first redo slot lies.
const SLOTS: u64 = BLOCK_BYTES as u64;
/// Lines are numbered below this.
const MOST_LINES: u64 = 1 << 40;

/// Where the parts of a region lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// The end of the node ids: they begin with 1, and are less than this.
    pub(super) nodes: u32,
    /// The number of redo slots.
    pub(super) slots: u64,
    /// The number of pairs that fit a slot.
    pub(super) pairs: u64,
    /// Whether a node takes 4 KiB however small it is.
    pub(super) whole_blocks: bool,
    /// The bytes of the region.
    pub(super) len: u64,
}

impl Layout {
    /// Checks that no position overflows, and that the heap has at least one block.
    pub(super) fn check(self) -> Result<Self, Error> {
        let sizes = 2..=1 << 16;
        within(
            "the number of nodes",
            self.nodes.into(),
            2..=1 << 32,
            "at least 2",
        )?;
        within(
            "the number of redo slots",
            self.slots,
            1..=1 << 16,
            "1 to 65,536",
        )?;
        within(
            "the size of a redo slot",
            self.pairs,
            sizes,
            "2 to 65,536 nodes",
        )?;
        within(
            "the size of the region",
            self.len,
            0..=1 << 44,
            "at most 16 TiB",
        )?;
        check_len(self.heap_start() + BLOCK_BYTES as u64, self.len)?;
        Ok(self)
    }

    pub(super) fn superblock(self, identity: Identity) -> Superblock {
        let (nodes, whole) = (u64::from(self.nodes), u64::from(self.whole_blocks));
        let numbers = [nodes, self.slots, self.pairs, whole, self.len, 0, 0, 0];
        Superblock { identity, numbers }
    }

    /// Returns the layout in a superblock, or `None` if its numbers are impossible.
    pub(super) fn of(superblock: &Superblock) -> Option<Self> {
        let [nodes, slots, pairs, whole_blocks, len, ..] = superblock.numbers;
        let layout = Layout {
            nodes: nodes.try_into().ok()?,
            slots,
            pairs,
            whole_blocks: whole_blocks != 0,
            len,
        };
        layout.check().ok()
    }

    /// Returns where a redo slot lies.
    pub(super) fn slot(self, slot: u64) -> u64 {
        SLOTS + slot * (8 + self.pairs * 16).next_multiple_of(LINE_BYTES)
    }

    /// Returns where a node's NAT entry lies.
    pub(super) fn entry(self, nid: Nid) -> u64 {
        assert!(self.has(nid), "{nid} is no node id");
        self.slot(self.slots) + u64::from(nid) * 8
    }

    /// Returns whether a number is a node id.
    pub(super) fn has(self, nid: Nid) -> bool {
        (1..self.nodes).contains(&nid)
    }

    /// Returns the heap's lines.
    pub(super) fn heap(self) -> Range<u64> {
        let end = self.len / BLOCK_BYTES as u64 * BLOCK_LINES;
        self.heap_start() / LINE_BYTES..end
    }

    /// Returns the byte at which the heap begins.
    pub(super) fn heap_start(self) -> u64 {
        let end = self.slot(self.slots) + u64::from(self.nodes) * 8;
        end.next_multiple_of(BLOCK_BYTES as u64)
    }
}

/// The half, for errors.
pub(super) const HALF: &str = "node half";

fn within(
    what: &'static str,
    found: u64,
    range: RangeInclusive<u64>,
    wanted: &'static str,
) -> Result<(), Error> {
    match range.contains(&found) {
        true => Ok(()),
        false => Err(Error::BadOption {
            what,
            found,
            wanted,
        }),
    }
}

/// Checks that the region has as many bytes as it needs.
pub(super) fn check_len(needed: u64, found: u64) -> Result<(), Error> {
    let half = HALF;
    match needed <= found {
        true => Ok(()),
        false => Err(Error::TooSmall {
            half,
            needed,
            found,
        }),
    }
}

/// Returns the error of damage at a byte of the region.
pub(super) fn corrupt(what: &'static str, at: u64) -> Error {
    let half = HALF;
    Error::Corrupt { what, half, at }
}

/// Returns the error of a damaged NAT entry.
pub(super) fn corrupt_entry(at: u64) -> Error {
    corrupt("an entry of the node address table", at)
}

/// A decoded NAT entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) place: Place,
    /// The low bits of the node's CRC.
    pub(super) crc: u16,
}

impl Entry {
    pub(super) fn encode(self) -> u64 {
        let Place { line, lines } = self.place;
        line | lines << 40 | u64::from(self.crc) << 48
    }

    /// Reads an entry that is not 0.
    pub(super) fn decode(word: u64) -> Self {
        let (line, lines) = (word & (MOST_LINES - 1), word >> 40 & 0xff);
        Entry {
            place: Place { line, lines },
            crc: (word >> 48) as u16,
        }
    }
}

/// Returns the CRC in a node's header.
pub(super) fn crc_of(node: &[u8]) -> u32 {
    u32::from_le_bytes(node[..4].try_into().expect("4 bytes"))
}

/// Returns the length in bytes of the node at the start of `lines`. `None`: it is another node, or
/// damaged.
pub(super) fn check_node(lines: &[u8], nid: Nid) -> Option<usize> {
    let used = usize::from(u16::from_le_bytes([lines[14], lines[15]]));
    let node = lines.get(..used).filter(|it| it.len() >= HEADER_BYTES)?;
    let found = u32::from_le_bytes(node[4..8].try_into().expect("4 bytes"));
    (found == nid && crc32c(&node[4..]) == crc_of(node)).then_some(used)
}

/// Returns the generation word.
pub(super) fn encode_generation(identity: Identity) -> u64 {
    let word = identity.generation << 1 | u64::from(identity.is_opening);
    let crc = u64::from(crc32c(&word.to_le_bytes()[..6]));
    word | crc << 48
}

/// Reads a generation word: the generation, and whether the volume is opening.
pub(super) fn decode_generation(word: u64) -> Option<(u64, bool)> {
    let crc = crc32c(&word.to_le_bytes()[..6]);
    let number = word & ((1 << 48) - 1);
    (word >> 48 == u64::from(crc as u16)).then_some((number >> 1, number & 1 == 1))
}

/// Returns the first word of a slot with these pairs.
pub(super) fn slot_word(pairs: &[u8]) -> u64 {
    let count = (pairs.len() / 16) as u32;
    let crc = crc32c_append(crc32c(&count.to_le_bytes()), pairs);
    u64::from(crc) << 32 | u64::from(count)
}

/// Returns the pairs' bytes.
pub(super) fn encode_pairs(pairs: impl Iterator<Item = (Nid, u64)>) -> Vec<u8> {
    let words = pairs.flat_map(|(nid, entry)| [u64::from(nid), entry]);
    words.flat_map(u64::to_le_bytes).collect()
}

/// Reads pairs whose checksum is right.
pub(super) fn decode_pairs(bytes: &[u8]) -> impl Iterator<Item = (u64, u64)> {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    (bytes.chunks_exact(16)).map(move |pair| (word(&pair[..8]), word(&pair[8..])))
}

const _: () = assert!(GENERATIONS[1] + 8 <= COPY && COPY + SUPERBLOCK_BYTES as u64 <= SLOTS);
