//! The segment range lock: words for small requests, a gate for wide ones.
//!
//! # The problem
//! One lock a file makes writers of different pages wait for each other, and a tree of ranges under one mutex
//! makes even readers wait ([SRL] §II-B, §III-C). So cut the file into segments of equal size and give each a reader-writer state
//! of its own: a request touches the states of its segments and nothing else ([SRL] §IV). Where those lie is the
//! [`Space`]'s affair: all side by side ([`crate::Array`]), or in the leaves of a radix tree that grows ([`crate::Tree`]). What they look
//! like is the [`Word`]'s: one a word ([`spanlock_range_lock::RwWord`]), or sixteen ([`crate::PackedWord`]). How ranges of very many
//! segments are taken is the [gate](crate::gate)'s.
//!
//! # Properties
//! - **Granularity**: two requests conflict if they touch a common segment and one writes, even where
//!   their ranges do not overlap.
//! - **Cost**: while nobody competes, one read-modify-write a word to take. To give back, one a word for a reader, a plain store for a writer. No allocation after
//!   construction in the array, except for a waiter's place in the queue. A **wide** request, one of more segments than [`wide_above`](Srl::wide_above), costs a system
//!   call and a plain load a word instead.
//! - **Fairness**: each segment's queue is first come, first served, with at most [`MAX_PASSES`] arrivals going past a waiter
//!   that is next in line ([`spanlock_range_lock::words`]): the aging that [SRL] §IV-B leaves open. A request of *n*
//!   segments queues at up to *n* of them, one after the other. Wide requests are first come, first served among themselves and with the small ones that they hold up.
//! - **Waiting**: spins for about a microsecond, then sleeps.
//!
//! # Invariants
//! - **S-I1** A small hold of a span holds the states of all segments that it touches, with its access. Two spans that overlap touch a common
//!   segment, so by the words' exclusion conflicting holds exclude each other, and by their visibility the later
//!   sees what the earlier did. Of wide holds and small ones: G-I3.
//! - **S-I2** States are taken in ascending order, and a request waits for one at a time, holding only those before it. So
//!   whoever waits at segment *i* waits for holders of *i* or for waiters ahead in its queue, who hold only
//!   segments up to *i*, and wait, if at all, at *i* or after it: no circle.
//! - **S-I3** A failed try has given back what it took.
//! - **S-I4** A token is the address of the first segment's word, or a wide request's entry, and which of them it is, in the two lowest bits.
//!
//! It has no atomics of its own; orderings: [`spanlock_range_lock::words`], [`crate::gate`].
//!
//! # Not promised
//! A small request that waits holds its lower segments already, as in the paper: a try on those fails, though the
//! request is not granted yet. Two tries at the same time may both fail.
//!
//! # Models
//! In `verify/`, rows `srl-array/…`, `srl-packed/…`, `srl-tree/…`, and `srl-gate/…` of a lock for which three segments are wide.
//!
//! [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905
//! [`MAX_PASSES`]: spanlock_range_lock::words::MAX_PASSES

use alloc::vec::Vec;
use core::ops::Range;

use spanlock_range_lock::words::{self, Run, Wakes, Word};
use spanlock_range_lock::{Access, LockId, RangeError, RawRangeLock, Span, Token, TryLockError};
use spanlock_sync::wait::WaitQueue;
use spanlock_sync::{DefaultPark, Park, injected_bug};

use crate::gate::Gate;
use crate::segment::Segments;
use crate::space::{Lanes, Piece, Space};

/// A range lock with a reader-writer state for each segment: [`crate::SrlArray`], [`crate::SrlTree`], and their packed forms.
///
/// `S` is where the states lie, and `P` how waiters sleep.
#[derive(Debug)]
pub struct Srl<S, P = DefaultPark> {
    pub(crate) space: S,
    pub(crate) segments: Segments,
    pub(crate) gate: Gate<P>,
    pub(crate) queue: WaitQueue<P>,
    wide_above: u64,
    id: LockId,
}

/// How many words a small request has at most, unless said otherwise: for more of them a system call costs less.
const WIDE_ABOVE: u64 = 512;

impl<S: Space> Srl<S> {
    pub(crate) fn with_space(space: S) -> Self {
        // What `Word` demands: of `Lanes` and pieces, and of tokens (S-I4).
        const { assert!(S::Word::LANES.is_power_of_two() && align_of::<S::Word>() > KIND) };
        Srl {
            segments: space.segments(),
            space,
            gate: Gate::default(),
            queue: WaitQueue::default(),
            wide_above: WIDE_ABOVE * u64::from(S::Word::LANES),
            id: LockId::new(),
        }
    }
}

