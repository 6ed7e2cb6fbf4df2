//! One transaction on its way into the log: what [its machine](super::raw::submission) writes, and where.
//!
//! The commit block of a format with two flushes is written apart; that of one with one flush is among the buffers, unless the transaction revokes: the sum
//! in the commit block does not cover revoke blocks, so a torn one would not be noticed.
//!
//! # Invariants
//! Beside the machine's:
//! - **C3** The commit block is in place before the last buffer is published: whoever completes that can go on.

use std::sync::Arc;
use std::time::Instant;

use spanlock_sync::{Mutex, is_flush_left_out};

use super::buffers::Content;
use super::checkpoint::Committed;
use super::error::Failure;
use super::format::{Flushes, Tid};
use super::journal::{Inner, failed};
use super::options::CommitWay;
use super::raw::signal::Signal;
use super::raw::submission::{Steps, Submission};

/// A block for the log: where, and what.
pub(crate) type Buffer = (u32, Content);

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Committing {
    pub(crate) tid: Tid,
    pub(crate) submission: Submission,
    /// By number; each is there from its publication to its claim.
    buffers: Box<[Mutex<Option<Buffer>>]>,
    /// If it is written apart (C3).
    commit_block: Mutex<Option<Buffer>>,
    /// What is acknowledged when all is done.
    pub(crate) whole: Arc<Committed>,
    pub(crate) began: Instant,
}

impl Committing {
    /// Of a transaction that is committed with so many flushes. Who waits for its end sleeps at `sealed`.
    pub(crate) fn new(whole: Arc<Committed>, flushes: Flushes, sealed: Arc<Signal>) -> Self {
        let is_sealed_apart = flushes == Flushes::Two;
        let total = whole.log_blocks - u32::from(is_sealed_apart);
        Committing {
            tid: whole.tid,
            submission: Submission::new(total, is_sealed_apart, sealed),
            buffers: (0..total).map(|_| Mutex::new(None)).collect(),
            commit_block: Mutex::new(None),
            whole,
            began: Instant::now(),
        }
    }

    /// Puts buffer `number` in place, and publishes it: buffers come in order.
    pub(crate) fn publish(&self, number: u32, buffer: Buffer) {
        *self.buffers[number as usize].lock() = Some(buffer);
        self.submission.publish();
    }

    /// Puts the commit block in place that the owner is to write.
    pub(crate) fn set_commit_block(&self, buffer: Buffer) {
        *self.commit_block.lock() = Some(buffer);
    }
}

/// A submission and the journal whose it is.
pub(crate) struct CommitSteps<'a> {
    pub(crate) inner: &'a Inner,
    pub(crate) committing: &'a Committing,
}

impl Steps<Failure> for CommitSteps<'_> {
    fn write(&self, buffer: u32) -> Result<(), Failure> {
        let buffer = self.committing.buffers[buffer as usize].lock().take();
        let (block, content) = buffer.expect("claimed once, after it was put in place (T1, T2)");
        let blocks = &self.inner.blocks;
        let found = blocks.find(block);
        let written = found.and_then(|(at, _)| blocks.storage.write_at(&content, at));
        failed("writing the log", written)
    }

    fn flush(&self) -> Result<(), Failure> {
        failed("flushing the log", self.inner.blocks.storage.flush())
    }

    fn write_commit_block(&self) -> Result<(), Failure> {
        // Cloned, not taken: if this thread dies, another one writes it again.
        let commit_block = self.committing.commit_block.lock().clone();
        let (block, content) = commit_block.expect("in place before the last buffer (C3)");
        let blocks = &self.inner.blocks;
        let written = blocks.find(block).and_then(|(at, _)| {
            if is_flush_left_out() {
                return blocks.storage.write_at(&content, at);
            }
            blocks.storage.write_fua(&content, at)
        });
        failed("writing a commit block", written)
    }

    fn committed(&self, flushes: u64) {
        self.inner.committed(self.committing, flushes);
    }
}

impl Inner {
    /// A waiting thread helps.
    pub(crate) fn help(&self, committing: &Committing) {
        if self.options.way != CommitWay::Cooperative {
            return;
        }
        let steps = CommitSteps {
            inner: self,
            committing,
        };
        let helped = committing.submission.help(&self.medium, &steps);
        if helped > 0 {
            self.state.lock().stats.helped += helped;
        }
    }
}
