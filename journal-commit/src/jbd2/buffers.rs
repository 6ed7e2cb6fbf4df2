//! A table of the blocks whose newest content may not be at home yet.
//!
//! # Invariants
//! - **B1** A handle *holds* a block from the moment it gets the block until it ends, or until it
//!   drops a block that it has not changed (`raw/holders.rs`). Only the holder puts new content.
//!   Changes of one block therefore take turns, and nobody has seen the changes of a handle that is
//!   aborted.
//! - **B2** A content in the table is the newest content of its block. It leaves the table in three
//!   cases: `put` replaces it with newer content, the block is revoked, or this content has been
//!   written home and is still the newest.
//! - **B3** Contents are immutable: a handle changes a copy. A commit that writes a content to the
//!   log therefore never races with a handle that changes the same block.

use std::collections::hash_map::Entry as Slot;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use spanlock_sync::Mutex;

use super::raw::holders::Holders;

/// The content of a block.
pub(crate) type Content = Arc<Vec<u8>>;

/// The newest copies of blocks, by block number.
pub(crate) type Copies = BTreeMap<u64, Content>;

const SHARDS: u64 = 16;

#[derive(Debug)]
pub(crate) struct Buffers {
    pub(crate) holders: Holders,
    shards: Box<[Mutex<Blocks>]>,
}

#[derive(Debug, Default)]
struct Blocks {
    contents: HashMap<u64, Content>,
    /// Counts the calls of `put`.
    version: u64,
}

impl Buffers {
    pub(crate) fn new() -> Self {
        Buffers {
            holders: Holders::new(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
        }
    }

    fn shard(&self, block: u64) -> &Mutex<Blocks> {
        &self.shards[(block % SHARDS) as usize]
    }

    /// Returns the block's content in the table, if there is one, and a version number. Each change
    /// of the block raises that number.
    pub(crate) fn newest(&self, block: u64) -> (Option<Content>, u64) {
        let blocks = self.shard(block).lock();
        (blocks.contents.get(&block).cloned(), blocks.version)
    }

    /// Replaces the content of a block that the caller holds (B1). `None` means that the block was
    /// revoked.
    pub(crate) fn put(&self, block: u64, content: Option<Content>) {
        let mut blocks = self.shard(block).lock();
        match content {
            Some(content) => blocks.contents.insert(block, content),
            None => blocks.contents.remove(&block),
        };
        blocks.version += 1;
    }

    /// Notes that `content` was written home. If it is still the block's newest content, removes it
    /// from the table (B2).
    pub(crate) fn came_home(&self, block: u64, content: &Content) {
        let mut blocks = self.shard(block).lock();
        if let Slot::Occupied(slot) = blocks.contents.entry(block)
            && Arc::ptr_eq(slot.get(), content)
        {
            slot.remove();
        }
    }
}