impl<S: Space, P: Park> Srl<S, P> {
    /// The same lock, whose waiters sleep by `Q`.
    pub fn with_parking<Q: Park>(self) -> Srl<S, Q> {
        Srl {
            space: self.space,
            segments: self.segments,
            gate: self.gate.with_parking(),
            queue: self.queue.with_parking(),
            wide_above: self.wide_above,
            id: self.id,
        }
    }

    /// The same lock, but a request is wide if it touches more than `segments` segments (at least 1; the default is as many as 512 words hold).
    ///
    /// A wide request costs a system call that interrupts the busy cores, and a load a word. A small one costs some nanoseconds a word.
    pub fn wide_above(mut self, segments: u64) -> Self {
        self.wide_above = segments.max(1);
        self
    }

    /// How positions map to segments.
    pub fn segments(&self) -> Segments {
        self.segments
    }

    #[inline]
    pub(crate) fn is_wide(&self, touched: &Range<u64>) -> bool {
        touched.end - touched.start > self.wide_above
    }

    /// Takes a small request's words after the first `taken`, as many as that is possible of at once, and asks after each piece whether the gate
    /// stops it. Nothing is held if so.
    #[inline]
    fn advance(
        &self,
        touched: &Range<u64>,
        taken: u64,
        access: Access,
        stops: impl Fn() -> bool,
    ) -> Advance {
        let section = self.space.enter();
        let (mut at, mut word) = (touched.start + taken, 0);
        while at < touched.end {
            let piece = self.space.find_or_make(&section, at, touched.end);
            let taken = piece.arrive(access, &self.queue);
            // Whether it has all or not: no section ends with words that have not passed the gate (G-I6).
            if taken > 0 && stops() {
                let taken = piece.up_to(taken);
                // SAFETY: they were taken just now, and those before had passed the gate.
                let wakes = unsafe { self.back_off(touched.start..at, taken, access) };
                drop(section);
                self.wake(wakes);
                return Advance::Stopped;
            }
            if at == touched.start {
                word = piece.address();
            }
            at += taken;
            if taken < piece.len() {
                return Advance::Taken(at - touched.start);
            }
        }
        Advance::All(word)
    }

    /// As [`advance`](Self::advance), past the gate.
    #[inline]
    pub(crate) fn advance_through_gate(
        &self,
        touched: &Range<u64>,
        taken: u64,
        access: Access,
    ) -> Advance {
        self.advance(touched, taken, access, || self.gate.stops(touched, access))
    }

    /// Calls `f` with the words of segments that are held, in ascending order; with all of them, even if it panics at some. `word` is the address of the
    /// first, if it is known.
    ///
    /// # Safety
    /// The segments are held, each until `f` is called for it.
    #[inline]
    pub(crate) unsafe fn for_held<'s>(
        &'s self,
        word: Option<usize>,
        held: Range<u64>,
        f: impl FnMut(Piece<'s, S::Word>),
    ) {
        let (mut word, mut at) = (word, held.start);
        let pieces = core::iter::from_fn(move || {
            if at == held.end {
                return None;
            }
            // SAFETY: the caller holds them; the address is known for the first piece only.
            let piece = unsafe { self.space.held(word.take(), at, held.end) };
            at += piece.len();
            Some(piece)
        });
        words::for_each_surely(pieces, f);
    }

    /// Gives back words, and wakes whom that lets in. `word` is the address of the first, if it is known.
    ///
    /// # Safety
    /// The segments are held by words with `access`, and given up.
    pub(crate) unsafe fn unlock_words(
        &self,
        word: Option<usize>,
        held: Range<u64>,
        access: Access,
    ) {
        // SAFETY: the caller's promise.
        unsafe {
            self.for_held(word, held, |piece| {
                if let Some(wakes) = piece.give_back(access) {
                    wakes.wake(&self.queue);
                }
            });
        }
    }

    /// The token of a small hold.
    ///
    /// # Safety
    /// The segments are held.
    pub(crate) unsafe fn token_of(&self, held: &Range<u64>) -> Token {
        // All of the first piece, so that the address leads to all of its words.
        // SAFETY: the caller's promise.
        let piece = unsafe { self.space.held(None, held.start, held.end) };
        words_token(piece.address())
    }

