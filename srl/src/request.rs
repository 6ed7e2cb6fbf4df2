//! Requests that wait: how they take words bit by bit, meet the gate, and give up.

use alloc::vec::Vec;
use core::ops::Range;
use core::task::{Poll, Waker, ready};

use spanlock_interval_lock::IntervalRequest;
use spanlock_range_lock::words::{Progress, Wakes};
use spanlock_range_lock::{Access, RangeError, RawRangeLock, RawRangeLockWait, Span, Token};
use spanlock_sync::hint::Backoff;
use spanlock_sync::wait::Listener;
use spanlock_sync::{Park, injected_bug};

use crate::lock::{Advance, Srl, entry_of, wide_token};
use crate::space::{Piece, Space};
use crate::surely::and_surely;

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

/// How far a request gets with its words.
enum Take<W> {
    /// It has all of them.
    All,
    /// It stands in a queue.
    Waits,
    /// It met a wide request, and holds nothing: whom that lets in.
    Stopped(Vec<Wakes<W>>),
}

impl SrlRequest {
    /// A small one that has taken all of its words, which have passed the gate, and has nothing else.
    fn of_words(touched: &Range<u64>) -> Self {
        let mut progress = Progress::default();
        progress.skip(touched.end - touched.start);
        SrlRequest {
            stage: Stage::Words,
            progress,
        }
    }
}

/// A request of a call that blocks. If that ends without its hold, because a waker of somebody else's panics, the request is given up.
struct Attempt<'a, S: Space, P: Park> {
    lock: &'a Srl<S, P>,
    touched: &'a Range<u64>,
    access: Access,
    request: SrlRequest,
}

