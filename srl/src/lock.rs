//! The segment range lock: words for small requests, a gate for wide ones.
//!
//! # The problem
//! One lock a file makes writers of different pages wait for each other, and a tree of ranges under one mutex
//! makes even readers wait ([SRL] §II-B, §III-C). So cut the file into segments of equal size and give each a reader-writer state
//! of its own: a request touches the states of its segments and nothing else ([SRL] §IV). Where those lie is the
//! [`Space`]'s affair: all side by side ([`crate::Array`]), or in the leaves of a radix tree that grows ([`crate::Tree`]). What they look
//! like is the [`Word`]'s: one a word ([`spanlock::RwWord`]), or sixteen ([`crate::PackedWord`]). How ranges of very many
//! segments are taken is the [gate](crate::gate)'s.
//!
//! # Properties
//! - **Granularity**: two requests conflict if they touch a common segment and one writes, even where
//!   their ranges do not overlap.
//! - **Cost**: while nobody competes, one read-modify-write a word to take. To give back, one a word for a reader, a plain store for a writer. No allocation after
//!   construction in the array, except for a waiter's place in the queue. A **wide** request, one of more segments than [`wide_above`](Srl::wide_above), costs a system
//!   call and a plain load a word instead.
//! - **Fairness**: each segment's queue is first come, first served, with at most [`MAX_PASSES`] arrivals going past a waiter
//!   that is next in line ([`spanlock::words`]): the aging that [SRL] §IV-B leaves open. A request of *n*
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
//! - **S-I4** A token is the address of the first segment's word (even), or a wide request's entry (odd).
//!
//! It has no atomics of its own; orderings: [`spanlock::words`], [`crate::gate`].
//!
//! # Not promised
//! A small request that waits holds its lower segments already, as in the paper: a try on those fails, though the
//! request is not granted yet. Two tries at the same time may both fail.
//!
//! # Models
//! In `verify/`, rows `srl-array/…`, `srl-packed/…`, `srl-tree/…`, and `srl-gate/…` of a lock for which three segments are wide.
//!
//! [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905
//! [`MAX_PASSES`]: spanlock::words::MAX_PASSES

use alloc::vec::Vec;
use core::ops::Range;
use core::task::{Poll, Waker, ready};

use spanlock::words::{self, Progress, Run, Wakes, Word};
use spanlock::{
    Access, LockId, RangeError, RawRangeLock, RawRangeLockWait, Span, Token, TryLockError,
};
use spanlock_interval::IntervalRequest;
use spanlock_sync::hint::Backoff;
use spanlock_sync::wait::WaitQueue;
use spanlock_sync::{DefaultPark, Park};

use crate::gate::Gate;
use crate::segment::Segments;
use crate::space::{Piece, Space, words_of};

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
    fn advance_through_gate(&self, touched: &Range<u64>, taken: u64, access: Access) -> Advance {
        self.advance(touched, taken, access, || self.gate.stops(touched, access))
    }

    /// Calls `f` with the words of segments that are held, in ascending order; with all of them, even if it panics at one. `word` is the address of the
    /// first, if it is known.
    ///
    /// # Safety
    /// The segments are held, each until `f` is called for it.
    #[inline]
    pub(crate) unsafe fn for_held<'s>(
        &'s self,
        word: Option<usize>,
        held: Range<u64>,
        f: impl FnMut(Run<'s, S::Word>),
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
        words::for_each_surely(pieces.flat_map(Piece::runs), f);
    }

    /// The token of a small hold that begins with `segment`.
    ///
    /// # Safety
    /// The segment is held.
    pub(crate) unsafe fn token_of(&self, segment: u64) -> Token {
        // SAFETY: the caller's promise.
        let piece = unsafe { self.space.held(None, segment, segment + 1) };
        Token::new(piece.address())
    }

    /// Gives back what a request has taken. Whom to wake, after the section: that may run a user's code.
    ///
    /// # Safety
    /// The segments `passed` are held with `access` and have passed the gate, or the request has an entry. Those of `piece` are held with `access`; it was found in
    /// a section that lasts. All are given up.
    #[cold]
    unsafe fn back_off(
        &self,
        passed: Range<u64>,
        piece: Option<Piece<'_, S::Word>>,
        access: Access,
    ) -> Vec<Wakes> {
        let mut wakes: Vec<Wakes> = Vec::new();
        // SAFETY: the caller's promise.
        let mut give_back = |run: Run<'_, S::Word>| wakes.extend(unsafe { run.give_back(access) });
        if let Some(piece) = piece {
            // Not looked up: it may be linked no longer (G-I6).
            piece.runs().for_each(&mut give_back);
        }
        // SAFETY: the caller's promise.
        unsafe { self.for_held(None, passed, give_back) };
        wakes
    }

    fn wake(&self, wakes: Vec<Wakes>) {
        words::for_each_surely(wakes.into_iter(), |wakes| wakes.wake(&self.queue));
    }

    /// Gives back what a request has taken, and wakes.
    ///
    /// # Safety
    /// The segments are held with `access`, and have passed the gate, or the request has an entry; they are given up.
    #[cold]
    unsafe fn give_up(&self, held: Range<u64>, access: Access) {
        // SAFETY: the caller's promise.
        let wakes = unsafe { self.back_off(held, None, access) };
        self.wake(wakes);
    }
}

