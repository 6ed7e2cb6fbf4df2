//! The capabilities of a segment lock: downgrade, upgrade, shrink, split, and batches.
//!
//! # Batches
//! A **batch** is a request for several ranges. It usually meets no conflict, so it first tries its
//! ranges one by one. If a try fails, the batch releases the ranges taken so far, and goes through
//! the [gate](crate::gate) as a whole:
//!
//! 1. It requests an entry of the gate for each of its ranges, all in one step, and waits until all
//!    are granted. So no two batches wait for each other in a cycle. A batch holds no words while
//!    it waits, so a batch and a single request do not wait for each other in a cycle either
//!    (G-I4).
//! 2. It scans the words of its ranges in ascending order. After scanning a range, and before
//!    scanning the next, it may take the words of the scanned range and release that range's entry.
//!
//! [`crate::batch`] takes the same steps for a batch that waits without a thread.

use alloc::vec::Vec;
use core::ops::Range;

use spanlock_range_lock::words::for_each_surely;
use spanlock_range_lock::{
    Access, NoMemory, RangeError, RawRangeLockBatch, RawRangeLockDowngrade, RawRangeLockSplit,
    RawRangeLockUpgrade, Span, Token, TryLockError,
};
use spanlock_sync::unwind::and_surely;
use spanlock_sync::{Park, injected_bug};

use crate::gate::{Gate, entry_of, in_range};
use crate::lock::{Refusal, Srl};
use crate::store::{Piece, SegmentStore};
use crate::token::{Changing, Holding, wide_token};

// SAFETY: each segment's state changes from one access to the other in one step (S-I1). So does an
// entry.
unsafe impl<S: SegmentStore, P: Park> RawRangeLockDowngrade for Srl<S, P> {
    unsafe fn downgrade(&self, span: Span, from: Access, to: Access, token: &mut Token) {
        let touched = self.segments.of(span);
        // SAFETY: the caller holds the span with `from` by this token, and `to` excludes less.
        unsafe {
            match Holding::of(*token) {
                Holding::Words(word) => self.downgrade_words(word, touched, from, to),
                Holding::Wide(entry) => {
                    let (entries, span) = (self.gate.entries(), entry_of(&touched));
                    let mut changing = Changing { token, entry };
                    entries.downgrade(span, from, to, &mut changing.entry);
                }
            }
        }
    }
}

// SAFETY: each segment's state changes from one access to the other in one step. If one cannot
// change, the others change back (S-I1). Then the upgrade asks the gate or scans the words, as a
// new request does, so it overlooks no conflicting hold (G-I2).
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

// SAFETY: the kept part stays held throughout. Its words or its entry stay as they are, or the
// words are taken before the entry is released.
unsafe impl<S: SegmentStore, P: Park> RawRangeLockSplit for Srl<S, P> {
    unsafe fn shrink(&self, span: Span, access: Access, token: &mut Token, keep: Span) {
        let (all, kept) = (self.segments.of(span), self.segments.of(keep));
        // SAFETY: the caller holds the span by this token, and gives up the segments that `keep`
        // does not touch.
        unsafe {
            match Holding::of(*token) {
                Holding::Words(_) => {
                    // Stored before the releases, whose wakers may panic. In a tree, this reads
                    // only nodes on the path to kept words, which stay (ST-I3).
                    let new = self.words.token_of(&kept);
                    let stores_late = injected_bug!(
                        "token-stored-late",
                        "a shrink stores the new token only after it has woken waiters",
                        killed_by = "srl-array/shrink-unwinds, srl-tree/shrink-unwinds"
                    );
                    if !stores_late {
                        *token = new;
                    }
                    let (below, above) = (all.start..kept.start, kept.end..all.end);
                    let mut unblocked = self.words.unblocked();
                    for given_up in [below, above] {
                        let release = |piece: Piece<'_, S::Word>| {
                            unblocked.add(piece.release(access));
                        };
                        self.words.for_held(None, given_up, release);
                    }
                    unblocked.wake();
                    if stores_late {
                        *token = new;
                    }
                }
                Holding::Wide(entry) => {
                    let (entries, span) = (self.gate.entries(), entry_of(&all));
                    let mut changing = Changing { token, entry };
                    entries.shrink(span, access, &mut changing.entry, entry_of(&kept));
                    drop(changing);
                    self.narrow(&kept, access, token);
                }
            }
        }
    }

    unsafe fn split(
        &self,
        span: Span,
        access: Access,
        token: &mut Token,
        at: u64,
        above: &mut Token,
    ) -> Result<(), NoMemory> {
        let touched = self.segments.of(span);
        let at = at >> self.segments.size().trailing_zeros();
        // SAFETY: the caller holds the span by this token. Segment `at` is a segment of the span,
        // but not the first.
        unsafe {
            match Holding::of(*token) {
                Holding::Words(_) => *above = self.words.token_of(&(at..touched.end)),
                Holding::Wide(entry) => {
                    let (entries, span) = (self.gate.entries(), entry_of(&touched));
                    let (mut low, mut high) = (entry, Token::NONE);
                    // Both tokens are stored before a part becomes narrow, which runs wakers.
                    entries.split(span, access, &mut low, at, &mut high)?;
                    (*token, *above) = (wide_token(low), wide_token(high));
                    self.gate.close();
                    self.narrow(&(touched.start..at), access, token);
                    self.narrow(&(at..touched.end), access, above);
                }
            }
        }
        Ok(())
    }
}