impl<S: Space, P: Park> Drop for Attempt<'_, S, P> {
    fn drop(&mut self) {
        // SAFETY: the request is for these segments, with this access.
        unsafe { (self.lock).abandon(self.touched, self.access, &mut self.request) }
    }
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
        progress.listen(waker);
        loop {
            *stage = match stage {
                Stage::Words if self.is_wide(touched) => {
                    self.gate.close();
                    Stage::Wide(IntervalRequest::default())
                }
                Stage::Words => {
                    let stops = || self.gate.stops(touched, access);
                    let taken = self.poll_take(touched, access, progress, stops);
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
                    let taken = self.poll_take(touched, access, progress, || false);
                    let Some(taken) = ready!(taken) else {
                        unreachable!("stopped by nobody");
                    };
                    // It has its words, and no entry any more, before that goes: that wakes others, whose wakers may panic.
                    *request = SrlRequest::of_words(touched);
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
                    ready!(self.poll_scan(touched, access, progress));
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
        stops: impl Fn() -> bool,
    ) -> Poll<Option<Token>> {
        // The section ends before anybody is woken.
        let taken = self.take_in_section(touched, access, progress, stops);
        if let Take::Stopped(wakes) = taken {
            and_surely(|| self.wake(wakes), || progress.wake_others());
            return Poll::Ready(None);
        }
        progress.wake_others();
        match taken {
            Take::All => {
                *progress = Progress::default();
                // SAFETY: all of them were taken, and stay.
                Poll::Ready(Some(unsafe { self.token_of(touched) }))
            }
            _ => Poll::Pending,
        }
    }

    fn take_in_section(
        &self,
        touched: &Range<u64>,
        access: Access,
        progress: &mut Progress,
        stops: impl Fn() -> bool,
    ) -> Take<S::Word> {
        let section = self.space.enter();
        while progress.taken() < touched.end - touched.start {
            let before = progress.taken();
            let at = touched.start + before;
            let piece = self.space.find_or_make(&section, at, touched.end);
            let mut poll = |run| progress.poll(run, access, &self.queue);
            let waits = piece.runs().any(|run| poll(run).is_pending());
            // G-I6, as in `advance`.
            if progress.taken() > before && stops() {
                progress.leave(&self.queue);
                let taken = piece.up_to(progress.taken() - before);
                // SAFETY: they were taken just now, and those before had passed the gate.
                let wakes = unsafe { self.back_off(touched.start..at, taken, access) };
                progress.restart();
                return Take::Stopped(wakes);
            }
            if waits {
                return Take::Waits;
            }
        }
        Take::All
    }

    /// Looks at the words of a wide request, each until it was seen free.
    pub(crate) fn poll_scan(
        &self,
        touched: &Range<u64>,
        access: Access,
        progress: &mut Progress,
    ) -> Poll<()> {
        // The section ends before anybody is woken.
        let scanned = self.scan_in_section(touched, access, progress);
        progress.wake_others();
        scanned
    }

    fn scan_in_section(
        &self,
        touched: &Range<u64>,
        access: Access,
        progress: &mut Progress,
    ) -> Poll<()> {
        if injected_bug!(
            "gate-scan-skipped",
            "a wide request does not wait for small requests that hold segments of its range",
            killed_by = "exclusion, exclusion-read-write, exclusion-write-read, batch"
        ) {
            return Poll::Ready(());
        }
        let section = self.space.enter();
        let is_free = |piece: Piece<'_, S::Word>| piece.is_free(access);
        while progress.taken() < touched.end - touched.start {
            let at = touched.start + progress.taken();
            // As a rule: a load a word.
            let next = self.space.first_taken(&section, at, touched.end, is_free);
            if next > at {
                progress.leave(&self.queue);
                progress.skip(next - at);
            } else if let Ok(piece) = self.space.find(&section, at, touched.end) {
                for run in piece.runs() {
                    ready!(progress.poll_free(run, access, &self.queue));
                }
            }
        }
        Poll::Ready(())
    }

    /// Blocks until the segments are held. `taken` of them are already; the next was found in the hands of others, if it says so.
    #[cold]
    pub(crate) fn lock_slow(
        &self,
        touched: Range<u64>,
        access: Access,
        mut advance: Advance,
    ) -> Token {
        let touched = &touched;
        let mut spin = Backoff::new();
        while let Advance::Taken(taken) = advance
            && spin.round()
        {
            advance = self.advance_through_gate(touched, taken, access);
        }
        P::with(|parker| {
            let request = match advance {
                // SAFETY: it holds all of them.
                Advance::All(_) => return unsafe { self.token_of(touched) },
                Advance::Taken(taken) => {
                    let queued = self.queued(touched, taken, access, parker.waker());
                    if injected_bug!(
                        "no-recheck",
                        "a thread that has joined the queue sleeps without rechecking the segment",
                        killed_by = "wakeup, poll"
                    ) {
                        parker.park();
                    }
                    queued
                }
                Advance::Stopped => SrlRequest::default(),
            };
            let mut attempt = Attempt {
                lock: self,
                touched,
                access,
                request,
            };
            loop {
                let (request, waker) = (&mut attempt.request, parker.waker());
                // SAFETY: the request is of this call.
                match unsafe { self.poll(touched, access, request, waker) } {
                    Poll::Ready(token) => return token,
                    Poll::Pending => parker.park(),
                }
            }
        })
    }

    /// A small request that has looked often enough for the segment after the first `taken`: it stands in that one's queue.
    fn queued(
        &self,
        touched: &Range<u64>,
        taken: u64,
        access: Access,
        waker: &Waker,
    ) -> SrlRequest {
        let listener = Listener::new(waker);
        let section = self.space.enter();
        let at = touched.start + taken;
        let run = self.space.find_or_make(&section, at, at + 1).first_run();
        SrlRequest {
            stage: Stage::Words,
            progress: Progress::queued(run, taken, access, &self.queue, listener),
        }
    }

    /// Gives a request up: it leaves its queue, and gives back what it has, all of it even if a waker panics meanwhile.
    ///
    /// # Safety
    /// As [`RawRangeLockWait::cancel`].
    unsafe fn abandon(&self, touched: &Range<u64>, access: Access, request: &mut SrlRequest) {
        let SrlRequest {
            stage,
            mut progress,
        } = core::mem::take(request);
        let (entries, entry) = (self.gate.entries(), entry_of(touched));
        let taken = touched.start..touched.start + progress.taken();
        progress.leave(&self.queue);
        // SAFETY: of each stage: what the request has is given up, and belongs to this span and access.
        let give_up = || unsafe {
            match stage {
                Stage::Words => self.give_up(taken, access),
                Stage::Behind(mut behind) => entries.cancel(entry, access, &mut behind),
                Stage::Through(token) => {
                    let unlock = || entries.unlock(entry, access, token);
                    and_surely(|| self.give_up(taken, access), unlock);
                }
                Stage::Wide(mut wide) => {
                    self.gate.open();
                    entries.cancel(entry, access, &mut wide);
                }
                Stage::Scan(token) => self.unlock_wide(touched, access, token),
            }
        };
        // The others last, and whatever the wakers do whom the words and entries wake.
        and_surely(give_up, || progress.wake_others());
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
        // SAFETY: the caller's promise.
        unsafe { self.abandon(&self.segments.of(span), access, request) }
    }
}

/// The entries' lock has every position.
pub(crate) fn in_range<T>(result: Result<T, RangeError>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => unreachable!("an entry of the gate: {error}"),
    }
}
