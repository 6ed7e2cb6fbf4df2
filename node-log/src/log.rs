//! The log: segments of blocks, which are filled in order and freed when no block is in use.
//!
//! Its state is in memory only: recovery [claims](Log::claim) the blocks that nodes name. The data
//! half and the block home each have a log.
//!
//! # The problem
//! F2FS allocates blocks in the order of the log, under one mutex for each log head. Writers of
//! disjoint pages, which the range lock lets run at the same time, then wait for that mutex. Here,
//! a writer locks a mutex only when it opens or frees a segment, once for hundreds of blocks.
//!
//! # State
//! There are two **heads**, hot and cold. Each fills a segment, and has a share of the free ones.
//! The **room** of a head is the number of blocks that can still be reserved for it.
//!
//! ```text
//!                    opened by a head                  filled
//!      ┌──── free ───────────────────────► a head's ────────────► full ──┐
//!      └────────────────────────────────────────────────────── live is 0 ┘
//! ```
//!
//! | word | value | changed by |
//! |---|---|---|
//! | `Head::at` | its segment, and the blocks allocated there | allocations, openings |
//! | `Head::room` | see N-L1 | reservations, drops of a [`Room`], recycling |
//! | `live` of a segment | see N-L2 | openings, frees |
//! | the word of a block | 0 if free, or [`USED`] and the owner | allocations, owners, frees |
//! | `free` | the numbers of the free segments | openings, recycling, under its mutex |
//!
//! # Invariants
//! - **N-L1** For each head, `room` = blocks left in its segment + blocks of its share of the free
//!   segments − blocks reserved and not allocated, and is never negative. An allocation lowers the
//!   blocks left and the blocks reserved alike. So a thread that has reserved blocks finds some
//!   left in the head's segment, or a free segment.
//! - **N-L2** The `live` of a free segment is 0. A head that opens the segment sets `live` to the
//!   number of all its blocks, allocated or not. Each free subtracts 1. So `live` becomes 0 only
//!   once, when all blocks have been allocated and freed. The thread that makes it 0 recycles the
//!   segment. The `live` of a full segment is the number of its blocks in use.
//! - **N-L3** An allocation first adds to `at`, and then owns those of the added blocks that lie
//!   inside the segment. So no two threads own one block. Once `at` is past the segment's end, an
//!   addition allocates nothing. Only then does a thread set a new value, under the mutex of
//!   `free`. So this loses no allocation. The sum cannot overflow: a thread that finds `at` past
//!   the end waits for the mutex.
//! - **N-L4** The thread that opens a segment allocates its first block. So less than a whole
//!   segment is left in a head's segment, and a head with room for *n* segments has at least *n*
//!   free ones in its share. A cold reservation takes over whole segments of the hot head's share.
//!
//! # Segments kept for cleaning
//! The cold head keeps [`KEPT`] segments, which only cleaning uses. A freed segment goes to the
//! cold head while its room is less than that, and otherwise to the hot head. To empty a segment,
//! cleaning opens at most one. So one is left after a crash during cleaning, even if the moved
//! blocks are then in use in both places.
//!
//! # Orderings
//!
//! | letter | where | ordering | pairs with | needed by the model |
//! |---|---|---|---|---|
//! | A | [`Log::take`]: the head's new segment | Release | B | `free-allocate`, `allocate-free` |
//! | B | [`Log::take`]: an allocation | Acquire | A | `free-allocate`, `allocate-free` |
//! | C | [`Log::free`]: `live` | AcqRel | C | `free-free` |
//!
//! The mutex of `free` orders a segment's last free before its next opening. So what a thread did
//! with a block before freeing it happens before what the next owner does with it.
//!
//! # Not guaranteed
//! A freed block cannot be allocated until its whole segment is free. [`Log::victim`] may return
//! outdated owners; its caller checks them.
//!
//! # Models
//! The rows `node-log-segments/…`.

use std::collections::BTreeSet;

use spanlock_sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use spanlock_sync::{Mutex, injected_bug};

use crate::node::{Block, Nid};

/// The number of free segments that are kept for cleaning.
const KEPT: u64 = 2;

/// Marks the word of a block that is in use. Below it are 32 bits for the owner's node, and 16 for
/// its slot.
const USED: u64 = 1 << 63;

