//! Several ranges in one call.
//!
//! As a rule nothing stands in the way, and all are taken one by one, by tries. Otherwise those that were taken are given back, and the batch
//! goes through the [gate](crate::gate) as one: all of its ranges get their entries at once, so that no two batches wait for each other in a
//! circle, and no batch and single request do, for it holds no words meanwhile (G-I4).

use alloc::vec::Vec;
use core::ops::Range;

use spanlock_range_lock::words::{self, Progress};
use spanlock_range_lock::{
    Access, RangeError, RawRangeLock, RawRangeLockBatch, Span, Token, TryLockError,
};
use spanlock_sync::Park;
use spanlock_sync::wait::WaitQueue;

use crate::lock::{Srl, entry_of, wide_token};
use crate::request::in_range;
use crate::space::Space;

// SAFETY: each span is held as by `lock` or `try_lock`, or by a granted entry after a scan, as a wide range (G-I3). Who waits has no words.
unsafe impl<S: Space, P: Park> RawRangeLockBatch for Srl<S, P> {
    unsafe fn lock_batch(
        &self,
        batch: &[(Span, Access)],
        tokens: &mut Vec<Token>,
    ) -> Result<(), RangeError> {
        // SAFETY: the caller's promise.
        match unsafe { self.try_lock_batch(batch, tokens) } {
            Ok(()) => return Ok(()),
            Err(TryLockError::Range(error)) => return Err(error),
            Err(_) => {}
        }
        let entry = |&(span, access): &(Span, Access)| (entry_of(&self.segments.of(span)), access);
        let entries: Vec<_> = batch.iter().map(entry).collect();
        batch.iter().for_each(|_| self.gate.close());
        let first = tokens.len();
        // SAFETY: the caller's promise: no segment is touched by two of them.
        in_range(unsafe { self.gate.entries().lock_batch(&entries, tokens) });
        for token in &mut tokens[first..] {
            *token = wide_token(*token);
        }
        let taken = Taken {
            lock: self,
            batch,
            tokens,
            first,
        };
        self.gate.before_scan();
        for (&(span, access), token) in batch.iter().zip(&mut taken.tokens[first..]) {
            let touched = self.segments.of(span);
            self.scan(&touched, access);
            // SAFETY: the entry was granted, and the words were seen free since: it is held.
            unsafe { self.narrow(&touched, access, token) };
        }
        taken.keep();
        Ok(())
    }

    unsafe fn try_lock_batch(
        &self,
        batch: &[(Span, Access)],
        tokens: &mut Vec<Token>,
    ) -> Result<(), TryLockError> {
        for &(span, _) in batch {
            self.segments.touched(span)?;
        }
        let first = tokens.len();
        let taken = Taken {
            lock: self,
            batch,
            tokens,
            first,
        };
        for &(span, access) in batch {
            let token = self.try_take(span, access);
            taken
                .tokens
                .push(token.map_err(|_| TryLockError::WouldBlock)?);
        }
        taken.keep();
        Ok(())
    }
}

/// What a batch has taken so far. Dropped, it gives that back: a batch is held as a whole or not at all, whatever somebody else's waker does.
struct Taken<'a, S: Space, P: Park> {
    lock: &'a Srl<S, P>,
    batch: &'a [(Span, Access)],
    tokens: &'a mut Vec<Token>,
    /// The first token of the batch.
    first: usize,
}

impl<S: Space, P: Park> Taken<'_, S, P> {
    /// All of it was taken, and stays.
    fn keep(self) {
        (self.lock.queue.counters()).acquisitions(self.batch.len());
        core::mem::forget(self);
    }
}

impl<S: Space, P: Park> Drop for Taken<'_, S, P> {
    fn drop(&mut self) {
        let taken = self.tokens.drain(self.first..).zip(self.batch);
        words::for_each_surely(taken, |(token, &(span, access))| {
            // SAFETY: it was taken for the batch, with this access.
            unsafe { self.lock.unlock(span, access, token) };
        });
    }
}

/// A scan that waits: dropped, it leaves its queue.
struct Scan<'a, P> {
    progress: Progress,
    queue: &'a WaitQueue<P>,
}

impl<P> Drop for Scan<'_, P> {
    fn drop(&mut self) {
        self.progress.leave(self.queue);
        self.progress.wake_others();
    }
}

impl<S: Space, P: Park> Srl<S, P> {
    /// Blocks until every word of a range that has its entry was seen free.
    fn scan(&self, touched: &Range<u64>, access: Access) {
        P::with(|parker| {
            let mut scan = Scan {
                progress: Progress::default(),
                queue: &self.queue,
            };
            scan.progress.listen(parker.waker());
            while self
                .poll_scan(touched, access, &mut scan.progress)
                .is_pending()
            {
                parker.park();
            }
        });
    }
}
