//! Where the log's blocks lie: across a whole storage, in a region of it, or scattered, like the
//! blocks of inode 8 in an ext4 file system.

use std::fmt;
use std::io;
use std::sync::Arc;

use super::error::Error;
use crate::storage::Storage;

/// Consecutive blocks of a storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The first block, counted from the start of the storage.
    pub first: u64,
    /// The number of blocks.
    pub blocks: u64,
}

/// Where a journal lies in a storage. Block *n* of the log is the *n*-th block of the place.
#[derive(Clone, Debug)]
pub struct Place {
    /// `None` stands for the whole storage.
    extents: Option<Arc<[Extent]>>,
    /// The block of the log that holds the superblock.
    superblock: u32,
}

impl Place {
    /// Returns the place of a journal that fills a storage and begins with the superblock.
    pub fn whole() -> Self {
        Place {
            extents: None,
            superblock: 0,
        }
    }

    /// Returns the place of a journal in these extents, in this order: for example, in the blocks
    /// of inode 8 of an ext4 file system. The superblock is the first block.
    pub fn extents(extents: impl Into<Arc<[Extent]>>) -> Self {
        Place {
            extents: Some(extents.into()),
            superblock: 0,
        }
    }

    /// Returns the place of an external journal, as `mke2fs -O journal_dev` makes it. The journal
    /// fills the storage, and a file system's superblock precedes the journal's.
    pub fn external(block_bytes: u32) -> Self {
        Place {
            extents: None,
            // The file system's superblock is at byte 1024. With blocks of 1024 bytes it has a
            // block of its own.
            superblock: if block_bytes == 1024 { 2 } else { 1 },
        }
    }

    pub(crate) fn superblock(&self) -> u32 {
        self.superblock
    }

    /// Returns whether the place is only a part of its storage.
    pub(crate) fn is_inside(&self) -> bool {
        self.extents.is_some()
    }
}

/// The blocks of a log, by number.
#[derive(Clone)]
pub(crate) struct Blocks {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) block_bytes: usize,
    /// Each extent with the number of the log's blocks before it, in ascending order.
    runs: Vec<(u64, Extent)>,
    count: u64,
}

impl Blocks {
    pub(crate) fn new(
        storage: Arc<dyn Storage>,
        place: &Place,
        block_bytes: u32,
    ) -> Result<Self, Error> {
        let total = storage.len() / u64::from(block_bytes);
        let whole = [Extent {
            first: 0,
            blocks: total,
        }];
        let extents = place.extents.as_deref().unwrap_or(&whole);
        let mut runs = Vec::with_capacity(extents.len());
        let mut count = 0;
        for extent in extents.iter().filter(|extent| extent.blocks > 0) {
            let end = extent.first.checked_add(extent.blocks);
            if end.is_none_or(|end| end > total) {
                return Err(Error::BadPlace {
                    first: extent.first,
                    end: end.unwrap_or(u64::MAX),
                    blocks: total,
                });
            }
            runs.push((count, *extent));
            count += extent.blocks;
        }
        check_apart(runs.iter().map(|(_, extent)| *extent).collect())?;
        Ok(Blocks {
            storage,
            block_bytes: block_bytes as usize,
            runs,
            count,
        })
    }

    /// Returns the number of blocks.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the byte offset of a block in the storage, and the number of adjacent blocks from
    /// there on, including the block itself.
    pub(crate) fn find(&self, block: u32) -> io::Result<(u64, u64)> {
        let block = u64::from(block);
        let after = self.runs.partition_point(|(first, _)| *first <= block);
        let found = after.checked_sub(1).map(|at| self.runs[at]);
        match found {
            Some((first, extent)) if block - first < extent.blocks => {
                let skip = block - first;
                let at = (extent.first + skip) * self.block_bytes as u64;
                Ok((at, extent.blocks - skip))
            }
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("the log has no block {block}"),
            )),
        }
    }

    pub(crate) fn read(&self, block: u32, into: &mut [u8]) -> io::Result<()> {
        self.storage.read_at(into, self.find(block)?.0)
    }

    pub(crate) fn write(&self, block: u32, content: &[u8]) -> io::Result<()> {
        self.storage.write_at(content, self.find(block)?.0)
    }
}

/// Checks that no block is in two extents. The caller has checked that no extent reaches beyond the
/// storage.
fn check_apart(mut extents: Vec<Extent>) -> Result<(), Error> {
    extents.sort_unstable_by_key(|extent| extent.first);
    for pair in extents.windows(2) {
        let first = pair[1].first;
        let end = (pair[0].first + pair[0].blocks).min(first + pair[1].blocks);
        if first < end {
            return Err(Error::Overlap { first, end });
        }
    }
    Ok(())
}

impl fmt::Debug for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocks")
            .field("block_bytes", &self.block_bytes)
            .field("runs", &self.runs)
            .finish_non_exhaustive()
    }
}
