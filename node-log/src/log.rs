//! The log: segments of blocks, which are filled in order and freed when no block is in use.
//!
//! In memory only: recovery [claims](Log::claim) the blocks that nodes name. It serves the data log
//! and the block home's node log.
//!
//! # The problem
//! F2FS allocates blocks in the order of the log, under one mutex for each log head. Writers of one
//! file's disjoint pages, which the range lock lets run at the same time, then meet at that mutex.
//! Here a thread that reserves, allocates or frees takes a mutex only where a segment begins or
//! ends, once in hundreds of blocks.
//!
//! # State
//! There are two *heads*, hot and cold, each with the segment that it fills. The free segments are
//! shared out between the heads: the *room* of a head is what can still be reserved for it.
//!
//! ```text
//!                    opened by a head                  filled
//!      ┌──── free ───────────────────────► a head's ────────────► full ──┐
//!      └────────────────────────────────────────────────────── live is 0 ┘
//! ```
//!
//! | word | is | changed by |
//! |---|---|---|
//! | `Head::at` | its segment, and the blocks allocated | allocations, openings |
//! | `Head::room` | what can be reserved: N-L1 | reservations, drops of a [`Room`], recycling |
//! | `live` of a segment | N-L2 | openings, frees |
//! | the word of a block | 0 if free, or [`USED`] and the owner | allocations, owners, frees |
//! | `free` | the numbers of the free segments | openings, recycling, under its mutex |
//!
//! # Invariants
//! - **N-L1** For each head, `room` = blocks left in its segment + blocks of its share of the free
//!   segments − blocks reserved and not allocated, and is never negative. An allocation takes one
//!   away from both sides of the difference. So a thread that has reserved blocks finds some left
//!   in the head's segment, or a free one.
//! - **N-L2** While a segment is free, its `live` is 0. A head that opens it sets `live` to all of
//!   its blocks, those that are not allocated yet included, and a free subtracts. So `live`
//!   becomes 0 once, when all blocks have been allocated and freed. The thread that makes it 0 puts
//!   the segment among the free ones. A full segment's `live` is what is in use.
//! - **N-L3** An allocation adds to `at` first, and has the blocks that lie inside the segment. So
//!   no two threads have one block. Once `at` is past the segment's end, adding to it has no
//!   effect. Only then a thread sets a new value, under the mutex of `free`. So that loses no
//!   allocation. The sum cannot overflow: after a thread was past the end, it waits for the mutex.
//! - **N-L4** The first block of a head's new segment belongs to the thread that opens it. So less
//!   than a segment is left in a head's segment, and a head whose room is *n* segments has so many
//!   free ones in its share. That is what a cold reservation takes over.
//!
//! # Rooms
//! [`KEPT`] segments are for the cold head: only cleaning uses them. A segment that becomes free
//! goes to the cold head while that has less room than these, and otherwise to the hot one. To
//! empty a segment, cleaning opens one at most. So one is left if a crash interrupts it, even if
//! the crash leaves blocks both where they were and where they went.
//!
//! # Orderings
//!
//! | letter | where | ordering | pairs with | needed by the model |
//! |---|---|---|---|---|
//! | A | [`Log::take`]: the head's new segment | Release | B | `free-allocate`, `allocate-free` |
//! | B | [`Log::take`]: an allocation | Acquire | A | `free-allocate`, `allocate-free` |
//! | C | [`Log::free`]: `live` | AcqRel | C | `free-free` |
//!
//! Between a segment's last free and its opening, the mutex orders both. So what a thread did with
//! a block before it freed the block happens before what the next owner does with it.
//!
//! # Not guaranteed
//! A block that is freed in a full segment cannot be allocated until the whole segment is free.
//! [`Log::victim`] may return owners that are no longer right; its caller checks them.
//!
//! # Models
//! The rows `node-log-segments/…`.

use std::collections::BTreeSet;

use spanlock_sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use spanlock_sync::{Mutex, injected_bug};

use crate::node::{Block, Nid};

/// The free segments that are kept for cleaning.
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

/// Blocks that are set aside for a writer, so that a later [`allocate`](Room::allocate) cannot
/// fail. Dropping it releases the blocks that were not allocated.
#[must_use]
#[derive(Debug)]
pub struct Room<'l> {
    log: &'l Log,
    heat: Heat,
    blocks: u32,
}

/// See the [module](self).
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
    /// The segment in the upper half. In the lower half, the blocks of it that were allocated, or
    /// more.
    at: AtomicU64,
    room: AtomicU64,
}

impl Head {
    /// Takes blocks of the room, if there are so many.
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
            // No segment: there is nothing left of it.
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

    /// Recovery: marks a block as used. Returns its owner so far if it has one, or `None` (with the
    /// block's number) if no segment has the block.
    ///
    /// Only before the first reservation.
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

    /// Sets blocks aside. `None`: there are not enough, so the volume must clean. Cold blocks may
    /// use the segments that are kept for cleaning; hot ones may not.
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
        // Under the mutex no segment is opened, so a share that is seen is still there (N-L4).
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

    /// Says which slot names the block. Before that slot is set.
    pub fn set_owner(&self, block: Block, owner: Owner) {
        let (at, _) = self.index_of_used(block);
        // Relaxed: a thread that cleans reads it as a hint.
        self.blocks[at].store(owner.encode(), Relaxed);
    }

    /// Sets blocks free. Their data may be overwritten at once.
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

    /// Returns the full segment with the fewest blocks in use (none if it has no free block), and
    /// those blocks with their owners. The segment stays in place.
    ///
    /// A block whose owner has not been set yet is left out.
    pub fn victim(&self) -> Option<Vec<(Block, Owner)>> {
        let size = self.segment_blocks;
        // Under the mutex no segment is opened.
        let free = self.free.lock();
        // Relaxed: as above; and a count that is too high is only a worse choice.
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

    /// Returns how many blocks can be reserved for the user now.
    pub fn room(&self) -> u64 {
        // Relaxed: nothing depends on it.
        self.head(Heat::Hot).room.load(Relaxed)
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
    /// Allocates up to `most` consecutive blocks, at least one. Returns the first, and how many.
    /// They are in use from now on; [`set_owner`](Log::set_owner) says by whom.
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
