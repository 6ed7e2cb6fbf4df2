//! A transaction that is being committed: the blocks that its [submission](super::raw::submission)
//! writes, and their places in the log.
//!
//! In a format with two flushes the commit block is written *apart*, after a flush of the other
//! blocks. In a format with one flush, the commit block is among the buffers, and its checksum
//! shows whether all blocks are complete. That checksum does not cover revoke blocks. A transaction
//! with revoke blocks therefore always takes two flushes.
//!
//! # Invariants
//! In addition to the invariants of the submission:
//! - **J-C3** The commit block is in place before the last buffer is published. The thread that
//!   completes the last buffer can therefore write the commit block without waiting.

use std::sync::Arc;
use std::time::Instant;

use spanlock_sync::Mutex;

use super::buffers::Content;
use super::format::{Flushes, Tid};
use super::raw::signal::Signal;
use super::raw::submission::Submission;
use super::transaction::Committed;

/// A block for the log: its place and its content.
pub(crate) type Buffer = (u32, Content);

/// A transaction that is being committed. See the [module](self).
#[derive(Debug)]
pub(crate) struct Committing {
    pub(crate) tid: Tid,
    pub(crate) submission: Submission,
    /// The buffers by number. Each is present until a thread claims it.
    pub(crate) buffers: Box<[Mutex<Option<Buffer>>]>,
    /// Present if the commit block is written apart (J-C3).
    pub(crate) commit_block: Mutex<Option<Buffer>>,
    /// The transaction that is acknowledged at the end.
    pub(crate) whole: Arc<Committed>,
    pub(crate) began: Instant,
}

impl Committing {
    /// Prepares the commit of a transaction with that many flushes. The journal's thread waits for
    /// the end at the signal `sealed`. A thread writes `run` buffers together.
    pub(crate) fn new(
        whole: Arc<Committed>,
        flushes: Flushes,
        run: u32,
        sealed: Arc<Signal>,
    ) -> Self {
        let is_sealed_apart = flushes == Flushes::Two;
        let total = whole.log_blocks - u32::from(is_sealed_apart);
        Committing {
            tid: whole.tid,
            submission: Submission::new(total, run, is_sealed_apart, sealed),
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
