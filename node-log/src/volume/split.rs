//! Both halves of a volume on one storage.

use std::sync::Arc;

use spanlock_journal_commit::Storage;
use spanlock_journal_commit::storage::Part;
use spanlock_range_lock::RawRangeLock;

use super::{Volume, open};
use crate::error::Error;
use crate::home::block::BlockHome;
use crate::home::nvm::NvmHome;
use crate::node::BLOCK_BYTES;
use crate::options::Options;

/// A volume whose nodes are in persistent memory.
pub type NvmVolume<P, S, L> = Volume<NvmHome<P>, S, L>;

/// A volume whose nodes are in blocks, in a part of the same storage.
pub type BlockVolume<S, L> = Volume<BlockHome<Part<Arc<S>>>, Part<Arc<S>>, L>;

impl<S: Storage, L: RawRangeLock> BlockVolume<S, L> {
    /// Creates a volume on one storage. The data half comes first. The node half follows, with
    /// five blocks for every four node ids, and at least eight segments more.
    ///
    /// # Errors
    /// As for [`create`](Volume::create).
    pub fn create_on(
        storage: S,
        options: &Options,
        locks: impl Fn(u64) -> L + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let blocks = storage.len() / BLOCK_BYTES as u64;
        let nodes = options.nodes_for(blocks);
        let needed = BlockHome::<S>::blocks_for(nodes, options.segment_blocks);
        let (segments, _) = options.check(blocks.saturating_sub(needed))?;
        let data = open::data_bytes(segments.into(), options.segment_blocks.into());
        let [data, home] = split(storage, data)?;
        Volume::create(data, home, &options.clone().nodes(nodes), locks)
    }

    /// Opens a volume that [`create_on`](Self::create_on) has created.
    ///
    /// # Errors
    /// As for [`open`](Volume::open).
    pub fn open_on(
        storage: S,
        options: &Options,
        locks: impl Fn(u64) -> L + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let [segment_blocks, segments, ..] = open::read(&storage)?.numbers;
        let [data, home] = split(storage, open::data_bytes(segments, segment_blocks))?;
        Volume::open(data, home, options, locks)
    }
}

/// Divides a storage at byte `at`.
fn split<S: Storage>(storage: S, at: u64) -> Result<[Part<Arc<S>>; 2], Error> {
    let storage = Arc::new(storage);
    let end = storage.len();
    if at > end {
        return Err(Error::TooSmall {
            half: "data half",
            needed: at,
            found: end,
        });
    }
    let part = |range| Part::new(storage.clone(), range).map_err(Error::io("dividing the storage"));
    Ok([part(0..at)?, part(at..end)?])
}
