//! The committing transaction: which blocks its [submission](super::raw::submission) writes, and
//! where.
//!
//! In a format with two flushes the commit block is written apart. With one flush it is among the
//! buffers, unless the transaction revokes: the commit block's checksum does not cover revoke
//! blocks, so recovery would not notice a torn one.
//!
//! # Invariants
//! Besides those of the submission:
//! - **C3** The commit block is in place before the last buffer is published, so the thread that
//!   completes the last buffer can continue.

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

/// A block for the log: its place and its content.
pub(crate) type Buffer = (u32, Content);

/// A transaction that is being committed. See the [module](self).
#[derive(Debug)]
pub(crate) struct Committing {
    pub(crate) tid: Tid,
    pub(crate) submission: Submission,
    /// By number. Each one is present from its publication to its claim.
    buffers: Box<[Mutex<Option<Buffer>>]>,
    /// Present if it is written apart (C3).
    commit_block: Mutex<Option<Buffer>>,
    /// The transaction that is acknowledged at the end.
    pub(crate) whole: Arc<Committed>,
    pub(crate) began: Instant,
}

impl Committing {
    /// Prepares the commit of a transaction with that many flushes. A thread that waits for its end
    /// sleeps at `sealed`.
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

    /// Puts buffer `number` in place and publishes it. Buffers come in order.
    pub(crate) fn publish(&self, number: u32, buffer: Buffer) {
        *self.buffers[number as usize].lock() = Some(buffer);
        self.submission.publish();
    }

    /// Puts the commit block, which the owner will write, in place.
    pub(crate) fn set_commit_block(&self, buffer: Buffer) {
        *self.commit_block.lock() = Some(buffer);
    }
}

/// The steps of a commit, performed on a journal.
pub(crate) struct CommitSteps<'a> {
    pub(crate) inner: &'a Inner,
    pub(crate) committing: &'a Committing,
}

impl Steps<Failure> for CommitSteps<'_> {
    fn write(&self, buffer: u32) -> Result<(), Failure> {
        let buffer = self.committing.buffers[buffer as usize].lock().take();
        let (block, content) =
            buffer.expect("claimed once, after it was put in place (J-T1, J-T2)");
        let blocks = &self.inner.blocks;
        let found = blocks.find(block);
        let written = found.and_then(|(at, _)| blocks.storage.write_at(&content, at));
        failed("writing the log", written)
    }

    fn flush(&self) -> Result<(), Failure> {
        failed("flushing the log", self.inner.blocks.storage.flush())
    }

    fn write_commit_block(&self) -> Result<(), Failure> {
        // Clone it: if this thread dies, another one writes it again.
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
    /// Lets a waiting thread help with a commit.
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