/// What came of a small request at once.
enum Advance {
    /// It holds everything: the address of its first word, if it began there.
    All(usize),
    /// It holds that many segments, the first ones.
    Taken(u64),
    /// It met a wide request, and holds nothing.
    Stopped,
}

/// A request for a range that is on its way.
#[derive(Debug, Default)]
pub struct SrlRequest {
    stage: Stage,
    progress: Progress,
}

#[derive(Debug, Default)]
enum Stage {
    /// A request that has not begun, or a small one that takes its words.
    #[default]
    Words,
    /// A small one that has backed off, and waits for its entry.
    Behind(IntervalRequest),
    /// A small one that has its entry, and takes its words.
    Through(Token),
    /// A wide one that waits for its entry.
    Wide(IntervalRequest),
    /// A wide one that has its entry, and scans the words.
    Scan(Token),
}

impl<S: Space, P: Park> Srl<S, P> {
    /// Goes on with a request: one implementation for threads and futures.
    ///
    /// # Safety
    /// As [`RawRangeLockWait::poll_lock`].
    unsafe fn poll(
        &self,
        touched: &Range<u64>,
        access: Access,
        request: &mut SrlRequest,
        waker: &Waker,
    ) -> Poll<Token> {
        let (entries, entry) = (self.gate.entries(), entry_of(touched));
        let SrlRequest { stage, progress } = request;
        loop {
            *stage = match stage {
                Stage::Words if self.is_wide(touched) => {
                    self.gate.close();
                    Stage::Wide(IntervalRequest::default())
                }
                Stage::Words => {
                    let stops = || self.gate.stops(touched, access);
                    let taken = self.poll_take(touched, access, progress, waker, stops);
                    if let Some(token) = ready!(taken) {
                        return Poll::Ready(token);
                    }
                    Stage::Behind(IntervalRequest::default())
                }
                Stage::Behind(behind) => {
                    // SAFETY: the request's entry is for this span and access alone.
                    let granted = unsafe { entries.poll_lock(entry, access, behind, waker) };
                    Stage::Through(in_range(ready!(granted)))
                }
                Stage::Through(token) => {
                    let token = *token;
                    // It need not ask the gate.
                    let taken = self.poll_take(touched, access, progress, waker, || false);
                    let Some(taken) = ready!(taken) else {
                        unreachable!("stopped by nobody");
                    };
                    // SAFETY: the entry was granted, and is given up: the words are taken.
                    unsafe { entries.unlock(entry, access, token) };
                    *request = SrlRequest::default();
                    return Poll::Ready(taken);
                }
                Stage::Wide(wide) => {
                    // SAFETY: the request's entry is for this span and access alone.
                    let granted = unsafe { entries.poll_lock(entry, access, wide, waker) };
                    let token = in_range(ready!(granted));
                    self.gate.before_scan();
                    Stage::Scan(token)
                }
                Stage::Scan(token) => {
                    let token = *token;
                    ready!(self.poll_scan(touched, access, progress, waker));
                    *request = SrlRequest::default();
                    return Poll::Ready(wide_token(token));
                }
            };
        }
    }

    /// Takes the words of a small request, and asks after each piece whether the gate stops it: `None`, and nothing is held, if so.
    fn poll_take(
        &self,
        touched: &Range<u64>,
        access: Access,
        progress: &mut Progress,
        waker: &Waker,
        stops: impl Fn() -> bool,
    ) -> Poll<Option<Token>> {
        let section = self.space.enter();
        while progress.taken() < touched.end - touched.start {
            let before = progress.taken();
            let at = touched.start + before;
            let piece = self.space.find_or_make(&section, at, touched.end);
            let mut poll = |run| progress.poll(run, access, &self.queue, waker);
            let waits = piece.runs().any(|run| poll(run).is_pending());
            // G-I6, as in `advance`.
            if progress.taken() > before && stops() {
                progress.leave(&self.queue);
                let taken = piece.up_to(core::mem::take(progress).taken() - before);
                // SAFETY: they were taken just now, and those before had passed the gate.
                let wakes = unsafe { self.back_off(touched.start..at, taken, access) };
                drop(section);
                self.wake(wakes);
                return Poll::Ready(None);
            }
            if waits {
                return Poll::Pending;
            }
        }
        *progress = Progress::default();
        // SAFETY: all of them were taken, and stay.
        Poll::Ready(Some(unsafe { self.token_of(touched.start) }))
    }

