//! The bytes of checkpoint packs and NAT blocks.
//!
//! ```text
//! head of a pack                 map of a pack              NAT block
//!   0  u32  CRC-32C of 4..512      0  u32  CRC of 4..         0  u32    CRC of 4..
//!   4  u32  next block             4  u32  0                  4  u32    its number
//!   8  u64  serial                 8  u64  serial             8  [u32]  1,022 blocks, 0 is none
//!  16  u64  sequence              16       bits
//! ```
//! A bit of the map is set if the second copy of a NAT block is current. The nodes that are
//! committed after the checkpoint form a chain. Its first node goes to the next block and has the
//! sequence number.
//!
//! # Which pack is the newest
//! The pack with serial *s* lies in slot *s* mod 2. A checkpoint writes the map, flushes, and then
//! writes the head. The head is one sector, so no crash damages it. If the medium damages one, that
//! may be the older or the newer head. The map in its slot decides:
//!
//! - The map is sound, and its serial is one less than the sound head's. Then the damaged head
//!   belongs to the older pack, and the checkpoint that replaces it has not begun. The other pack
//!   is the newest.
//! - Otherwise, the other pack may be older than acknowledged commits, and its nodes may have been
//!   overwritten. It is not used.

use crc32c::crc32c;

use super::layout::{self, Layout, corrupt};
use crate::error::Error;
use crate::node::{BLOCK_BYTES, Block};

/// The entries of a NAT block.
pub(super) const NAT_ENTRIES: u32 = (BLOCK_BYTES as u32 - 8) / 4;
/// The bits of a map.
pub(super) const MAP_BITS: u32 = (BLOCK_BYTES as u32 - 16) * 8;
/// The bytes that a crash keeps or loses as a whole.
const SECTOR_BYTES: usize = 512;

/// The bytes of a block.
pub(super) type Bytes = [u8; BLOCK_BYTES];

/// A checkpoint pack.
#[derive(Clone, Debug)]
pub(super) struct Pack {
    pub(super) serial: u64,
    /// The block that the next node is written to.
    pub(super) next: Block,
    /// The sequence number of the next node.
    pub(super) sequence: u64,
    /// For each NAT block, whether its second copy is the current one.
    pub(super) map: Box<[bool]>,
}

pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

/// Writes the checksum of `bytes` into the first four of them.
pub(super) fn seal(bytes: &mut [u8]) {
    let sum = crc32c(&bytes[4..]);
    bytes[..4].copy_from_slice(&sum.to_le_bytes());
}

pub(super) fn is_sound(bytes: &[u8]) -> bool {
    u32_at(bytes, 0) == crc32c(&bytes[4..])
}

impl Pack {
    pub(super) fn head(&self) -> Bytes {
        let mut bytes = [0; BLOCK_BYTES];
        bytes[4..8].copy_from_slice(&self.next.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.serial.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        seal(&mut bytes[..SECTOR_BYTES]);
        bytes
    }

    pub(super) fn map(&self) -> Bytes {
        let mut bytes = [0; BLOCK_BYTES];
        bytes[8..16].copy_from_slice(&self.serial.to_le_bytes());
        for (number, _) in self.map.iter().enumerate().filter(|(_, it)| **it) {
            bytes[16 + number / 8] |= 1 << (number % 8);
        }
        seal(&mut bytes);
        bytes
    }

    /// Finds the newest pack.
    pub(super) fn newest(
        layout: &Layout,
        read: impl Fn(Block) -> Result<Bytes, Error>,
    ) -> Result<Self, Error> {
        let heads = [read(layout::head(0))?, read(layout::head(1))?];
        let serial = |slot: usize| {
            let head = &heads[slot][..SECTOR_BYTES];
            let serial = u64_at(head, 8);
            let is_right = is_sound(head) && serial % 2 == slot as u64;
            is_right.then_some(serial).ok_or(slot as u64)
        };
        let newest = match (serial(0), serial(1)) {
            (Ok(one), Ok(other)) => one.max(other),
            (Err(_), Err(_)) => return Err(corrupt("both checkpoint packs", layout::head(0))),
            (Ok(sound), Err(slot)) | (Err(slot), Ok(sound)) => {
                let map = read(layout::map(slot))?;
                let is_older = is_sound(&map) && Some(u64_at(&map, 8)) == sound.checked_sub(1);
                if !is_older {
                    let what = "a checkpoint pack, and the other one may be older";
                    return Err(corrupt(what, layout::head(slot)));
                }
                sound
            }
        };
        let head = &heads[(newest % 2) as usize];
        let bytes = read(layout::map(newest))?;
        if !is_sound(&bytes) || u64_at(&bytes, 8) != newest {
            return Err(corrupt("the map of a checkpoint pack", layout::map(newest)));
        }
        let bit = |number: usize| bytes[16 + number / 8] >> (number % 8) & 1 == 1;
        Ok(Pack {
            serial: newest,
            next: u32_at(head, 4),
            sequence: u64_at(head, 16),
            map: (0..layout.nat_blocks() as usize).map(bit).collect(),
        })
    }
}

/// Returns the bytes of a NAT block with these entries.
pub(super) fn encode_nat(number: u32, blocks: impl Iterator<Item = Block>) -> Bytes {
    let mut bytes = [0; BLOCK_BYTES];
    bytes[4..8].copy_from_slice(&number.to_le_bytes());
    for (entry, block) in bytes[8..].chunks_exact_mut(4).zip(blocks) {
        entry.copy_from_slice(&block.to_le_bytes());
    }
    seal(&mut bytes);
    bytes
}

/// Returns the entries of a NAT block, or `None` if it is damaged.
pub(super) fn decode_nat(number: u32, bytes: &Bytes) -> Option<impl Iterator<Item = Block>> {
    let is_right = is_sound(bytes) && u32_at(bytes, 4) == number;
    is_right.then(|| bytes[8..].chunks_exact(4).map(|entry| u32_at(entry, 0)))
}
