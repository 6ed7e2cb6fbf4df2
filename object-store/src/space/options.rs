//! The options with which a space is created.

use super::error::Error;
use super::format::Superblock;

/// Options of a new space. All are fixed when it is created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    block: u32,
    size: u64,
    rings: u32,
    ring: Option<u64>,
    pub(super) id: Option<u64>,
}

impl Options {
    /// Returns the defaults: blocks of 4096 bytes, an address space of 2^56 bytes, one ring of a
    /// 64th of the medium but at most 4 MiB, and random ids.
    pub fn new() -> Self {
        Options {
            block: 4096,
            size: 1 << 56,
            rings: 1,
            ring: None,
            id: None,
        }
    }

    /// Sets the bytes of a block, a power of two from 512 to 65,536.
    pub fn block(mut self, bytes: u32) -> Self {
        self.block = bytes;
        self
    }

    /// Sets the size of the address space in bytes, which is rounded down to whole blocks.
    pub fn size(mut self, bytes: u64) -> Self {
        self.size = bytes;
        self
    }

    /// Sets the number of rings, from 1 to 64, and the bytes of each, a multiple of 4096 that is at
    /// least 16,384. The record of a batch takes at most a quarter of a ring: 128 vectors fit into
    /// one of 32,768 bytes, if the free places are not scattered. Several rings only help where
    /// flushes are fast, as on persistent memory.
    pub fn rings(mut self, rings: u32, bytes: u64) -> Self {
        (self.rings, self.ring) = (rings, Some(bytes));
        self
    }

    /// Sets the id of the first ring, instead of random ids. Equal operations then leave equal
    /// bytes. The whole medium must be zero.
    pub fn id(mut self, id: u64) -> Self {
        self.id = Some(id);
        self
    }

    /// Returns the superblock of a space on a medium of `len` bytes, without the number of places.
    pub(super) fn superblock(&self, len: u64) -> Result<Superblock, Error> {
        let default = (len / 64 / 4096 * 4096).clamp(65_536, 4 << 20);
        let superblock = Superblock {
            serial: 0,
            block: self.block,
            rings: self.rings,
            ring: self.ring.unwrap_or(default),
            size: self.size / u64::from(self.block.max(1)),
            places: 1,
            cut: 0,
            used: 0,
        };
        superblock.check()?;
        Ok(superblock)
    }
}

impl Default for Options {
    fn default() -> Self {
        Options::new()
    }
}
