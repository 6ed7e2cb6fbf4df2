//! The capabilities of a segment lock: downgrade, upgrade, shrink, split, and batches.
//!
//! # Batches
//! A batch usually meets no conflict, so its ranges are first tried one by one. If a try fails, the
//! ranges taken so far are released, and the batch goes through the [gate](crate::gate) as a whole.
//! All of its ranges get their entries at once, so no two batches wait for each other in a cycle. A
//! batch holds no words while it waits for its entries, so a batch and a single request do not wait
//! for each other in a cycle either (G-I4). Then it scans its ranges in ascending order, and may
//! turn each into a hold by words before it scans the next.

use alloc::vec::Vec;
use core::ops::Range;

use spanlock_range_lock::words::for_each_surely;
use spanlock_range_lock::{
    Access, RangeError, RawRangeLock, RawRangeLockBatch, RawRangeLockDowngrade, RawRangeLockSplit,
    RawRangeLockUpgrade, Span, Token, TryLockError,
};
use spanlock_sync::Park;
use spanlock_sync::unwind::and_surely;

use crate::gate::{entry_of, in_range};
use crate::lock::Srl;
use crate::store::{Piece, SegmentStore};
use crate::token::{Holding, wide_token};

// SAFETY: each state changes from one access to the other in one step (S-I1), and so does an entry.
unsafe impl<S: SegmentStore, P: Park> RawRangeLockDowngrade for Srl<S, P> {
    unsafe fn downgrade(&self, span: Span, from: Access, to: Access, token: Token) -> Token {
        let touched = self.segments.of(span);
        // SAFETY: the caller holds the span with `from` by this token, and `to` excludes less.
        unsafe {
            match Holding::of(token) {
                Holding::Words(word) => {
                    self.downgrade_words(word, touched, from, to);
                    token
                }
                Holding::Wide(entry) => {
                    let entries = self.gate.entries();
                    wide_token(entries.downgrade(entry_of(&touched), from, to, entry))
                }
            }
        }
    }
}

// SAFETY: each state changes from one access to the other in one step, or all change back (S-I1).
// Then the request asks the gate, or scans, as a new one does, so it overlooks no conflicting hold
// (G-I2).
unsafe impl<S: SegmentStore, P: Park> RawRangeLockUpgrade for Srl<S, P> {
    unsafe fn try_upgrade(&self, span: Span, from: Access, token: Token) -> Result<Token, Token> {
        let touched = self.segments.of(span);
        // SAFETY: the caller holds the span with `from`, which is not `Write`, by this token.
        let upgraded = unsafe {
            match Holding::of(token) {
                Holding::Words(word) => self.upgrade_words(word, &touched, from),
                Holding::Wide(entry) => self.upgrade_wide(&touched, from, entry),
            }
        };
        if upgraded { Ok(token) } else { Err(token) }
    }
}

// SAFETY: the states and the part of an entry that are kept either stay as they are, or are taken
// anew before the old ones are released.
unsafe impl<S: SegmentStore, P: Park> RawRangeLockSplit for Srl<S, P> {
    unsafe fn shrink(&self, span: Span, access: Access, token: Token, keep: Span) -> Token {
        let (all, kept) = (self.segments.of(span), self.segments.of(keep));
        // SAFETY: the caller holds the span by this token, and gives up the segments that `keep`
        // does not touch.
        unsafe {
            match Holding::of(token) {
                Holding::Words(_) => {
                    // Find the new first word before the others are released: their memory may be
                    // freed as soon as they are free. The kept words keep theirs in place.
                    let token = self.words.token_of(&kept);
                    let (below, above) = (all.start..kept.start, kept.end..all.end);
                    and_surely(
                        || self.words.release(None, below, access),
                        || self.words.release(None, above, access),
                    );
                    token
                }
                Holding::Wide(entry) => {
                    let entries = self.gate.entries();
                    let entry = entries.shrink(entry_of(&all), access, entry, entry_of(&kept));
                    self.narrowed(&kept, access, entry)
                }
            }
        }
    }

    unsafe fn split(&self, span: Span, access: Access, token: Token, at: u64) -> (Token, Token) {
        let touched = self.segments.of(span);
        let at = at >> self.segments.size().trailing_zeros();
        // SAFETY: the caller holds the span by this token. `at` is the start of a segment that lies
        // strictly within it.
        unsafe {
            match Holding::of(token) {
                Holding::Words(_) => (token, self.words.token_of(&(at..touched.end))),
                Holding::Wide(entry) => {
                    let entries = self.gate.entries();
                    let (low, high) = entries.split(entry_of(&touched), access, entry, at);
                    self.gate.close();
                    let (below, above) = (touched.start..at, at..touched.end);
                    (
                        self.narrowed(&below, access, low),
                        self.narrowed(&above, access, high),
                    )
                }
            }
        }
    }
}

