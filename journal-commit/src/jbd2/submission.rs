//! One transaction on its way into the log: prepared, written, sealed by its commit block.
//!
//! # The order of things
//!
//! | format | written first | then | then |
//! |---|---|---|---|
//! | two flushes | revokes, descriptors, data | flush | commit block, durably |
//! | one flush | revokes, descriptors, data and commit block, in any order | flush | |
//! | one flush, and the transaction revokes | as with two | | |
//!
//! The last row: the sum in the commit block does not cover revoke blocks, so a torn one would not be noticed.
//!
//! # Invariants
//! - **C1** The commit block of two flushes is written by the one [owner](super::raw::owner), after a flush that came after all other writes, and after the
//!   medium has [settled](super::raw::medium) since: so what it commits is durable, whatever fails beside it.
//! - **C2** A transaction is said to be committed by the owner alone, after its last flush, once the medium has settled (J3).
//! - **C3** The commit block is in place before the last buffer is published: whoever completes that can go on.

use std::sync::Arc;
use std::time::Instant;

use spanlock_sync::Mutex;
use spanlock_sync::hint::Backoff;

use super::buffers::Content;
use super::checkpoint::Committed;
use super::error::Failure;
use super::format::{Flushes, Tid};
use super::journal::Inner;
use super::options::CommitWay;
use super::raw::owner::{CommitRight, Owner};
use super::raw::signal::Signal;
use super::raw::tickets::Tickets;

/// A block for the log: where, and what.
pub(crate) type Buffer = (u32, Content);

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Submission {
    pub(crate) tid: Tid,
    pub(crate) tickets: Tickets,
    pub(crate) right: CommitRight,
    /// By number; each is there from its publication to its claim.
    buffers: Box<[Mutex<Option<Buffer>>]>,
    flushes: Flushes,
    /// With two flushes, for the owner (C3).
    commit_block: Mutex<Option<Buffer>>,
    /// What is acknowledged when all is done.
    pub(crate) whole: Arc<Committed>,
    pub(crate) began: Instant,
}

impl Submission {
    /// Of a transaction that is committed with so many flushes. Who waits for its end sleeps at `sealed`.
    pub(crate) fn new(whole: Arc<Committed>, flushes: Flushes, sealed: Arc<Signal>) -> Self {
        let total = match flushes {
            Flushes::One => whole.log_blocks,
            Flushes::Two => whole.log_blocks - 1,
        };
        Submission {
            tid: whole.tid,
            flushes,
            tickets: Tickets::new(total),
            right: CommitRight::new(sealed),
            buffers: (0..total).map(|_| Mutex::new(None)).collect(),
            commit_block: Mutex::new(None),
            whole,
            began: Instant::now(),
        }
    }

    /// How many buffers are written before the first flush: all but the commit block, or all.
    pub(crate) fn total(&self) -> u32 {
        self.buffers.len() as u32
    }

    /// Whether the commit block is written by the owner.
    pub(crate) fn is_sealed_apart(&self) -> bool {
        self.flushes == Flushes::Two
    }

    /// Puts buffer `number` in place, and publishes it: buffers come in order.
    pub(crate) fn publish(&self, number: u32, buffer: Buffer) {
        *self.buffers[number as usize].lock() = Some(buffer);
        self.tickets.publish();
    }

    /// Puts the commit block in place that the owner is to write.
    pub(crate) fn set_commit_block(&self, buffer: Buffer) {
        *self.commit_block.lock() = Some(buffer);
    }
}

impl Inner {
    /// A waiting thread helps: writes what is prepared, and if it completes the last block, seals the transaction.
    pub(crate) fn help(&self, submission: &Submission) {
        if self.options.way != CommitWay::Cooperative || !submission.tickets.admit() {
            return;
        }
        let mut written = 0;
        let mut spin = Backoff::new();
        while submission.tickets.is_open() {
            match self.write_prepared(submission) {
                Ok(0) if !spin.round() => break,
                Ok(0) => {}
                Ok(count) => {
                    written += count;
                    spin = Backoff::new();
                }
                // The journal is poisoned, and says so itself.
                Err(_) => return,
            }
        }
        let sealed = match submission.right.try_own() {
            Some(owner) => u64::from(self.seal(submission, owner).is_ok()),
            None => 0,
        };
        self.state.lock().stats.helped += written + sealed;
    }

    /// Writes buffers as long as there are prepared ones; tells how many.
    pub(crate) fn write_prepared(&self, submission: &Submission) -> Result<u64, Failure> {
        let mut count = 0;
        while let Some(number) = submission.tickets.claim() {
            let buffer = submission.buffers[number as usize].lock().take();
            let (block, content) =
                buffer.expect("claimed once, after it was put in place (T1, T2)");
            self.write_log(block, &content)?;
            count += 1;
            if submission.tickets.complete() {
                submission.right.open();
            }
        }
        Ok(count)
    }

    /// Writes blocks of the log that lie together.
    pub(crate) fn write_log(&self, block: u32, content: &[u8]) -> Result<(), Failure> {
        self.on_medium("writing the log", || {
            let (at, _) = self.blocks.find(block)?;
            self.blocks.storage.write_at(content, at)
        })
    }

    /// The owner's part: flush, commit block, acknowledgement.
    pub(crate) fn seal(&self, submission: &Submission, owner: Owner<'_>) -> Result<(), Failure> {
        let storage = &self.blocks.storage;
        self.on_medium("flushing the log", || storage.flush())?;
        let mut flushes = 1;
        if submission.is_sealed_apart() {
            // Cloned, not taken: if this thread dies, another one writes it again.
            let commit_block = submission.commit_block.lock().clone();
            let (block, content) = commit_block.expect("in place before the last buffer (C3)");
            // Or else it could commit what a failure beside the flush has lost.
            self.medium.settle()?;
            self.on_medium("writing a commit block", || {
                let (at, _) = self.blocks.find(block)?;
                storage.write_fua(&content, at)
            })?;
            flushes += 1;
        }
        self.medium.settle()?;
        self.committed(submission, flushes);
        owner.finish();
        Ok(())
    }
}