    /// Gives back what a request has taken. Whom to wake, after the section: that may run a user's code.
    ///
    /// # Safety
    /// The segments `passed` are held with `access` and have passed the gate, or the request has an entry. Those of `piece` are held with `access`; it was found in
    /// a section that lasts. All are given up.
    #[cold]
    pub(crate) unsafe fn back_off(
        &self,
        passed: Range<u64>,
        piece: Option<Piece<'_, S::Word>>,
        access: Access,
    ) -> Vec<Wakes<S::Word>> {
        let mut wakes = Vec::new();
        // SAFETY: the caller's promise.
        let mut give_back =
            |piece: Piece<'_, S::Word>| wakes.extend(unsafe { piece.give_back(access) });
        if let Some(piece) = piece {
            // Not looked up: it may be linked no longer (G-I6).
            give_back(piece);
        }
        // SAFETY: the caller's promise.
        unsafe { self.for_held(None, passed, give_back) };
        wakes
    }

    pub(crate) fn wake(&self, wakes: Vec<Wakes<S::Word>>) {
        words::for_each_surely(wakes.into_iter(), |wakes| wakes.wake(&self.queue));
    }

    /// Gives back what a request has taken, and wakes.
    ///
    /// # Safety
    /// The segments are held with `access`, and have passed the gate, or the request has an entry; they are given up.
    #[cold]
    pub(crate) unsafe fn give_up(&self, held: Range<u64>, access: Access) {
        // SAFETY: the caller's promise.
        let wakes = unsafe { self.back_off(held, None, access) };
        self.wake(wakes);
    }
}

/// What came of a small request at once.
pub(crate) enum Advance {
    /// It holds everything: the address of its first word, if it began there.
    All(usize),
    /// It holds that many segments, the first ones.
    Taken(u64),
    /// It met a wide request, and holds nothing.
    Stopped,
}

impl<S: Space, P: Park> Srl<S, P> {
    /// Whether nobody holds any of the segments in conflict.
    pub(crate) fn is_free(&self, touched: &Range<u64>, access: Access) -> bool {
        let section = self.space.enter();
        let is_free = |piece: Piece<'_, S::Word>| piece.is_free(access);
        let (first, end) = (touched.start, touched.end);
        injected_bug!(
            "gate-scan-skipped",
            "a wide request does not check whether small requests hold segments of its range",
            killed_by = "exclusion, exclusion-read-write, exclusion-write-read, batch"
        ) || self.space.first_taken(&section, first, end, is_free) == end
    }

    /// Takes the words of segments for which the caller has an entry, if that is possible at once.
    ///
    /// # Safety
    /// The caller has a granted entry for them with `access`: so they need not pass the gate.
    pub(crate) unsafe fn take_under_entry(
        &self,
        touched: &Range<u64>,
        access: Access,
    ) -> Option<Token> {
        match self.advance(touched, 0, access, || false) {
            Advance::All(word) => Some(words_token(word)),
            // SAFETY: it has taken them, and there is an entry.
            Advance::Taken(taken) => unsafe {
                self.give_up(touched.start..touched.start + taken, access);
                None
            },
            Advance::Stopped => None,
        }
    }

    fn try_lock_wide(&self, touched: &Range<u64>, access: Access) -> Option<Token> {
        let (entries, entry) = (self.gate.entries(), entry_of(touched));
        self.gate.close();
        if let Ok(token) = entries.try_lock(entry, access) {
            self.gate.before_scan();
            if self.is_free(touched, access) {
                return Some(wide_token(token));
            }
            // SAFETY: it was taken just now.
            unsafe { self.unlock_wide(touched, access, token) };
        } else {
            self.gate.open();
        }
        None
    }
}

/// What the entries of the gate know of a request: its segments.
pub(crate) fn entry_of(touched: &Range<u64>) -> Span {
    match Span::new(touched.clone()) {
        Ok(Some(span)) => span,
        _ => unreachable!("a span touches a segment"),
    }
}

/// What kind of token it is: S-I4. The address of a word ends in two zeros.
const KIND: usize = 0b11;
/// Of a small hold whose segments are in one word: that of the usual case, which looks at nothing else to release it.
const ONE_WORD: usize = 0b00;
/// Of a small hold.
const WORDS: usize = 0b10;
/// Of a wide hold, by one bit: the rest is its entry.
const WIDE: usize = 0b01;

