//! The map of a space in memory: which place each block has.
//!
//! The map is in shards, so that threads that use different blocks rarely share a mutex. A thread
//! reads or changes the entry of a block only while it holds the block (O-S1).

use std::ops::Range;

use spanlock_sync::Mutex;

use super::runs::{Run, Runs};

const SHARDS: u64 = 64;
/// Blocks that are together in one shard.
const STRIPE: u64 = 1024;

#[derive(Debug)]
pub(super) struct Map {
    shards: Box<[Mutex<Runs>]>,
}

/// Returns the parts of `blocks` that lie in one stripe each.
fn stripes(blocks: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let stripes = blocks.start / STRIPE..blocks.end.div_ceil(STRIPE);
    stripes.map(move |stripe| {
        let (start, end) = (stripe * STRIPE, (stripe + 1) * STRIPE);
        start.max(blocks.start)..end.min(blocks.end)
    })
}

impl Map {
    pub(super) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Map { shards }
    }

    fn shard(&self, block: u64) -> &Mutex<Runs> {
        let hash = (block / STRIPE).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        &self.shards[(hash % SHARDS) as usize]
    }

    /// Gives the blocks from `block` on the places of `run`. Returns the places that they had.
    pub(super) fn insert(&self, block: u64, run: Run) -> Vec<(u64, Run)> {
        let mut before = Vec::new();
        for part in stripes(block..block + run.len) {
            let its = run.part(part.start - block, part.end - part.start);
            before.extend(self.shard(part.start).lock().insert(part.start, its));
        }
        before
    }

    /// Takes the places of the blocks away, and returns them.
    pub(super) fn remove(&self, blocks: Range<u64>) -> Vec<(u64, Run)> {
        // A trim of a large region looks at each shard once, not at each stripe.
        if blocks.end - blocks.start > SHARDS * STRIPE {
            let shards = self.shards.iter();
            return shards
                .flat_map(|it| it.lock().remove(blocks.clone()))
                .collect();
        }
        let parts = stripes(blocks);
        parts
            .flat_map(|part| self.shard(part.start).lock().remove(part))
            .collect()
    }

    /// Returns the parts of `blocks` in order: with their run, or `None` if they have no place.
    pub(super) fn parts(&self, blocks: Range<u64>) -> Vec<(Range<u64>, Option<Run>)> {
        let mut parts = Vec::new();
        for stripe in stripes(blocks) {
            let shard = self.shard(stripe.start).lock();
            shard.for_each(stripe, |part, run| parts.push((part, run)));
        }
        parts
    }

    /// Returns the runs of those of the blocks that have places.
    pub(super) fn mapped(&self, blocks: Range<u64>) -> Vec<(u64, Run)> {
        let mut mapped = Vec::new();
        let mut add = |shard: &Mutex<Runs>, part| mapped.extend(shard.lock().overlapping(part));
        // Large ranges look at each shard once.
        if blocks.end - blocks.start > SHARDS * STRIPE {
            self.shards.iter().for_each(|it| add(it, blocks.clone()));
        } else {
            stripes(blocks).for_each(|part| add(self.shard(part.start), part));
        }
        mapped
    }

    /// Returns whether any of the blocks has a place.
    pub(super) fn has_places(&self, blocks: Range<u64>) -> bool {
        // Large ranges, as of a trimmed region, look at each shard once.
        if blocks.end - blocks.start > SHARDS * STRIPE {
            let mut shards = self.shards.iter();
            return shards.any(|it| it.lock().has_any(blocks.clone()));
        }
        stripes(blocks).any(|part| self.shard(part.start).lock().has_any(part))
    }

    /// Returns the runs of all blocks, in ascending order, as long as they can be.
    pub(super) fn all(&self) -> Vec<(u64, Run)> {
        let mut all: Vec<(u64, Run)> = Vec::new();
        for shard in &self.shards {
            all.extend(shard.lock().iter());
        }
        all.sort_unstable_by_key(|(block, _)| *block);
        let mut joined: Vec<(u64, Run)> = Vec::new();
        for (block, run) in all {
            match joined.last_mut() {
                Some((first, last)) if *first + last.len == block && last.continues(run) => {
                    last.len += run.len;
                }
                _ => joined.push((block, run)),
            }
        }
        joined
    }

    /// Returns the places of all blocks, in ascending order.
    pub(super) fn places(&mut self) -> Vec<Range<u64>> {
        let mut places = Vec::new();
        for shard in &mut self.shards {
            let shard = shard.get_mut();
            places.extend(shard.iter().filter_map(|(_, run)| {
                let place = run.target?;
                Some(place..place + run.len)
            }));
        }
        places.sort_unstable_by_key(|it| it.start);
        places
    }
}
