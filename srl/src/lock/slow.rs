//! The slow paths: requests that the fast path refused, and releases that need a lookup.

use core::ops::Range;

use spanlock_range_lock::words;
use spanlock_range_lock::{Access, NoMemory, RangeError, RawRangeLock, Span, Token, TryLockError};
use spanlock_sync::hint::Backoff;
use spanlock_sync::{Park, injected_bug};

use super::{Refusal, Srl};
use crate::gate::{entry_of, tried};
use crate::request::{Wanted, block};
use crate::segment_words::Advance;
use crate::store::{Lanes, SegmentStore};
use crate::token::{Holding, wide_token, words_token};

impl<S: SegmentStore, P: Park> Srl<S, P> {
    #[cold]
    #[inline(never)]
    pub(super) fn lock_slow<'s>(
        &'s self,
        span: Span,
        access: Access,
        refusal: Refusal<S::ReadGuard<'s>>,
    ) -> Result<Token, RangeError> {
        let mut spin = Backoff::new();
        let mut taken = self.arrive_if_untried(span, access, refusal);
        while matches!(taken, Err(Refusal::Busy)) && spin.round() {
            taken = self.arrive_at_one_word(span, access);
        }
        let refusal = match taken {
            Ok(token) => return Ok(token),
            Err(refusal) => refusal,
        };
        let wanted = self.wanted(self.segments.touched(span)?, access);
        let advance = if wanted.is_wide {
            Advance::Stopped
        } else {
            self.advance_from(refusal, &wanted.touched, access)
        };
        let taken = match advance {
            Advance::All(word) => return Ok(words_token(word)),
            advance => block(&self.words, &self.gate, &wanted, advance, spin),
        };
        taken.map_err(|error| error.at(span))
    }

    /// Tries again if the fast path tried nothing, perhaps because the queue has waiters.
    fn arrive_if_untried<'s>(
        &'s self,
        span: Span,
        access: Access,
        refusal: Refusal<S::ReadGuard<'s>>,
    ) -> Result<Token, Refusal<S::ReadGuard<'s>>> {
        match refusal {
            Refusal::Untried => self.arrive_at_one_word(span, access),
            refusal => Err(refusal),
        }
    }

    /// Takes all segments of a request for one word, or none. Unlike the fast path, it may pass
    /// waiters.
    fn arrive_at_one_word(
        &self,
        span: Span,
        access: Access,
    ) -> Result<Token, Refusal<S::ReadGuard<'_>>> {
        self.take_one_word_by(span, |run| {
            if run.arrive(access, run.len(), &self.words.queue) == run.len() {
                Ok(())
            } else {
                Err(words::Refusal::Busy)
            }
        })
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn try_take_slow<'s>(
        &'s self,
        span: Span,
        access: Access,
        refusal: Refusal<S::ReadGuard<'s>>,
    ) -> Result<Token, TryLockError> {
        let refusal = match self.arrive_if_untried(span, access, refusal) {
            Ok(token) => return Ok(token),
            Err(refusal) => refusal,
        };
        let touched = self.segments.touched(span)?;
        let taken = if self.is_wide(&touched) {
            self.try_lock_wide(&touched, access)
        } else {
            self.try_lock_small(refusal, &touched, access)
        };
        let taken = taken.map_err(|error| error.at(span))?;
        taken.ok_or(TryLockError::WouldBlock)
    }

    /// Returns `None` if the request would have to wait.
    fn try_lock_small(
        &self,
        refusal: Refusal<S::ReadGuard<'_>>,
        touched: &Range<u64>,
        access: Access,
    ) -> Result<Option<Token>, NoMemory> {
        match self.advance_from(refusal, touched, access) {
            Advance::All(word) => return Ok(Some(words_token(word))),
            Advance::Stopped if self.gate.is_in_doubt() => {
                return self.try_lock_in_doubt(touched, access);
            }
            Advance::Stopped => {}
            Advance::NoMemory => return Err(NoMemory),
            Advance::Taken(_)
                if injected_bug!(
                    "try-keeps",
                    "a failed try keeps the segments it has taken",
                    killed_by = "srl-array/try-leaves-no-trace, srl-tree/try-leaves-no-trace"
                ) => {}
            // SAFETY: `advance_from` took these segments, and they have passed the gate.
            Advance::Taken(taken) => unsafe {
                (self.words).give_up(touched.start..touched.start + taken, access);
            },
        }
        Ok(None)
    }

    /// Continues a small request that the fast path refused.
    fn advance_from(
        &self,
        refusal: Refusal<S::ReadGuard<'_>>,
        touched: &Range<u64>,
        access: Access,
    ) -> Advance {
        match refusal {
            Refusal::Untried => {
                let stops = || self.gate.stops(touched, access);
                self.words.advance(touched, 0, access, stops)
            }
            Refusal::Busy => Advance::Taken(0),
            Refusal::Closed(guard, word) => {
                if !self.gate.turns_back(touched, access) {
                    return Advance::All(word);
                }
                let none = touched.start..touched.start;
                // SAFETY: the word was taken under this guard, and is given up.
                let wakes = unsafe {
                    let piece = (self.words.store).held(Some(word), touched.start, touched.end);
                    self.words.back_off(none, Some(piece), access)
                };
                drop(guard);
                wakes.wake();
                Advance::Stopped
            }
        }
    }

    /// Returns `None` if the request would have to wait.
    fn try_lock_wide(
        &self,
        touched: &Range<u64>,
        access: Access,
    ) -> Result<Option<Token>, NoMemory> {
        let (entries, entry) = (self.gate.entries(), entry_of(touched));
        self.gate.close();
        let token = match tried(entries.try_lock(entry, access)) {
            Ok(Some(token)) => token,
            refused => {
                self.gate.open();
                return refused;
            }
        };
        self.gate.before_scan();
        if self.words.is_free(touched, access) {
            return Ok(Some(wide_token(token)));
        }
        // SAFETY: the entry was taken just now.
        unsafe { self.gate.release(touched, access, token) };
        Ok(None)
    }

    /// # Safety
    /// The span's segments share the word at this address. The caller holds the segments with
    /// `access`, and gives them up.
    #[inline(never)]
    pub(super) unsafe fn unlock_lanes(&self, span: Span, access: Access, word: usize) {
        let (first, last) = self.segments.ends(span);
        // SAFETY: the caller's promise. The word stays until its lanes are released.
        unsafe {
            let word = &*core::ptr::with_exposed_provenance::<S::Word>(word);
            let run = Lanes::within::<S::Word>(first, last).run(word);
            run.unlock(access, &self.words.queue);
        }
    }

    /// # Safety
    /// The caller holds the span by this token with `access`, and gives it up.
    #[inline(never)]
    pub(super) unsafe fn unlock_slow(&self, span: Span, access: Access, token: Token) {
        let touched = self.segments.of(span);
        // SAFETY: the caller's promise; S-I1, S-I4.
        unsafe {
            match Holding::of(token) {
                Holding::Words(word) => self.words.release(Some(word), touched, access),
                Holding::Wide(entry) => self.gate.release(&touched, access, entry),
            }
        }
    }

    pub(super) fn wanted(&self, touched: Range<u64>, access: Access) -> Wanted {
        Wanted {
            is_wide: self.is_wide(&touched),
            touched,
            access,
        }
    }
}
