//! What a segment lock can do with a hold beyond giving it back.

use core::ops::Range;

use spanlock_range_lock::{
    Access, RawRangeLockDowngrade, RawRangeLockSplit, RawRangeLockUpgrade, Span, Token,
};
use spanlock_sync::Park;

use crate::lock::{Holding, Srl, entry_of, wide_token};
use crate::space::{Piece, Space};
use crate::surely::and_surely;

// SAFETY: each state goes from one hold to the other in one step (S-I1), and so does an entry.
unsafe impl<S: Space, P: Park> RawRangeLockDowngrade for Srl<S, P> {
    unsafe fn downgrade(&self, span: Span, from: Access, to: Access, token: Token) -> Token {
        let touched = self.segments.of(span);
        // SAFETY: the caller holds the span with `from` by this token, and `to` excludes less.
        unsafe {
            match Holding::of(token) {
                Holding::Words(word) => {
                    self.weaken(word, touched, from, to);
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

// SAFETY: each state goes from one hold to the other in one step, or all go back to the first (S-I1). Then the gate, or the scan, as
// for a new request: no conflicting hold is overlooked (G-I2).
unsafe impl<S: Space, P: Park> RawRangeLockUpgrade for Srl<S, P> {
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

impl<S: Space, P: Park> Srl<S, P> {
    /// # Safety
    /// The segments, if there are any, are held by words, the first at `word`, with `from`, which excludes more than `to`.
    unsafe fn weaken(&self, word: usize, held: Range<u64>, from: Access, to: Access) {
        // SAFETY: the caller's promise.
        unsafe {
            self.for_held(Some(word), held, |piece| {
                piece.weaken(from, to).wake(&self.queue);
            });
        }
    }

    /// # Safety
    /// The segments are held by words, the first at `word`, with `from`, which is not `Write`.
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
        unsafe { self.for_held(Some(word), touched.clone(), upgrade) };
        if alone && !self.gate.stops(touched, Access::Write) {
            return true;
        }
        let upgraded = touched.start..touched.start + upgraded;
        // SAFETY: they were upgraded just now.
        unsafe { self.weaken(word, upgraded, Access::Write, from) };
        false
    }

    /// # Safety
    /// The segments are held by `entry` with `from`, which is not `Write`.
    unsafe fn upgrade_wide(&self, touched: &Range<u64>, from: Access, entry: Token) -> bool {
        let (entries, span) = (self.gate.entries(), entry_of(touched));
        // SAFETY: the caller's promise.
        if unsafe { entries.try_upgrade(span, from, entry) }.is_err() {
            return false;
        }
        // Small readers may hold words beside a wide one.
        self.gate.before_scan();
        if self.is_free(touched, Access::Write) {
            return true;
        }
        // SAFETY: it was upgraded just now. The token of an entry changes with its span only.
        let _ = unsafe { entries.downgrade(span, Access::Write, from, entry) };
        false
    }

    /// Turns a wide hold into one by words, if it is of few segments and nobody is at their words: so the gate is not kept closed for
    /// it. `token` is the hold's at any time, also if this panics.
    ///
    /// # Safety
    /// The segments are held by `token` with `access`.
    pub(crate) unsafe fn narrow(&self, touched: &Range<u64>, access: Access, token: &mut Token) {
        let Holding::Wide(entry) = Holding::of(*token) else {
            return;
        };
        if self.is_wide(touched) {
            return;
        }
        // SAFETY: the caller's promise; the entry is given up when the words are taken instead.
        unsafe {
            if let Some(words) = self.take_under_entry(touched, access) {
                *token = words;
                self.unlock_wide(touched, access, entry);
            }
        }
    }

    /// As [`narrow`](Self::narrow).
    ///
    /// # Safety
    /// The segments are held by `entry` with `access`.
    unsafe fn narrowed(&self, touched: &Range<u64>, access: Access, entry: Token) -> Token {
        let mut token = wide_token(entry);
        // SAFETY: the caller's promise.
        unsafe { self.narrow(touched, access, &mut token) };
        token
    }
}

// SAFETY: the states and the part of an entry that are kept are not touched, or are taken anew before they are given up.
unsafe impl<S: Space, P: Park> RawRangeLockSplit for Srl<S, P> {
    unsafe fn shrink(&self, span: Span, access: Access, token: Token, keep: Span) -> Token {
        let (all, kept) = (self.segments.of(span), self.segments.of(keep));
        // SAFETY: the caller holds the span by this token, and gives up what no part of `keep` touches.
        unsafe {
            match Holding::of(token) {
                Holding::Words(_) => {
                    // The kept ones keep their memory in place; those of the others may go when they are free.
                    let token = self.token_of(&kept);
                    let (below, above) = (all.start..kept.start, kept.end..all.end);
                    and_surely(
                        || self.unlock_words(None, below, access),
                        || self.unlock_words(None, above, access),
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
        // SAFETY: the caller holds the span by this token, and `at` is a segment's start strictly within it.
        unsafe {
            match Holding::of(token) {
                Holding::Words(_) => (token, self.token_of(&(at..touched.end))),
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

#[cfg(feature = "statistics")]
impl<S: Space, P: Park> spanlock_range_lock::RawRangeLockStatistics for Srl<S, P> {
    /// A small request waits at each segment that it finds taken, and once more if a wide one stops it; a wide one for wide ones before it, and
    /// at each segment that a small one holds.
    fn statistics(&self) -> spanlock_range_lock::Statistics {
        let mut all = self.queue.counters().snapshot();
        all.waits += self.gate.entries().statistics().waits;
        all
    }
}