/// Which head a block goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heat {
    /// Written by the user.
    Hot,
    /// Moved by cleaning: it is likely to stay.
    Cold,
}

/// Which slot of which node names a block. In the node log: the node itself, and slot 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    /// The node.
    pub nid: Nid,
    /// The slot.
    pub slot: u16,
}

impl Owner {
    fn encode(self) -> u64 {
        USED | u64::from(self.nid) << 16 | u64::from(self.slot)
    }

    fn decode(word: u64) -> Option<Owner> {
        let nid = (word >> 16) as Nid;
        let slot = word as u16;
        (nid != 0).then_some(Owner { nid, slot })
    }
}

/// Reserved blocks: [`allocate`](Room::allocate) cannot fail. Dropping it releases the blocks that
/// were not allocated.
#[must_use]
#[derive(Debug)]
pub struct Room<'l> {
    log: &'l Log,
    heat: Heat,
    blocks: u32,
}

/// Segments of blocks. The module's documentation explains the algorithm.
#[derive(Debug)]
pub struct Log {
    first: Block,
    segment_blocks: u32,
    /// Hot and cold.
    heads: [Head; 2],
    live: Box<[AtomicU32]>,
    blocks: Box<[AtomicU64]>,
    /// A set, so that recovery can take any segment out.
    free: Mutex<BTreeSet<u32>>,
}

/// In a cache line of its own, because all threads that write change it.
#[repr(align(64))]
#[derive(Debug)]
struct Head {
    /// In the upper half, the segment. In the lower half, the number of its blocks that were
    /// allocated, or more.
    at: AtomicU64,
    room: AtomicU64,
}

impl Head {
    /// Takes blocks from the room, if it has enough.
    fn reserve(&self, blocks: u64) -> bool {
        // Relaxed: a thread that needs the free segment that is part of the room takes the mutex
        // under which the room was added.
        let mut room = self.room.load(Relaxed);
        while let Some(rest) = room.checked_sub(blocks) {
            // Relaxed, also on failure: as above.
            match self
                .room
                .compare_exchange_weak(room, rest, Relaxed, Relaxed)
            {
                Ok(_) => return true,
                Err(now) => room = now,
            }
        }
        false
    }

    fn release(&self, blocks: u64) {
        // Relaxed: as in `reserve`.
        self.room.fetch_add(blocks, Relaxed);
    }
}

impl Log {
    /// Creates a log of segments that are all free. The first block of the first segment is
    /// `first`.
    pub fn new(first: Block, segments: u32, segment_blocks: u32) -> Self {
        let blocks = u64::from(segments) * u64::from(segment_blocks);
        debug_assert!(u64::from(first) + blocks <= 1 << 32);
        let size = u64::from(segment_blocks);
        let cold = KEPT.min(u64::from(segments)) * size;
        let head = |room| Head {
            // No segment yet, as if one had just been filled.
            at: AtomicU64::new(pack(u32::MAX, segment_blocks)),
            room: AtomicU64::new(room),
        };
        Log {
            first,
            segment_blocks,
            heads: [head(blocks - cold), head(cold)],
            live: (0..segments).map(|_| AtomicU32::new(0)).collect(),
            blocks: (0..blocks).map(|_| AtomicU64::new(0)).collect(),
            free: Mutex::new((0..segments).collect()),
        }
    }

    fn head(&self, heat: Heat) -> &Head {
        &self.heads[heat as usize]
    }

    /// Returns the block's index, and its segment.
    fn index(&self, block: Block) -> Option<(usize, usize)> {
        let at = block.checked_sub(self.first)? as usize;
        (at < self.blocks.len()).then_some((at, at / self.segment_blocks as usize))
    }

    /// As [`index`](Self::index), for a block that this log has given out.
    fn index_of_used(&self, block: Block) -> (usize, usize) {
        self.index(block).expect("a block of this log")
    }

    /// Marks a block as used. For recovery, before the first reservation.
    ///
    /// # Errors
    /// The owner that the block already has, or `None` if the block lies outside the log.
    pub fn claim(&self, block: Block, owner: Owner) -> Result<(), Option<Owner>> {
        let (at, segment) = self.index(block).ok_or(None)?;
        let mut free = self.free.lock();
        // Relaxed, here and below: the mutex orders all claims.
        let before = self.blocks[at].load(Relaxed);
        if before != 0 {
            return Err(Owner::decode(before));
        }
        self.blocks[at].store(owner.encode(), Relaxed);
        if free.remove(&(segment as u32)) {
            // The cold head keeps its share as long as it can.
            let size = self.segment_blocks.into();
            let _ = self.heads.iter().any(|head| head.reserve(size));
        }
        self.live[segment].fetch_add(1, Relaxed);
        Ok(())
    }

