//! Writing a transaction to the medium. Threads that are free write its prepared buffers, and one
//! thread *seals* it: flushes, writes the commit block if necessary, and acknowledges the
//! transaction.
//!
//! # Stages
//! The commit block is either among the buffers, or is written *apart*: after a flush of all
//! buffers, by a separate durable write.
//!
//! | the commit block | written first | then | then | then |
//! |---|---|---|---|---|
//! | apart | all other buffers | flush | commit block, durably | acknowledged |
//! | among the buffers | all buffers, in any order | flush | acknowledged | |
//!
//! ```text
//!   journal's thread        any thread, in parallel           the owner
//!   publish ─────────► claim ──► write ──► complete ──last──► own ──► flush ──┐
//!                        ▲                     │                              │
//!                        └─────── more ────────┘           ┌──────────────────┘
//!                                                          ▼
//!                      if apart:  settle ──► write the commit block ──► settle ──► committed
//!                      if not:                                          settle ──► committed
//! ```
//!
//! # Invariants
//! - **J-C1** Only the [owner](super::owner) writes a commit block that is written apart. Before
//!   this write, all other writes are complete, the owner has flushed, and the medium has then
//!   [settled](super::medium) without a failure. So everything that the block commits is durable,
//!   even if other operations fail.
//! - **J-C2** Only the owner acknowledges a transaction, after the owner's last flush or durable
//!   write and once the medium has settled.
//! - **J-C4** The journal's thread needs no other thread. Helpers may never come, may leave at any
//!   point, and may die. If a helper dies in an operation, the operation fails, and `complete`
//!   returns that failure.
//!
//! An implementation of [`Steps`] performs the writes and flushes.

use std::ops::Range;
use std::sync::Arc;

use spanlock_sync::hint::Backoff;
use spanlock_sync::{injected_bug, is_flush_left_out};

use super::medium::Operations;
use super::owner::{CommitRight, Owner, Turn};
use super::signal::Signal;
use super::tickets::Tickets;

/// The operations of a submission on the medium, and the acknowledgement. Each method except the
/// last is one operation of the [`Operations`].
pub trait Steps<F> {
    /// Writes published buffers.
    fn write(&self, buffers: Range<u32>) -> Result<(), F>;
    /// Makes everything written so far durable.
    fn flush(&self) -> Result<(), F>;
    /// Writes the commit block, durably. Called only if the block is written apart. If the owner
    /// dies after this call has returned, the next owner calls it again. If the owner dies during
    /// the call, the operation has failed, and no thread calls it again.
    fn write_commit_block(&self) -> Result<(), F>;
    /// Acknowledges the transaction, which became durable by `flushes` flushes and durable writes.
    fn committed(&self, flushes: u64);
}

/// One transaction on its way to the medium. See the [module](self).
#[derive(Debug)]
pub struct Submission {
    tickets: Tickets,
    right: CommitRight,
    total: u32,
    is_sealed_apart: bool,
}

impl Submission {
    /// Creates a submission of `total` buffers, which are written in [runs](super::tickets) of
    /// `run` buffers. They include the commit block unless `is_sealed_apart`. The journal's thread
    /// waits for the end at the signal `sealed`. A failure of the medium must wake this signal too.
    pub fn new(total: u32, run: u32, is_sealed_apart: bool, sealed: Arc<Signal>) -> Self {
        Submission {
            tickets: Tickets::new(total, run),
            right: CommitRight::new(sealed),
            total,
            is_sealed_apart,
        }
    }

    /// Returns the number of buffers.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// Returns how many threads can write at the same time.
    pub fn runs(&self) -> u32 {
        self.tickets.runs()
    }

    /// Returns whether the commit block is written apart.
    pub fn is_sealed_apart(&self) -> bool {
        self.is_sealed_apart
    }

    /// Returns whether there may still be unclaimed buffers.
    pub fn is_open(&self) -> bool {
        self.tickets.is_open()
    }