    /// Looks at the words of a wide request, each until it was seen free.
    pub(crate) fn poll_scan(
        &self,
        touched: &Range<u64>,
        access: Access,
        progress: &mut Progress,
        waker: &Waker,
    ) -> Poll<()> {
        let section = self.space.enter();
        while progress.taken() < touched.end - touched.start {
            let at = touched.start + progress.taken();
            match self.space.find(&section, at, touched.end) {
                Err(next) => progress.skip(next - at),
                // As a rule: a load a word.
                Ok(piece) if piece.is_free(access) => {
                    progress.leave(&self.queue);
                    progress.skip(piece.len());
                }
                Ok(piece) => {
                    for run in piece.runs() {
                        ready!(progress.poll_free(run, access, &self.queue, waker));
                    }
                }
            }
        }
        Poll::Ready(())
    }

    /// Whether nobody holds any of the segments in conflict.
    pub(crate) fn is_free(&self, touched: &Range<u64>, access: Access) -> bool {
        let section = self.space.enter();
        let mut at = touched.start;
        while at < touched.end {
            match self.space.find(&section, at, touched.end) {
                Err(next) => at = next,
                Ok(piece) if piece.is_free(access) => at += piece.len(),
                Ok(_) => return false,
            }
        }
        true
    }

    /// Blocks until the segments are held. `taken` of them are already; the next was found in the hands of others, if it says so.
    #[cold]
    fn lock_slow(&self, touched: Range<u64>, access: Access, mut advance: Advance) -> Token {
        let touched = &touched;
        let mut spin = Backoff::new();
        while let Advance::Taken(taken) = advance
            && spin.round()
        {
            advance = self.advance_through_gate(touched, taken, access);
        }
        P::with(|parker| {
            let mut request = match advance {
                // SAFETY: it holds all of them.
                Advance::All(_) => return unsafe { self.token_of(touched.start) },
                Advance::Taken(taken) => self.queued(touched, taken, parker.waker()),
                Advance::Stopped => SrlRequest::default(),
            };
            loop {
                // SAFETY: the request is of this call.
                let polled = unsafe { self.poll(touched, access, &mut request, parker.waker()) };
                match polled {
                    Poll::Ready(token) => return token,
                    Poll::Pending => parker.park(),
                }
            }
        })
    }

    /// A small request that has looked often enough for the segment after the first `taken`: it stands in that one's queue.
    fn queued(&self, touched: &Range<u64>, taken: u64, waker: &Waker) -> SrlRequest {
        let section = self.space.enter();
        let at = touched.start + taken;
        let run = self.space.find_or_make(&section, at, at + 1).first_run();
        SrlRequest {
            stage: Stage::Words,
            progress: Progress::queued(run, taken, &self.queue, waker),
        }
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
            Advance::All(word) => Some(Token::new(word)),
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

/// The entries' lock has every position.
fn in_range<T>(result: Result<T, RangeError>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => unreachable!("an entry of the gate: {error}"),
    }
}

/// The token of a wide hold: S-I4.
pub(crate) fn wide_token(entry: Token) -> Token {
    Token::new(entry.into_word() << 1 | 1)
}

/// What a token stands for: S-I4.
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
        if word & 1 == 0 {
            Holding::Words(word)
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

    #[inline]
    fn lock(&self, span: Span, access: Access) -> Result<Token, RangeError> {
        let touched = self.segments.touched(span)?;
        let token = if self.is_usual(&touched) {
            let token = self.take_one_word(&touched, access);
            match token {
                Some(token) => token,
                None => self.lock_slow(touched, access, Advance::Taken(0)),
            }
        } else {
            self.lock_many(touched, access)
        };
        self.queue.counters().acquisitions(1);
        Ok(token)
    }

    #[inline]
    fn try_lock(&self, span: Span, access: Access) -> Result<Token, TryLockError> {
        let touched = self.segments.touched(span)?;
        let token = self.try_take(&touched, access);
        let token = token.ok_or(TryLockError::WouldBlock)?;
        self.queue.counters().acquisitions(1);
        Ok(token)
    }

    #[inline]
    unsafe fn unlock(&self, span: Span, access: Access, token: Token) {
        let touched = self.segments.of(span);
        // SAFETY: the caller holds the span with `access` by this token.
        unsafe {
            match Holding::of(token) {
                Holding::Words(word) if is_one_word::<S>(&touched) => {
                    let piece = self.space.held(Some(word), touched.start, touched.end);
                    piece.first_run().unlock(access, &self.queue);
                }
                holding => self.unlock_many(touched, access, holding),
            }
        }
    }
}

/// Whether the states of all these segments are in one word.
#[inline]
fn is_one_word<S: Space>(touched: &Range<u64>) -> bool {
    words_of::<S::Word>(touched.start, touched.end) == 1
}

/// Apart from the locking of one word, which is the usual case and small enough to be inlined.
impl<S: Space, P: Park> Srl<S, P> {
    /// Whether the request is small, and its segments are in one word.
    #[inline]
    fn is_usual(&self, touched: &Range<u64>) -> bool {
        !self.is_wide(touched) && is_one_word::<S>(touched)
    }

