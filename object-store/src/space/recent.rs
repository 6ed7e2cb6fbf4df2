//! Blocks that were read for a few of their bytes: mostly those with heads of objects. Without
//! them, each read of an object would read the medium twice.
//!
//! A thread uses the entry of a block only while it holds the block (O-S1). A commit, which holds
//! its blocks exclusively, first makes the entries forget them. So an entry has the same bytes as
//! the medium.

use std::ops::Range;

use spanlock_sync::Mutex;
use spanlock_sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Blocks that can be kept.
const ENTRIES: usize = 128;

#[derive(Debug)]
pub(super) struct Recent {
    entries: Box<[Entry]>,
}

#[derive(Debug)]
struct Entry {
    /// The number of the block, plus one; 0 for none. Changed only with `bytes` locked.
    ///
    /// Relaxed: whoever holds a block sees what the last holder of this block stored, or that
    /// another block has the entry by now.
    block: AtomicU64,
    bytes: Mutex<Vec<u8>>,
}

impl Recent {
    pub(super) fn new() -> Self {
        let entry = |_| Entry {
            block: AtomicU64::new(0),
            bytes: Mutex::default(),
        };
        Recent {
            entries: (0..ENTRIES).map(entry).collect(),
        }
    }

    fn entry(&self, block: u64) -> &Entry {
        // Heads of regions are a power of two apart.
        let hash = block.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        &self.entries[hash as usize % ENTRIES]
    }

    /// Fills `into` with the bytes at `offset` of a block, if it is kept.
    pub(super) fn read(&self, block: u64, offset: usize, into: &mut [u8]) -> bool {
        let entry = self.entry(block);
        if entry.block.load(Relaxed) != block + 1 {
            return false;
        }
        let bytes = entry.bytes.lock();
        let is_kept = entry.block.load(Relaxed) == block + 1;
        if is_kept {
            into.copy_from_slice(&bytes[offset..offset + into.len()]);
        }
        is_kept
    }

    /// Keeps a block, instead of the one that its entry has.
    pub(super) fn keep(&self, block: u64, bytes: Vec<u8>) {
        let entry = self.entry(block);
        let mut kept = entry.bytes.lock();
        *kept = bytes;
        entry.block.store(block + 1, Relaxed);
    }

    /// Forgets the blocks, which are about to change.
    pub(super) fn forget(&self, blocks: Range<u64>) {
        let forget = |entry: &Entry| {
            let _bytes = entry.bytes.lock();
            let block = entry.block.load(Relaxed);
            if block != 0 && blocks.contains(&(block - 1)) {
                entry.block.store(0, Relaxed);
            }
        };
        if blocks.end - blocks.start > ENTRIES as u64 {
            return self.entries.iter().for_each(forget);
        }
        for block in blocks.clone() {
            let entry = self.entry(block);
            if entry.block.load(Relaxed) == block + 1 {
                forget(entry);
            }
        }
    }
}