// SAFETY: each span is held as by `lock` or `try_lock`; or by a granted entry after a scan, as a
// wide range is (G-I3). A batch holds no words while it waits for its entries. While it scans a
// range, it holds words of lower ranges only.
unsafe impl<S: SegmentStore, P: Park> RawRangeLockBatch for Srl<S, P> {
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
        // SAFETY: the caller's promise: no two of them touch the same segment.
        in_range(unsafe { self.gate.entries().lock_batch(&entries, tokens) });
        for token in &mut tokens[first..] {
            *token = wide_token(*token);
        }
        let taken = TakenBatch {
            lock: self,
            batch,
            tokens,
            first,
        };
        self.gate.before_scan();
        for (&(span, access), token) in batch.iter().zip(&mut taken.tokens[first..]) {
            let touched = self.segments.of(span);
            self.words.scan(&touched, access);
            // SAFETY: the entry was granted, and its words have been seen free since: it is held.
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
        let taken = TakenBatch {
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

#[cfg(feature = "statistics")]
impl<S: SegmentStore, P: Park> spanlock_range_lock::RawRangeLockStatistics for Srl<S, P> {
    /// Returns the lock's statistics.
    ///
    /// A small request counts a wait at each segment at whose queue it waits, and one more if it
    /// waits at the gate. A wide request counts a wait for earlier entries, and one at each segment
    /// at whose queue it waits.
    fn statistics(&self) -> spanlock_range_lock::Statistics {
        let mut all = self.words.queue.counters().snapshot();
        all.waits += self.gate.entries().statistics().waits;
        all
    }
}

impl<S: SegmentStore, P: Park> Srl<S, P> {
    /// # Safety
    /// The caller holds the segments by words with `from`, which excludes more than `to`. If there
    /// are any segments, the first word is at `word`.
    unsafe fn downgrade_words(&self, word: usize, held: Range<u64>, from: Access, to: Access) {
        // SAFETY: the caller's promise.
        unsafe {
            self.words.for_held(Some(word), held, |piece| {
                piece.downgrade(from, to).wake(&self.words.queue);
            });
        }
    }

    /// # Safety
    /// The caller holds the segments by words, the first at `word`, with `from`, which is not
    /// `Write`.
    unsafe fn upgrade_words(&self, word: usize, touched: &Range<u64>, from: Access) -> bool {
        let mut upgraded = 0;
        let mut alone = true;
        let upgrade = |piece: Piece<'_, S::Word>| {
            for run in piece.runs() {
                // SAFETY: the caller's promise.
                alone = alone && unsafe { run.try_upgrade(from) };
                upgraded += if alone { u64::from(run.len()) } else { 0 };
            }
        };
        // SAFETY: the caller's promise.
        unsafe { (self.words).for_held(Some(word), touched.clone(), upgrade) };
        if alone && !self.gate.stops(touched, Access::Write) {
            return true;
        }
        let upgraded = touched.start..touched.start + upgraded;
        // SAFETY: these were upgraded just now.
        unsafe { self.downgrade_words(word, upgraded, Access::Write, from) };
        false
    }

    /// # Safety
    /// The caller holds the segments by `entry` with `from`, which is not `Write`.
    unsafe fn upgrade_wide(&self, touched: &Range<u64>, from: Access, entry: Token) -> bool {
        let (entries, span) = (self.gate.entries(), entry_of(touched));
        // SAFETY: the caller's promise.
        if unsafe { entries.try_upgrade(span, from, entry) }.is_err() {
            return false;
        }
        // Small readers may hold words while a wide reader has its entry.
        self.gate.before_scan();
        if self.words.is_free(touched, Access::Write) {
            return true;
        }
        // SAFETY: it was upgraded just now. The token of an entry changes only with its span.
        let _ = unsafe { entries.downgrade(span, Access::Write, from, entry) };
        false
    }

    /// Turns a wide hold into a small one, held by words, if it is small enough and its words are
    /// free.
    ///
    /// The hold then no longer keeps the gate closed. `token` is valid at any time, even if this
    /// panics.
    ///
    /// # Safety
    /// The caller holds the segments by `token` with `access`.
    unsafe fn narrow(&self, touched: &Range<u64>, access: Access, token: &mut Token) {
        let Holding::Wide(entry) = Holding::of(*token) else {
            return;
        };
        if self.is_wide(touched) {
            return;
        }
        // SAFETY: the caller's promise. The entry is given up once the words are taken instead.
        unsafe {
            if let Some(words) = self.words.take_under_entry(touched, access) {
                *token = words;
                self.gate.release(touched, access, entry);
            }
        }
    }

    /// Does what [`narrow`](Self::narrow) does; returns the token.
    ///
    /// # Safety
    /// The caller holds the segments by `entry` with `access`.
    unsafe fn narrowed(&self, touched: &Range<u64>, access: Access, entry: Token) -> Token {
        let mut token = wide_token(entry);
        // SAFETY: the caller's promise.
        unsafe { self.narrow(touched, access, &mut token) };
        token
    }
}

/// The ranges of a batch that are taken so far. If it is dropped before [`keep`](Self::keep), it
/// releases them.
///
/// So a batch is held as a whole or not at all, even if a waker panics.
struct TakenBatch<'a, S: SegmentStore, P: Park> {
    lock: &'a Srl<S, P>,
    batch: &'a [(Span, Access)],
    tokens: &'a mut Vec<Token>,
    /// The index of the batch's first token.
    first: usize,
}

impl<S: SegmentStore, P: Park> TakenBatch<'_, S, P> {
    /// Keeps the batch, of which every range has been taken.
    fn keep(self) {
        (self.lock.words.queue.counters()).acquisitions(self.batch.len());
        core::mem::forget(self);
    }
}

impl<S: SegmentStore, P: Park> Drop for TakenBatch<'_, S, P> {
    fn drop(&mut self) {
        let taken = self.tokens.drain(self.first..).zip(self.batch);
        for_each_surely(taken, |(token, &(span, access))| {
            // SAFETY: it was taken for the batch, with this access.
            unsafe { self.lock.unlock(span, access, token) };
        });
    }
}