/// The token of a small hold whose first word is at this address.
pub(crate) fn words_token(word: usize) -> Token {
    Token::new(word | WORDS)
}

/// The token of a wide hold.
pub(crate) fn wide_token(entry: Token) -> Token {
    Token::new(entry.into_word() << 1 | WIDE)
}

/// What a token stands for.
pub(crate) enum Holding {
    /// A small hold: the address of the first word.
    Words(usize),
    /// A wide one: its entry.
    Wide(Token),
}

impl Holding {
    #[inline]
    pub(crate) fn of(token: Token) -> Self {
        let word = token.into_word();
        if word & WIDE == 0 {
            Holding::Words(word & !KIND)
        } else {
            Holding::Wide(Token::new(word >> 1))
        }
    }
}

// SAFETY: 1, 2: S-I1. 3, 4: neither words nor entries know an owner, and both are found again from the token.
unsafe impl<S: Space, P: Park> RawRangeLock for Srl<S, P> {
    #[inline]
    fn capacity(&self) -> u64 {
        self.segments.capacity()
    }

    #[inline]
    fn granularity(&self) -> u64 {
        self.segments.size()
    }

    #[inline]
    fn id(&self) -> Option<&LockId> {
        Some(&self.id)
    }

    // Always: a call would hand its result over in memory, and that costs more than all of the usual case.
    #[inline(always)]
    fn lock(&self, span: Span, access: Access) -> Result<Token, RangeError> {
        let token = match self.take_at_once(span, access) {
            Ok(token) => token,
            Err(refusal) => self.lock_otherwise(span, access, refusal)?,
        };
        self.queue.counters().acquisitions(1);
        Ok(token)
    }

    #[inline]
    fn try_lock(&self, span: Span, access: Access) -> Result<Token, TryLockError> {
        let token = self.try_take(span, access)?;
        self.queue.counters().acquisitions(1);
        Ok(token)
    }

    #[inline(always)]
    unsafe fn unlock(&self, span: Span, access: Access, token: Token) {
        let word = token.into_word();
        // SAFETY: the caller holds the span with `access` by this token; S-I4.
        unsafe {
            if word & KIND != ONE_WORD {
                self.unlock_many(span, access, token);
            } else if S::Word::LANES == 1 || self.is_whole_word(span) {
                let word = &*core::ptr::with_exposed_provenance::<S::Word>(word);
                Run::new(word, 0, S::Word::LANES).unlock(access, &self.queue);
            } else {
                // More to do than is worth having wherever a hold ends.
                self.unlock_lanes(span, access, word);
            }
        }
    }
}

/// Why the segments of a request were not taken at once.
enum Refusal<S> {
    /// They are not of one word, or beyond the capacity, or somebody waits for some word: nothing was tried.
    Untried,
    /// The word is in the hands of others.
    Busy,
    /// The word at this address was taken in this section, but the gate is closed.
    Closed(S, usize),
}

/// The usual case: a request for one word, that nobody else wants. It is small enough to be inlined, and calls nothing but what ends it. What a
/// call could change would have to be saved before the read-modify-write, which then waits for those stores: that would cost more than all the rest.
impl<S: Space, P: Park> Srl<S, P> {
    #[inline(always)]
    fn take_at_once(&self, span: Span, access: Access) -> Result<Token, Refusal<S::Section<'_>>> {
        let (first, last) = self.segments.ends(span);
        let Some(lanes) = Lanes::of::<S::Word>(first, last) else {
            return Err(Refusal::Untried);
        };
        // A request for one segment is never wide.
        let wide = S::Word::LANES > 1 && last - first >= self.wide_above;
        if wide || span.end() > self.segments.capacity() {
            return Err(Refusal::Untried);
        }
        let section = self.space.enter();
        let word = self.space.word(&section, first);
        match lanes.run(word).take_at_once(access, &self.queue) {
            Ok(()) => {}
            Err(words::Refusal::Untried) => return Err(Refusal::Untried),
            Err(words::Refusal::Busy) => return Err(Refusal::Busy),
        }
        let word = core::ptr::from_ref(word).expose_provenance();
        if self.gate.is_closed() {
            return Err(Refusal::Closed(section, word));
        }
        Ok(Token::new(word | ONE_WORD))
    }

    /// Takes the segments at once, if nothing stands in the way.
    #[inline]
    pub(crate) fn try_take(&self, span: Span, access: Access) -> Result<Token, TryLockError> {
        match self.take_at_once(span, access) {
            Ok(token) => Ok(token),
            Err(refusal) => self.try_take_otherwise(span, access, refusal),
        }
    }
}

