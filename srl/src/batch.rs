//! Several ranges in one call.
//!
//! As a rule nothing stands in the way, and all are taken one by one, by tries. Otherwise those that were taken are given back, and the batch
//! goes through the [gate](crate::gate) as one: all of its ranges get their entries at once, so that no two batches wait for each other in a
//! circle, and no batch and single request do, for it holds no words meanwhile (G-I4).

use alloc::vec::Vec;
use core::ops::Range;

use spanlock::words::Progress;
use spanlock::{Access, RangeError, RawRangeLock, RawRangeLockBatch, Span, Token, TryLockError};
use spanlock_sync::Park;

use crate::lock::{Srl, entry_of};
use crate::space::Space;

// SAFETY: each span is held as by `lock` or `try_lock`, or by a granted entry after a scan, as a wide range (G-I3). Who waits has no words.
unsafe impl<S: Space, P: Park> RawRangeLockBatch for Srl<S, P> {
    fn lock_batch(
        &self,
        batch: &[(Span, Access)],
        tokens: &mut Vec<Token>,
    ) -> Result<(), RangeError> {
        match self.try_lock_batch(batch, tokens) {
            Ok(()) => return Ok(()),
            Err(TryLockError::Range(error)) => return Err(error),
            Err(_) => {}
        }
        let entry = |&(span, access): &(Span, Access)| (entry_of(&self.segments.of(span)), access);
        let entries: Vec<_> = batch.iter().map(entry).collect();
        let first = tokens.len();
        batch.iter().for_each(|_| self.gate.close());
        self.gate.entries().lock_batch(&entries, tokens)?;
        self.gate.before_scan();
        for (&(span, access), token) in batch.iter().zip(&mut tokens[first..]) {
            let touched = self.segments.of(span);
            self.scan(&touched, access);
            // SAFETY: the entry was granted, and the words were seen free since: it is held.
            *token = unsafe { self.narrow(&touched, access, *token) };
        }
        self.queue.counters().acquisitions(batch.len());
        Ok(())
    }

    fn try_lock_batch(
        &self,
        batch: &[(Span, Access)],
        tokens: &mut Vec<Token>,
    ) -> Result<(), TryLockError> {
        for &(span, _) in batch {
            self.segments.touched(span)?;
        }
        let first = tokens.len();
        for &(span, access) in batch {
            match self.try_take(span, access) {
                Ok(token) => tokens.push(token),
                Err(_) => {
                    for (token, &(span, access)) in tokens.drain(first..).zip(batch) {
                        // SAFETY: it was taken just now, with this access.
                        unsafe { self.unlock(span, access, token) };
                    }
                    return Err(TryLockError::WouldBlock);
                }
            }
        }
        self.queue.counters().acquisitions(batch.len());
        Ok(())
    }
}

impl<S: Space, P: Park> Srl<S, P> {
    /// Blocks until every word of a range that has its entry was seen free.
    fn scan(&self, touched: &Range<u64>, access: Access) {
        P::with(|parker| {
            let mut progress = Progress::default();
            progress.listen(parker.waker());
            while self.poll_scan(touched, access, &mut progress).is_pending() {
                parker.park();
            }
        });
    }
}