// SAFETY: each span is held as after `lock` or `try_lock`, or like a wide range: by a granted entry
// after a scan (G-I3). A batch holds no words while it waits for its entries. While it scans a
// range, it holds words of lower ranges only.
unsafe impl<S: SegmentStore, P: Park> RawRangeLockBatch for Srl<S, P> {
    unsafe fn lock_batch(
        &self,
        batch: &[(Span, Access)],
        tokens: &mut [Token],
    ) -> Result<(), RangeError> {
        // SAFETY: the caller's promise.
        match unsafe { self.try_lock_batch(batch, tokens) } {
            Ok(()) => return Ok(()),
            Err(TryLockError::Range(error)) => return Err(error),
            Err(_) => {}
        }
        let entry = |&(span, access): &(Span, Access)| (entry_of(&self.segments.of(span)), access);
        let no_memory = || NoMemory.in_batch(batch);
        let mut entries = Vec::new();
        let memory = entries.try_reserve_exact(batch.len());
        memory.map_err(|_| no_memory())?;
        entries.extend(batch.iter().map(entry));
        let closed = Closed::new(&self.gate, batch.len());
        // SAFETY: the caller's promise: no two spans touch the same segment.
        let granted = unsafe { self.gate.entries().lock_batch(&entries, tokens) };
        in_range(granted).map_err(|NoMemory| no_memory())?;
        // From here on, each entry keeps the gate closed once.
        core::mem::forget(closed);
        for token in &mut *tokens {
            *token = wide_token(*token);
        }
        let taken = TakenBatch {
            lock: self,
            batch,
            tokens,
            taken: batch.len(),
        };
        self.gate.before_scan();
        for (&(span, access), token) in batch.iter().zip(&mut *taken.tokens) {
            let touched = self.segments.of(span);
            self.words.scan(&touched, access);
            // SAFETY: the range is held: its entry was granted, and the scan then saw its words
            // free.
            unsafe { self.narrow(&touched, access, token) };
        }
        taken.keep();
        Ok(())
    }

    unsafe fn try_lock_batch(
        &self,
        batch: &[(Span, Access)],
        tokens: &mut [Token],
    ) -> Result<(), TryLockError> {
        if let Some(&(last, _)) = batch.last() {
            self.segments.touched(last)?;
        }
        // Nothing here can panic, so the ranges taken need no guard yet. To count them in it would
        // delay each read-modify-write by a store.
        for (at, &(span, access)) in batch.iter().enumerate() {
            match self.take_one_word(span, access) {
                // There are as many tokens as spans.
                Ok(token) => tokens[at] = token,
                Err(refusal) => return self.try_lock_from(at, refusal, batch, tokens),
            }
        }
        self.words.queue.counters().acquisitions(batch.len());
        Ok(())
    }
}

#[cfg(feature = "statistics")]
impl<S: SegmentStore, P: Park> spanlock_range_lock::RawRangeLockStatistics for Srl<S, P> {
    /// Returns the lock's statistics.
    ///
    /// A request counts one wait for each segment in whose queue it waits, and one more if it waits
    /// for an entry of the gate.
    fn statistics(&self) -> spanlock_range_lock::Statistics {
        let mut all = self.words.queue.counters().snapshot();
        all.waits += self.gate.entries().statistics().waits;
        all
    }
}