/// All other cases.
impl<S: Space, P: Park> Srl<S, P> {
    #[cold]
    #[inline(never)]
    fn lock_otherwise(
        &self,
        span: Span,
        access: Access,
        refusal: Refusal<S::Section<'_>>,
    ) -> Result<Token, RangeError> {
        let touched = self.segments.touched(span)?;
        if self.is_wide(&touched) {
            return Ok(self.lock_slow(touched, access, Advance::Stopped));
        }
        Ok(match self.advance_from(refusal, &touched, access) {
            Advance::All(word) => words_token(word),
            advance => self.lock_slow(touched, access, advance),
        })
    }

    #[cold]
    #[inline(never)]
    fn try_take_otherwise(
        &self,
        span: Span,
        access: Access,
        refusal: Refusal<S::Section<'_>>,
    ) -> Result<Token, TryLockError> {
        let touched = self.segments.touched(span)?;
        if self.is_wide(&touched) {
            let token = self.try_lock_wide(&touched, access);
            return token.ok_or(TryLockError::WouldBlock);
        }
        match self.advance_from(refusal, &touched, access) {
            Advance::All(word) => return Ok(words_token(word)),
            Advance::Stopped => {}
            Advance::Taken(_)
                if injected_bug!(
                    "try-keeps",
                    "a failed try keeps the segments it has taken",
                    killed_by = "srl-array/try-leaves-no-trace, srl-tree/try-leaves-no-trace"
                ) => {}
            // SAFETY: it has taken them, and they have passed the gate.
            Advance::Taken(taken) => unsafe {
                self.give_up(touched.start..touched.start + taken, access);
            },
        }
        Err(TryLockError::WouldBlock)
    }

    /// How far a small request gets that was refused.
    fn advance_from(
        &self,
        refusal: Refusal<S::Section<'_>>,
        touched: &Range<u64>,
        access: Access,
    ) -> Advance {
        match refusal {
            Refusal::Untried => self.advance_through_gate(touched, 0, access),
            Refusal::Busy => Advance::Taken(0),
            Refusal::Closed(section, word) => {
                if !self.gate.would_block(touched, access) {
                    return Advance::All(word);
                }
                let none = touched.start..touched.start;
                // SAFETY: it was taken in this section, and is given up.
                let wakes = unsafe {
                    let piece = self.space.held(Some(word), touched.start, touched.end);
                    self.back_off(none, Some(piece), access)
                };
                drop(section);
                self.wake(wakes);
                Advance::Stopped
            }
        }
    }

    /// Whether a span that is held by one word takes all of its lanes.
    #[inline]
    fn is_whole_word(&self, span: Span) -> bool {
        let (first, last) = self.segments.ends(span);
        last - first == u64::from(S::Word::LANES - 1)
    }

    /// # Safety
    /// The span's segments are in the word at this address, held with `access`, and given up.
    #[inline(never)]
    unsafe fn unlock_lanes(&self, span: Span, access: Access, word: usize) {
        let (first, last) = self.segments.ends(span);
        // SAFETY: the caller's promise: the word stays until its lanes are given back.
        unsafe {
            let word = &*core::ptr::with_exposed_provenance::<S::Word>(word);
            let run = Lanes::within::<S::Word>(first, last).run(word);
            run.unlock(access, &self.queue);
        }
    }

    /// # Safety
    /// The span is held by this token with `access`, and given up.
    #[inline(never)]
    unsafe fn unlock_many(&self, span: Span, access: Access, token: Token) {
        let touched = self.segments.of(span);
        // SAFETY: the caller's promise: S-I1, S-I4.
        unsafe {
            match Holding::of(token) {
                Holding::Words(word) => self.unlock_words(Some(word), touched, access),
                Holding::Wide(entry) => self.unlock_wide(&touched, access, entry),
            }
        }
    }

    /// # Safety
    /// The segments are held by `entry` with `access`, and given up.
    pub(crate) unsafe fn unlock_wide(&self, touched: &Range<u64>, access: Access, entry: Token) {
        // Before the entry goes: that wakes others, whose wakers may panic.
        self.gate.open();
        // SAFETY: the caller's promise.
        unsafe { self.gate.entries().unlock(entry_of(touched), access, entry) };
    }
}
