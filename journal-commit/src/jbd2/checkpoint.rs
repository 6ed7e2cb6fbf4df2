//! Writing committed blocks home, which frees the tail of the log.
//!
//! A checkpoint takes as many of the oldest transactions as are needed to free a quarter of the
//! log, or the number of blocks that a request still lacks if that is more. It then
//!
//! 1. writes the newest copy that these transactions have of each block,
//! 2. flushes,
//! 3. moves the tail in the superblock, durably.
//!
//! Only then is their part of the log free (J5).
//!
//! When a transaction that *revokes* a block is committed, the journal removes that block from all
//! older transactions. A checkpoint then does not write the block home, where other data may be by
//! now.

use std::sync::Arc;

use spanlock_sync::is_flush_left_out;

use super::buffers::Copies;
use super::error::Failure;
use super::inner::Inner;
use super::transaction::Committed;

impl Inner {
    /// Writes blocks home until `wanted` blocks of the log are free. Returns `Ok` with fewer free
    /// blocks if no committed transaction is left in the log.
    pub(crate) fn make_room(&self, wanted: u32) -> Result<(), Failure> {
        if self.state.lock().free >= wanted {
            return Ok(());
        }
        let mut superblock = self.checkpointing.lock();
        loop {
            let batch = {
                let state = self.state.lock();
                // Another thread may have made the room.
                if state.free >= wanted {
                    return Ok(());
                }
                let least = (self.log.len() / 4).max(wanted - state.free);
                let mut freed = 0;
                let oldest = state.queue.iter().take_while(|it| {
                    let enough = freed >= least;
                    freed += it.log_blocks;
                    !enough
                });
                oldest.cloned().collect::<Vec<_>>()
            };
            let Some(last) = batch.last() else {
                // The committing transaction occupies the rest of the log; the caller tries again.
                return Ok(());
            };
            self.bring_home(&batch)?;
            superblock.set(last.tid.next(), last.end);
            self.on_medium("moving the log's tail", || {
                superblock.write(&self.blocks, &self.options.place)
            })?;
            self.medium.settle()?;
            let mut state = self.state.lock();
            state.queue.drain(..batch.len());
            state.free += batch.iter().map(|it| it.log_blocks).sum::<u32>();
            state.stats.checkpoints += 1;
        }
    }

    /// Writes all blocks home and leaves an empty log. No other thread may use the journal any
    /// more. Then ends the file system's need for a recovery (EF2).
    pub(crate) fn empty(&self) -> Result<(), Failure> {
        let mut superblock = self.checkpointing.lock();
        let (batch, next): (Vec<_>, _) = {
            let state = self.state.lock();
            (
                state.queue.iter().cloned().collect(),
                state.committed.next(),
            )
        };
        self.bring_home(&batch)?;
        superblock.set(next, 0);
        self.on_medium("emptying the log", || {
            superblock.write(&self.blocks, &self.options.place)
        })?;
        self.medium.settle()?;
        let Some(file_system) = self.file_system else {
            return Ok(());
        };
        self.on_medium("clearing the file system's flag", || {
            file_system.end(&self.home)
        })?;
        self.medium.settle()
    }

    /// Writes the newest copy of each block in these transactions home, and flushes.
    fn bring_home(&self, batch: &[Arc<Committed>]) -> Result<(), Failure> {
        let mut newest = Copies::new();
        for it in batch {
            newest.extend(it.blocks.lock().iter().map(|(at, it)| (*at, it.clone())));
        }
        for (block, content) in &newest {
            let at = block * self.format.block_bytes as u64;
            self.on_medium("writing a block home", || self.home.write_at(content, at))?;
        }
        if !is_flush_left_out() {
            self.on_medium("flushing the blocks at home", || self.home.flush())?;
        }
        self.medium.settle()?;
        for (block, content) in &newest {
            self.buffers.came_home(*block, content);
        }
        Ok(())
    }

    /// Removes the blocks that a committed transaction revoked from older transactions.
    pub(crate) fn forget_revoked(&self, by: &Committed) {
        if by.revokes.is_empty() {
            return;
        }
        // Without this lock, a checkpoint could write these blocks home meanwhile.
        let _none = self.checkpointing.lock();
        let queue: Vec<_> = self.state.lock().queue.iter().cloned().collect();
        for it in queue {
            let mut blocks = it.blocks.lock();
            for block in &by.revokes {
                blocks.remove(block);
            }
        }
    }
}