impl<S: SegmentStore, P: Park> Srl<S, P> {
    /// # Safety
    /// The caller holds the segments by their words with `from`, which excludes more than `to`. If
    /// there are any segments, `word` is the address of the first word.
    unsafe fn downgrade_words(&self, word: usize, held: Range<u64>, from: Access, to: Access) {
        let mut unblocked = self.words.unblocked();
        let downgrade = |piece: Piece<'_, S::Word>| {
            // SAFETY: the caller's promise.
            unblocked.add(Some(unsafe { piece.downgrade(from, to) }));
        };
        // SAFETY: the caller's promise.
        unsafe { self.words.for_held(Some(word), held, downgrade) };
        unblocked.wake();
    }

    /// # Safety
    /// The caller holds the segments by their words with `from`, which is not `Write`. `word` is
    /// the address of the first word.
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
        let conflicts = || self.gate.is_closed() && self.gate.would_block(touched, Access::Write);
        if alone && !conflicts() {
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
        let mut same = entry;
        // SAFETY: the entry was upgraded just now. The token stays the same, because the span does.
        unsafe { entries.downgrade(span, Access::Write, from, &mut same) };
        false
    }

    /// Turns a wide hold into a hold of its words, if it is small enough and the words are free.
    ///
    /// The hold then no longer keeps the gate closed. `token` is valid throughout, even if this
    /// panics.
    ///
    /// # Safety
    /// The caller holds the segments by `token` with `access`.
    pub(crate) unsafe fn narrow(&self, touched: &Range<u64>, access: Access, token: &mut Token) {
        let Holding::Wide(entry) = Holding::of(*token) else {
            return;
        };
        if self.is_wide(touched) {
            return;
        }
        // SAFETY: the caller's promise. The entry is given up once the words are taken instead.
        unsafe {
            // Without memory for a word, the hold keeps its entry.
            if let Ok(Some(words)) = self.words.take_under_entry(touched, access) {
                *token = words;
                self.gate.release(touched, access, entry);
            }
        }
    }

    /// Continues a try of which the fast path has taken the ranges before `at`, but not that one.
    #[cold]
    fn try_lock_from<'s>(
        &'s self,
        at: usize,
        refusal: Refusal<S::ReadGuard<'s>>,
        batch: &[(Span, Access)],
        tokens: &mut [Token],
    ) -> Result<(), TryLockError> {
        let mut taken = TakenBatch {
            lock: self,
            batch,
            tokens,
            taken: at,
        };
        let mut refusal = Some(refusal);
        for (at, &(span, access)) in batch.iter().enumerate().skip(at) {
            let range = match refusal.take() {
                Some(refusal) => self.try_take_slow(span, access, refusal),
                None => self.try_take(span, access),
            };
            match range {
                Ok(token) => taken.add(at, token),
                Err(TryLockError::Range(_)) => return Err(NoMemory.in_batch(batch).into()),
                Err(error) => return Err(error),
            }
        }
        taken.keep();
        Ok(())
    }
}

/// The gate, closed for a batch that has no entries yet. Dropping it opens the gate, in case
/// foreign code panics while the entries are awaited.
struct Closed<'a, P: Park> {
    gate: &'a Gate<P>,
    times: usize,
}

impl<'a, P: Park> Closed<'a, P> {
    fn new(gate: &'a Gate<P>, times: usize) -> Self {
        (0..times).for_each(|_| gate.close());
        Closed { gate, times }
    }
}

impl<P: Park> Drop for Closed<'_, P> {
    #[cold]
    fn drop(&mut self) {
        (0..self.times).for_each(|_| self.gate.open());
    }
}

/// The ranges of a batch that have been taken so far. Dropping it releases them.
///
/// So a batch is held as a whole or not at all, even if a waker panics. [`keep`](Self::keep) keeps
/// the ranges once all have been taken.
pub(crate) struct TakenBatch<'a, S: SegmentStore, P: Park> {
    pub(crate) lock: &'a Srl<S, P>,
    pub(crate) batch: &'a [(Span, Access)],
    pub(crate) tokens: &'a mut [Token],
    /// How many ranges have been taken.
    pub(crate) taken: usize,
}

impl<S: SegmentStore, P: Park> TakenBatch<'_, S, P> {
    /// Adds the range at this index.
    fn add(&mut self, at: usize, token: Token) {
        self.tokens[at] = token;
        self.taken = at + 1;
    }

    /// Keeps the ranges and counts their acquisitions. Every range must have been taken.
    fn keep(self) {
        (self.lock.words.queue.counters()).acquisitions(self.batch.len());
        core::mem::forget(self);
    }
}

impl<S: SegmentStore, P: Park> Drop for TakenBatch<'_, S, P> {
    fn drop(&mut self) {
        let Srl { words, gate, .. } = self.lock;
        let segments = self.lock.segments;
        let taken = |(&token, &(span, access)): (&Token, &(Span, Access))| {
            (Holding::of(token), segments.of(span), access)
        };
        // A waker may block until it gets one of the ranges, so all words are released first.
        let mut unblocked = words.unblocked();
        let tokens = &self.tokens[..self.taken];
        for part in tokens.iter().zip(self.batch) {
            if let (Holding::Words(word), touched, access) = taken(part) {
                let release = |piece: Piece<'_, S::Word>| {
                    // SAFETY: the range was taken for the batch, with this access.
                    unblocked.add(unsafe { piece.release(access) });
                };
                // SAFETY: as above.
                unsafe { words.for_held(Some(word), touched, release) };
            }
        }
        let open = || {
            for_each_surely(tokens.iter().zip(self.batch), |part| {
                if let (Holding::Wide(entry), touched, access) = taken(part) {
                    // SAFETY: as above.
                    unsafe { gate.release(&touched, access, entry) };
                }
            });
        };
        and_surely(open, || unblocked.wake());
    }
}
