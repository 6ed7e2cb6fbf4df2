//! A table of the blocks whose newest content may not be at home yet, and of the blocks that
//! handles are changing.
//!
//! # Invariants
//! - **B1** A block is *busy* from the moment a handle gets it until that handle puts or drops it.
//!   Changes of one block therefore take turns.
//! - **B2** A content in the table is the newest content of its block. It leaves the table in three
//!   cases: `put` replaces it with newer content, the block is revoked, or this content has been
//!   written home and is still the newest.
//! - **B3** Contents are immutable: a handle changes a copy. A commit that writes a content to the
//!   log therefore never races with a handle that changes the same block.

use std::collections::hash_map::Entry as Slot;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use spanlock_sync::{Condvar, Mutex};

/// The content of a block.
pub(crate) type Content = Arc<Vec<u8>>;

/// The newest copies of blocks, by block number.
pub(crate) type Copies = BTreeMap<u64, Content>;

const SHARDS: u64 = 16;

#[derive(Debug)]
pub(crate) struct Buffers {
    shards: Box<[Shard]>,
}

#[derive(Debug)]
struct Shard {
    blocks: Mutex<Blocks>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct Blocks {
    entries: HashMap<u64, Entry>,
    /// Counts the calls of `put`.
    version: u64,
}

#[derive(Debug, Default)]
struct Entry {
    content: Option<Content>,
    busy: bool,
}

impl Buffers {
    pub(crate) fn new() -> Self {
        let shard = |_| Shard {
            blocks: Mutex::new(Blocks::default()),
            freed: Condvar::new(),
        };
        Buffers {
            shards: (0..SHARDS).map(shard).collect(),
        }
    }

    fn shard(&self, block: u64) -> &Shard {
        &self.shards[(block % SHARDS) as usize]
    }

    /// Returns the block's content in the table, if there is one, and a version number. Each change
    /// of the block raises that number.
    pub(crate) fn newest(&self, block: u64) -> (Option<Content>, u64) {
        let blocks = self.shard(block).blocks.lock();
        let entry = blocks.entries.get(&block);
        (
            entry.and_then(|entry| entry.content.clone()),
            blocks.version,
        )
    }

    /// Makes the block busy and returns its content in the table. Blocks while another handle has
    /// the block (B1). [`free`](Buffers::free) makes the block free again.
    pub(crate) fn take(&self, block: u64) -> Option<Content> {
        let shard = self.shard(block);
        let mut blocks = shard.blocks.lock();
        loop {
            let entry = blocks.entries.entry(block).or_default();
            if !entry.busy {
                entry.busy = true;
                return entry.content.clone();
            }
            blocks = shard.freed.wait(blocks);
        }
    }

    /// Replaces the content of a busy block. `None` means that the block was revoked.
    pub(crate) fn put(&self, block: u64, content: Option<Content>) {
        let mut blocks = self.shard(block).blocks.lock();
        blocks.entries.entry(block).or_default().content = content;
        blocks.version += 1;
    }

    /// Ends the busy state of a block.
    pub(crate) fn free(&self, block: u64) {
        let shard = self.shard(block);
        let mut blocks = shard.blocks.lock();
        if let Slot::Occupied(mut slot) = blocks.entries.entry(block) {
            slot.get_mut().busy = false;
            if slot.get().content.is_none() {
                slot.remove();
            }
        }
        drop(blocks);
        shard.freed.notify_all();
    }

    /// Notes that `content` was written home. If it is still the block's newest content, removes it
    /// from the table (B2).
    pub(crate) fn came_home(&self, block: u64, content: &Content) {
        let mut blocks = self.shard(block).blocks.lock();
        if let Slot::Occupied(mut slot) = blocks.entries.entry(block)
            && (slot.get().content.as_ref()).is_some_and(|newest| Arc::ptr_eq(newest, content))
        {
            if slot.get().busy {
                slot.get_mut().content = None;
            } else {
                slot.remove();
            }
        }
    }
}
