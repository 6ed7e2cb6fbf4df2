//! The log as a ring of blocks, and how much of it one transaction may take.

use super::superblock::Superblock;

/// The size and limits of a log, which never change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Log {
    pub(crate) first: u32,
    pub(crate) end: u32,
    /// The most blocks of the log that one transaction may take.
    pub(crate) most_blocks: u32,
    /// The largest number of credits whose blocks fit into `most_blocks` in the worst case.
    pub(crate) most_credits: u32,
}

impl Log {
    pub(crate) fn new(superblock: &Superblock) -> Self {
        let (first, end) = (superblock.first(), superblock.end());
        let most_blocks = (end - first) / 4;
        let format = superblock.format();
        // A credit is a changed or a revoked block. In the worst case the transaction has both, and
        // the last descriptor block and the last revoke block are almost empty.
        let fits = |credits: &u32| {
            let credits = *credits as usize;
            let revokes = credits.div_ceil(format.revokes_per_block());
            format.blocks_for(credits, 0) + revokes <= most_blocks as usize
        };
        let most_credits = (1..most_blocks).rev().find(fits).unwrap_or(1);
        Log {
            first,
            end,
            most_blocks,
            most_credits,
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.end - self.first
    }

    /// Returns the block that comes `count` blocks after `block`.
    pub(crate) fn after(&self, block: u32, count: u32) -> u32 {
        let along = u64::from(block - self.first) + u64::from(count);
        self.first + (along % u64::from(self.len())) as u32
    }
}
