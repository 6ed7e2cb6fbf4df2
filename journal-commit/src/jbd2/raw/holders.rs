//! Which handle holds which block, and deadlocks between them.
//!
//! # The problem
//! A handle holds each block that it changes until it ends, so that it can be aborted: no other
//! handle has built on its changes. Handles that take the same blocks in different orders would
//! wait for each other for ever. So a handle that would wait looks first whether the holder waits
//! for it.
//!
//! # Invariants
//! - **H1** A block has at most one holder.
//! - **H2** A handle waits for at most one block at a time, and frees none meanwhile. So if the
//!   holder of that block waits, too, only the block's holder after *that* one matters: the search
//!   for a circle follows one chain.
//! - **H3** The handles that wait never form a circle. A handle enters its wait under the mutex of
//!   all waits, after it has followed the chain from its block under the same mutex. The last
//!   handle of a circle would therefore have found it.
//!
//! An entry of `waits` may be stale for a moment: the handle has its block already. That shows, and
//! ends the chain.
//!
//! # Not guaranteed
//! Waits for anything but blocks are not seen, for example for a lock of the caller. The order in
//! which waiting handles get a block is not fixed.
//!
//! The model is `journal-holders`.

use std::collections::{BTreeMap, HashMap};

use spanlock_sync::{Condvar, Mutex, injected_bug};

const SHARDS: u64 = 16;

/// A handle, among all that hold blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Holder(pub u64);

/// The wait would never end: the block's holder waits, perhaps by way of others, for this handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlock;

/// The holders of all blocks.
#[derive(Debug)]
pub struct Holders {
    shards: Box<[Shard]>,
    /// The block that each waiting handle waits for.
    waits: Mutex<BTreeMap<Holder, u64>>,
}

#[derive(Debug)]
struct Shard {
    held: Mutex<HashMap<u64, Holder>>,
    freed: Condvar,
}

impl Default for Holders {
    fn default() -> Self {
        Holders::new()
    }
}

impl Holders {
    /// Creates a table in which all blocks are free.
    pub fn new() -> Self {
        let shard = |_| Shard {
            held: Mutex::new(HashMap::new()),
            freed: Condvar::new(),
        };
        Holders {
            shards: (0..SHARDS).map(shard).collect(),
            waits: Mutex::new(BTreeMap::new()),
        }
    }

    fn shard(&self, block: u64) -> &Shard {
        &self.shards[(block % SHARDS) as usize]
    }

    fn holder(&self, block: u64) -> Option<Holder> {
        self.shard(block).held.lock().get(&block).copied()
    }

    /// Takes a block that `me` does not have yet. Blocks while another handle has it. Fails, and
    /// leaves everything as it was, if that wait would never end.
    pub fn take(&self, block: u64, me: Holder) -> Result<(), Deadlock> {
        if self.try_take(block, me) {
            return Ok(());
        }
        self.begin_wait(block, me)?;
        let shard = self.shard(block);
        let mut held = shard.held.lock();
        while held.contains_key(&block) {
            held = shard.freed.wait(held);
        }
        held.insert(block, me);
        drop(held);
        self.waits.lock().remove(&me);
        Ok(())
    }

    fn try_take(&self, block: u64, me: Holder) -> bool {
        let mut held = self.shard(block).held.lock();
        let is_free = !held.contains_key(&block);
        if is_free {
            held.insert(block, me);
        }
        is_free
    }

    /// Notes that `me` is going to wait for `block`, unless that would close a circle (H3).
    fn begin_wait(&self, block: u64, me: Holder) -> Result<(), Deadlock> {
        let mut waits = self.waits.lock();
        let mut at = block;
        while let Some(holder) = self.holder(at) {
            if holder == me
                && !injected_bug!(
                    "circle-not-seen",
                    "a handle waits although the holder waits for it",
                    killed_by = "crossed, ring-3"
                )
            {
                return Err(Deadlock);
            }
            match waits.get(&holder) {
                Some(&next) if next != at => at = next,
                _ => break,
            }
        }
        if !injected_bug!(
            "wait-not-noted",
            "a handle that waits for a block does not note it",
            killed_by = "crossed, ring-3"
        ) {
            waits.insert(me, block);
        }
        Ok(())
    }

    /// Frees a block, and wakes the handles that wait for it.
    pub fn free(&self, block: u64) {
        let shard = self.shard(block);
        shard.held.lock().remove(&block);
        if !injected_bug!(
            "freed-silently",
            "a block is freed, and no waiting handle is woken",
            killed_by = "turns, crossed, queue-3, ring-3"
        ) {
            shard.freed.notify_all();
        }
    }
}
