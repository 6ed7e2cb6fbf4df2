//! A transaction's way to the medium: its prepared buffers written by whoever is free, then sealed by one, then acknowledged.
//!
//! # The order of things
//!
//! | the commit block | written first | then | then | then |
//! |---|---|---|---|---|
//! | apart | all other buffers | flush | commit block, durably | acknowledged |
//! | among the buffers | all buffers, in any order | flush | acknowledged | |
//!
//! # Invariants
//! - **C1** A commit block that is written apart is written by the one [owner](super::owner), after a flush that came after all other writes, and after the
//!   medium has [settled](super::medium) since: so what it commits is durable, whatever fails beside it.
//! - **C2** A transaction is acknowledged by the owner alone, after its last flush, once the medium has settled.
//! - **C4** Nobody is needed but the one that commits: helpers may never come, leave at any point, or die.
//!
//! What is written, and where, is the business of [`Steps`].

use std::sync::Arc;

use spanlock_sync::hint::Backoff;
use spanlock_sync::{injected_bug, is_flush_left_out};

use super::medium::Medium;
use super::owner::{CommitRight, Owner, Turn};
use super::signal::Signal;
use super::tickets::Tickets;

/// What a submission does to the medium, and when it is over. Each but the last is one operation of the [`Medium`].
pub trait Steps<F> {
    /// Writes a buffer that was published.
    fn write(&self, buffer: u32) -> Result<(), F>;
    /// Makes durable what has been written.
    fn flush(&self) -> Result<(), F>;
    /// Writes the commit block, durably. Called only if it is written apart; again, by another thread, if one has died in it.
    fn write_commit_block(&self) -> Result<(), F>;
    /// It is durable, after so many flushes and durable writes: acknowledges it.
    fn committed(&self, flushes: u64);
}

/// See the [module](self).
#[derive(Debug)]
pub struct Submission {
    tickets: Tickets,
    right: CommitRight,
    total: u32,
    is_sealed_apart: bool,
}

impl Submission {
    /// Of so many buffers; the commit block is among them unless `is_sealed_apart`. Who waits for the end sleeps at `sealed`, which the medium's failure wakes too.
    pub fn new(total: u32, is_sealed_apart: bool, sealed: Arc<Signal>) -> Self {
        Submission {
            tickets: Tickets::new(total),
            right: CommitRight::new(sealed),
            total,
            is_sealed_apart,
        }
    }

    /// How many buffers there are.
    pub fn total(&self) -> u32 {
        self.total
    }

    /// Whether the commit block is written by the owner.
    pub fn is_sealed_apart(&self) -> bool {
        self.is_sealed_apart
    }

    /// Whether a helper may find something to do.
    pub fn is_open(&self) -> bool {
        self.tickets.is_open()
    }

    /// One more buffer is in place, in order. By the one that commits only; before the last, the commit block is in place too if it is written apart.
    pub fn publish(&self) {
        self.tickets.publish();
    }

    /// A waiting thread helps: writes what is prepared, and if it completes the last buffer, seals. Returns what it wrote: buffers, and 1 for the seal.
    ///
    /// A failure is the medium's, which tells everybody.
    pub fn help<F: Clone>(&self, medium: &Medium<F>, steps: &impl Steps<F>) -> u64 {
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

    /// The one that commits has published all: writes what is left, and stays until the transaction is acknowledged, by itself if nobody else does it (C4).
    pub fn complete<F: Clone>(&self, medium: &Medium<F>, steps: &impl Steps<F>) -> Result<(), F> {
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

    /// The one that commits has written all buffers itself, as it liked, and seals.
    pub fn complete_alone<F: Clone>(
        &self,
        medium: &Medium<F>,
        steps: &impl Steps<F>,
    ) -> Result<(), F> {
        self.right.open();
        match self.right.try_own() {
            Some(owner) => self.seal(owner, medium, steps),
            None => Ok(()),
        }
    }

    /// Writes buffers as long as there are prepared ones; tells how many.
    fn write_prepared<F: Clone>(
        &self,
        medium: &Medium<F>,
        steps: &impl Steps<F>,
    ) -> Result<u64, F> {
        let mut count = 0;
        while let Some(buffer) = self.tickets.claim() {
            medium.perform(|| steps.write(buffer))?;
            count += 1;
            if self.tickets.complete() {
                self.right.open();
            }
        }
        Ok(count)
    }

    /// The owner's part: flush, commit block, acknowledgement.
    fn seal<F: Clone>(
        &self,
        owner: Owner<'_>,
        medium: &Medium<F>,
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
            // Or else it could commit what a failure beside the flush has lost (C1).
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