    /// Reserves blocks. `None`: there are not enough, so the volume must clean. Only cold
    /// reservations can use the segments that are kept for cleaning.
    pub fn reserve(&self, blocks: u32, heat: Heat) -> Option<Room<'_>> {
        let log = self;
        let room = || Room { log, heat, blocks };
        let wanted = u64::from(blocks);
        if self.head(heat).reserve(wanted) {
            return Some(room());
        }
        if heat == Heat::Hot {
            return None;
        }
        let size = u64::from(self.segment_blocks);
        let [hot, cold] = &self.heads;
        // No segment is opened under the mutex, so the hot head keeps the share seen here (N-L4).
        let _free = self.free.lock();
        while !cold.reserve(wanted) {
            // Relaxed: the reservation above checks again.
            let missing = wanted.saturating_sub(cold.room.load(Relaxed));
            let taken = if injected_bug!(
                "part-taken-over",
                "a cold reservation takes over a part of a segment",
                killed_by = "node-log-segments/allocate-cold"
            ) {
                missing
            } else {
                missing.next_multiple_of(size)
            };
            if !hot.reserve(taken) {
                return None;
            }
            cold.release(taken);
        }
        Some(room())
    }

    /// Allocates up to `most` consecutive blocks for a thread that has reserved them.
    fn take(&self, heat: Heat, most: u32) -> (Block, u32) {
        let size = self.segment_blocks;
        let most = most.min(size);
        let head = self.head(heat);
        let mut at = if injected_bug!(
            "allocated-by-store",
            "a thread allocates by a load and a store, not by a read-modify-write",
            killed_by = "node-log-segments/allocate-allocate"
        ) {
            // Relaxed: the injected bug.
            let at = head.at.load(Relaxed);
            head.at.store(at + u64::from(most), Relaxed);
            at
        } else {
            // Acquire [B→A]: the segment's `live`, and the frees of its blocks.
            head.at.fetch_add(most.into(), Acquire)
        };
        if offset(at) >= size {
            let mut free = self.free.lock();
            if !injected_bug!(
                "opened-twice",
                "two threads that find a segment full both open one",
                killed_by = "node-log-segments/allocate-allocate"
            ) {
                // Relaxed: a thread that opened a segment since did so under the mutex.
                at = head.at.fetch_add(most.into(), Relaxed);
            }
            if offset(at) >= size {
                let segment = free.pop_first().expect("there is a free segment (N-L1)");
                // Relaxed: published by A.
                self.live[segment as usize].store(size, Relaxed);
                // Release [A→B]: publishes `live`, and the frees of all blocks, of which the mutex
                // has told this thread.
                head.at.swap(pack(segment, most), Release);
                at = pack(segment, 0);
            }
        }
        let (segment, from) = ((at >> 32) as u32, offset(at));
        let count = most.min(size - from);
        let index = segment * size + from;
        for block in &self.blocks[index as usize..][..count as usize] {
            // Relaxed: comes after the store of 0 (A, C), and before the block's free: the caller
            // passes it on.
            block.store(USED, Relaxed);
        }
        (self.first + index, count)
    }

    /// Sets which slot names the block. Called before that slot is set.
    pub fn set_owner(&self, block: Block, owner: Owner) {
        let (at, _) = self.index_of_used(block);
        // Relaxed: a thread that cleans reads it as a hint.
        self.blocks[at].store(owner.encode(), Relaxed);
    }

    /// Frees blocks. Their data may be overwritten at once.
    pub fn free(&self, blocks: &[Block]) {
        for &block in blocks {
            let (at, segment) = self.index_of_used(block);
            // Relaxed, here and below: C publishes it.
            let word = &self.blocks[at];
            debug_assert_ne!(word.load(Relaxed), 0, "block {block} is free");
            word.store(0, Relaxed);
            // AcqRel [C→C]: what the users of the blocks did with them happens before the segment
            // is opened again.
            let live = self.live[segment].fetch_sub(1, AcqRel);
            let is_last = if injected_bug!(
                "freed-with-a-block",
                "a segment becomes free while one of its blocks is in use",
                killed_by = "node-log-segments/free-allocate"
            ) {
                live == 2
            } else {
                live == 1
            };
            if is_last {
                self.recycle(segment as u32);
            }
        }
    }

    /// Puts a segment among the free ones.
    fn recycle(&self, segment: u32) {
        let mut free = self.free.lock();
        free.insert(segment);
        let size = u64::from(self.segment_blocks);
        let [hot, cold] = &self.heads;
        // Relaxed: a decision between two heads, either of which is right.
        let is_short = cold.room.load(Relaxed) < KEPT * size;
        // After the insertion, so that a thread that reserves from it finds the segment (N-L1).
        if is_short { cold } else { hot }.release(size);
    }

    /// Returns the owner that was set last.
    pub fn owner(&self, block: Block) -> Option<Owner> {
        let (at, _) = self.index(block)?;
        // Relaxed: a hint, see `set_owner`.
        Owner::decode(self.blocks[at].load(Relaxed))
    }

    /// Finds the full segment with the fewest blocks in use, and returns these with their owners.
    /// Changes nothing. `None`: no full segment has a free block.
    ///
    /// Omits blocks whose owner has not been set yet.
    pub fn victim(&self) -> Option<Vec<(Block, Owner)>> {
        let size = self.segment_blocks;
        // No segment is opened under the mutex.
        let free = self.free.lock();
        // Relaxed: as above; a count that is too high only leads to a worse choice.
        let heads = (self.heads.each_ref()).map(|head| head.at.load(Relaxed));
        let is_being_filled = |segment: u32| {
            let mut heads = heads.iter();
            heads.any(|&at| at >> 32 == u64::from(segment) && offset(at) < size)
        };
        let (_, segment) = (0..)
            .zip(&self.live)
            // Relaxed: as above.
            .map(|(segment, live)| (live.load(Relaxed), segment))
            .filter(|&(live, segment)| (1..size).contains(&live) && !is_being_filled(segment))
            .min()?;
        drop(free);
        let first = self.first + segment * size;
        let blocks = first..first + size;
        Some(
            blocks
                .filter_map(|it| Some((it, self.owner(it)?)))
                .collect(),
        )
    }

    /// Returns how many hot blocks can be reserved now.
    pub fn room(&self) -> u64 {
        // Relaxed: nothing depends on it.
        self.head(Heat::Hot).room.load(Relaxed)
    }

    /// Returns how many blocks can be reserved, those included that are kept for cleaning.
    pub fn room_of_all(&self) -> u64 {
        // Relaxed: as in `room`.
        self.heads.iter().map(|it| it.room.load(Relaxed)).sum()
    }

    /// Returns how many blocks are in use.
    pub fn used(&self) -> u64 {
        let free = self.free.lock();
        // Relaxed, here and below: nothing depends on the sum.
        let live = self.live.iter().map(|it| u64::from(it.load(Relaxed)));
        let left = self.heads.iter().map(|head| {
            let at = head.at.load(Relaxed);
            u64::from(self.segment_blocks.saturating_sub(offset(at)))
        });
        let used = live.sum::<u64>().saturating_sub(left.sum());
        drop(free);
        used
    }
}

impl Room<'_> {
    /// Allocates at least one and up to `most` consecutive blocks. Returns the first, and how many.
    /// They are in use from now on; [`set_owner`](Log::set_owner) sets their owners.
    ///
    /// # Panics
    /// If `most` is 0, or more than what is left of the room.
    pub fn allocate(&mut self, most: u32) -> (Block, u32) {
        assert!(
            (1..=self.blocks).contains(&most),
            "{most} of {} blocks",
            self.blocks
        );
        let (first, count) = self.log.take(self.heat, most);
        self.blocks -= count;
        (first, count)
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        if self.blocks > 0 {
            self.log.head(self.heat).release(self.blocks.into());
        }
    }
}

const fn pack(segment: u32, offset: u32) -> u64 {
    (segment as u64) << 32 | offset as u64
}

const fn offset(at: u64) -> u32 {
    at as u32
}

#[cfg(all(test, not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))))]
mod tests;