    /// Publishes the next buffer. The caller has put the buffer in place. Only the journal's thread
    /// calls this. If the commit block is written apart, it must be in place before the last buffer
    /// is published.
    pub fn publish(&self) {
        self.tickets.publish();
    }

    /// Lets a waiting thread help: it writes prepared buffers, and then seals the transaction if
    /// the right to do so is free. Returns the number of buffers it wrote, plus 1 for the seal.
    ///
    /// A failure is recorded in the medium, which tells all threads.
    pub fn help<F: Clone>(&self, medium: &Operations<F>, steps: &impl Steps<F>) -> u64 {
        if !self.tickets.admit() {
            return 0;
        }
        let mut written = 0;
        let mut spin = Backoff::new();
        while self.tickets.is_open() {
            match self.write_prepared(medium, steps) {
                Ok(0) if !spin.round() => break,
                Ok(0) => {}
                Ok(count) => {
                    written += count;
                    spin = Backoff::new();
                }
                Err(_) => return written,
            }
        }
        let sealed = match self.right.try_own() {
            Some(owner) => u64::from(self.seal(owner, medium, steps).is_ok()),
            None => 0,
        };
        written + sealed
    }

    /// Completes a submission whose buffers are all published. Only the journal's thread calls
    /// this. Writes the remaining buffers, and returns when the transaction is acknowledged or the
    /// medium has failed. If no other thread seals the transaction, this thread does (J-C4).
    pub fn complete<F: Clone>(
        &self,
        medium: &Operations<F>,
        steps: &impl Steps<F>,
    ) -> Result<(), F> {
        self.write_prepared(medium, steps)?;
        if self.total == 0 {
            self.right.open();
        }
        match self.right.wait(|| medium.check().is_err()) {
            Some(Turn::Yours(owner)) => self.seal(owner, medium, steps),
            Some(Turn::Done) => Ok(()),
            None => medium.check(),
        }
    }

    /// Seals a submission after the journal's thread has written all buffers itself, without
    /// [`publish`](Self::publish).
    pub fn complete_alone<F: Clone>(
        &self,
        medium: &Operations<F>,
        steps: &impl Steps<F>,
    ) -> Result<(), F> {
        self.right.open();
        match self.right.try_own() {
            Some(owner) => self.seal(owner, medium, steps),
            None => Ok(()),
        }
    }

    /// Writes published buffers until none is left to claim, and returns their number.
    fn write_prepared<F: Clone>(
        &self,
        medium: &Operations<F>,
        steps: &impl Steps<F>,
    ) -> Result<u64, F> {
        let mut count = 0;
        while let Some(run) = self.tickets.claim() {
            medium.perform(|| steps.write(run.clone()))?;
            count += u64::from(run.end - run.start);
            if self.tickets.complete(&run) {
                self.right.open();
            }
        }
        Ok(count)
    }

    /// Does the owner's part: flush, commit block, acknowledgement.
    fn seal<F: Clone>(
        &self,
        owner: Owner<'_>,
        medium: &Operations<F>,
        steps: &impl Steps<F>,
    ) -> Result<(), F> {
        if self.is_sealed_apart
            && injected_bug!(
                "commit-block-too-early",
                "the commit block is written before the flush of the blocks it commits",
                killed_by = "wait, help"
            )
        {
            medium.perform(|| steps.write_commit_block())?;
        }
        if !is_flush_left_out() {
            medium.perform(|| {
                let flushed = steps.flush();
                let is_swallowed = injected_bug!(
                    "flush-error-swallowed",
                    "a failed flush is reported as a success",
                    killed_by = "flush-fails"
                );
                if is_swallowed { Ok(()) } else { flushed }
            })?;
        }
        let mut flushes = 1;
        if self.is_sealed_apart {
            // A failure during the flush may have lost data that the commit block would commit
            // (J-C1).
            medium.settle()?;
            medium.perform(|| steps.write_commit_block())?;
            flushes += 1;
        }
        medium.settle()?;
        steps.committed(flushes);
        owner.finish();
        Ok(())
    }
}