    /// Takes the segments at once, if nothing stands in the way.
    #[inline]
    pub(crate) fn try_take(&self, touched: &Range<u64>, access: Access) -> Option<Token> {
        if self.is_usual(touched) {
            self.take_one_word(touched, access)
        } else {
            self.try_lock_many(touched.clone(), access)
        }
    }

    /// Takes the segments at once, which are in one word, if nothing stands in the way.
    #[inline]
    fn take_one_word(&self, touched: &Range<u64>, access: Access) -> Option<Token> {
        let section = self.space.enter();
        let piece = self
            .space
            .find_or_make(&section, touched.start, touched.end);
        if !piece.first_run().try_lock(access, &self.queue) {
            return None;
        }
        if self.gate.stops(touched, access) {
            let none = touched.start..touched.start;
            // SAFETY: they were taken just now.
            let wakes = unsafe { self.back_off(none, Some(piece), access) };
            drop(section);
            self.wake(wakes);
            return None;
        }
        Some(Token::new(piece.address()))
    }

    #[inline(never)]
    fn lock_many(&self, touched: Range<u64>, access: Access) -> Token {
        if self.is_wide(&touched) {
            return self.lock_slow(touched, access, Advance::Stopped);
        }
        match self.advance_through_gate(&touched, 0, access) {
            Advance::All(word) => Token::new(word),
            advance => self.lock_slow(touched, access, advance),
        }
    }

    #[inline(never)]
    fn try_lock_many(&self, touched: Range<u64>, access: Access) -> Option<Token> {
        let touched = &touched;
        if self.is_wide(touched) {
            return self.try_lock_wide(touched, access);
        }
        match self.advance_through_gate(touched, 0, access) {
            Advance::All(word) => Some(Token::new(word)),
            Advance::Stopped => None,
            // SAFETY: it has taken them, and they have passed the gate.
            Advance::Taken(taken) => unsafe {
                self.give_up(touched.start..touched.start + taken, access);
                None
            },
        }
    }

    /// # Safety
    /// The segments are held by `holding` with `access`, and given up.
    #[inline(never)]
    unsafe fn unlock_many(&self, touched: Range<u64>, access: Access, holding: Holding) {
        let touched = &touched;
        match holding {
            // SAFETY: the caller's promise: S-I1, S-I4.
            Holding::Words(word) => unsafe {
                let unlock = |run: Run<'_, S::Word>| run.unlock(access, &self.queue);
                self.for_held(Some(word), touched.clone(), unlock);
            },
            // SAFETY: the caller's promise: S-I4.
            Holding::Wide(entry) => unsafe { self.unlock_wide(touched, access, entry) },
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

// SAFETY: `Ready` is returned when the span is held as by `lock`. A forgotten request stays where it is.
unsafe impl<S: Space, P: Park> RawRangeLockWait for Srl<S, P> {
    type Request = SrlRequest;

    unsafe fn poll_lock(
        &self,
        span: Span,
        access: Access,
        request: &mut SrlRequest,
        waker: &Waker,
    ) -> Poll<Result<Token, RangeError>> {
        let touched = self.segments.touched(span)?;
        // SAFETY: the caller's promise.
        let token = ready!(unsafe { self.poll(&touched, access, request, waker) });
        self.queue.counters().acquisitions(1);
        Poll::Ready(Ok(token))
    }

    unsafe fn cancel(&self, span: Span, access: Access, request: &mut SrlRequest) {
        let SrlRequest {
            stage,
            mut progress,
        } = core::mem::take(request);
        progress.leave(&self.queue);
        let touched = self.segments.of(span);
        let (entries, entry) = (self.gate.entries(), entry_of(&touched));
        let taken = touched.start..touched.start + progress.taken();
        // SAFETY: of each stage: what the request has is given up, and belongs to this span and access.
        unsafe {
            match stage {
                Stage::Words => self.give_up(taken, access),
                Stage::Behind(mut behind) => entries.cancel(entry, access, &mut behind),
                Stage::Through(token) => {
                    self.give_up(taken, access);
                    entries.unlock(entry, access, token);
                }
                Stage::Wide(mut wide) => {
                    self.gate.open();
                    entries.cancel(entry, access, &mut wide);
                }
                Stage::Scan(token) => self.unlock_wide(&touched, access, token),
            }
        }
    }
}
