//! Taking, scanning and releasing the words of many segments.
//!
//! All requests share this code. Small requests take words. Wide requests *scan* words: they wait
//! until they have seen each word free. The [gate](crate::gate) decides whether a small request may
//! keep the words that it took. The functions here ask the gate through a closure, `stops`.
//!
//! A waker may run any code. So these functions collect wakers in a read-side critical section, and
//! wake them after it.

use alloc::vec::Vec;
use core::ops::Range;
use core::pin::{Pin, pin};
use core::task::Poll;

use spanlock_range_lock::words::{Progress, Wakes, Word, for_each_surely};
use spanlock_range_lock::{Access, NoMemory, Token};
use spanlock_sync::unwind::and_surely;
use spanlock_sync::wait::WaitQueue;
use spanlock_sync::{DefaultPark, Park, injected_bug};

use crate::store::{Piece, SegmentStore};
use crate::token::words_token;

/// The words of a lock's segments, and the queue of threads and futures that wait for them.
#[derive(Debug)]
pub(crate) struct SegmentWords<S, P = DefaultPark> {
    pub(crate) store: S,
    pub(crate) queue: WaitQueue<P>,
}

/// How far a small request got without waiting.
pub(crate) enum Advance {
    /// It holds every segment. If this call took the first one, this is the address of its word.
    All(usize),
    /// It holds this many segments, from the first on.
    Taken(u64),
    /// The gate stopped it. It holds nothing.
    Stopped,
    /// There is no memory for a word. It holds nothing.
    NoMemory,
}

/// How far a waiting small request got in one read-side critical section.
enum Take<'a, W, P> {
    /// It holds every segment.
    All,
    /// It is in a queue.
    Waits,
    /// The gate stopped it. It holds nothing, and these waiters must be woken.
    Stopped(Unblocked<'a, W, P>),
    /// There is no memory for a word. It holds what its [`Progress`] says.
    NoMemory,
}

/// The waiters that changes of several pieces have unblocked. They are woken once all pieces have
/// changed, because a waker may block until it gets one of the others.
#[must_use = "a waiter that is not woken sleeps for ever"]
pub(crate) struct Unblocked<'a, W, P> {
    queue: &'a WaitQueue<P>,
    last: Option<Wakes<W>>,
    /// Those of earlier pieces, if any waiter was asleep. So a change of one piece allocates
    /// nothing.
    others: Vec<Wakes<W>>,
}

impl<W: Word, P> Unblocked<'_, W, P> {
    /// Adds the waiters of a piece that has changed.
    #[inline]
    pub(crate) fn add(&mut self, wakes: Option<Wakes<W>>) {
        let before = wakes.and_then(|wakes| self.last.replace(wakes));
        // Light [D→E]: orders the changes so far before the check of the queue.
        if let Some(before) = before.filter(|_| self.queue.is_any_asleep()) {
            if self.others.try_reserve(1).is_ok() {
                self.others.push(before);
            } else {
                // A release never fails. Without memory for the list, it wakes early.
                before.wake(self.queue);
            }
        }
    }

    #[inline]
    pub(crate) fn wake(self) {
        let all = self.others.into_iter().chain(self.last);
        for_each_surely(all, |wakes| wakes.wake(self.queue));
    }
}

/// Taking words without waiting, and releasing them.
impl<S: SegmentStore, P: Park> SegmentWords<S, P> {
    /// Skips the first `taken` segments. Takes the following ones, and stops before one that cannot
    /// be taken without waiting.
    ///
    /// Calls `stops` after each piece. If `stops` returns true, or if there is no memory for a
    /// word, releases everything, also the first `taken` segments.
    #[inline]
    pub(crate) fn advance(
        &self,
        touched: &Range<u64>,
        taken: u64,
        access: Access,
        stops: impl Fn() -> bool,
    ) -> Advance {
        let guard = self.store.enter();
        let (mut at, mut word) = (touched.start + taken, 0);
        while at < touched.end {
            let Some(piece) = self.store.find_or_make(&guard, at, touched.end) else {
                drop(guard);
                // SAFETY: these segments have passed the gate.
                unsafe { self.give_up(touched.start..at, access) };
                return Advance::NoMemory;
            };
            let taken = piece.arrive(access, &self.queue);
            // Ask even if only a part of the piece was taken: the guard must not be dropped while
            // the request holds words that have not passed the gate (G-I6).
            if taken > 0 && stops() {
                let taken = piece.up_to(taken);
                // SAFETY: this part was taken just now; the segments before it passed the gate.
                let wakes = unsafe { self.back_off(touched.start..at, taken, access) };
                drop(guard);
                wakes.wake();
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

    /// Takes all words without asking the gate, or no words if that would require waiting.
    ///
    /// # Errors
    /// If there is no memory for a word. No words were taken.
    ///
    /// # Safety
    /// The caller has a granted entry in the gate for the segments, with `access`.
    pub(crate) unsafe fn take_under_entry(
        &self,
        touched: &Range<u64>,
        access: Access,
    ) -> Result<Option<Token>, NoMemory> {
        match self.advance(touched, 0, access, || false) {
            Advance::All(word) => return Ok(Some(words_token(word))),
            // SAFETY: `advance` took these segments, and the caller has an entry.
            Advance::Taken(taken) => unsafe {
                self.give_up(touched.start..touched.start + taken, access);
            },
            Advance::Stopped => {}
            Advance::NoMemory => return Err(NoMemory),
        }
        Ok(None)
    }

    /// Returns whether no segment has a hold that conflicts with `access`.
    pub(crate) fn is_free(&self, touched: &Range<u64>, access: Access) -> bool {
        let guard = self.store.enter();
        let is_free = |piece: Piece<'_, S::Word>| piece.is_free(access);
        let (first, end) = (touched.start, touched.end);
        injected_bug!(
            "gate-scan-skipped",
            "a wide request does not check whether small requests hold segments of its range",
            killed_by = "exclusion, exclusion-read-write, exclusion-write-read, batch"
        ) || self.store.first_busy(&guard, first, end, is_free) == end
    }

    /// Calls `f` with the words of held segments, in ascending order. A call that panics does not
    /// stop the others.
    ///
    /// `word` is the address of the first word, if the caller knows it.
    ///
    /// # Safety
    /// The caller holds each segment until `f` is called for it.
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
            // SAFETY: the caller holds these segments. Only the first piece gets the address.
            let piece = unsafe { self.store.held(word.take(), at, held.end) };
            at += piece.len();
            Some(piece)
        });
        for_each_surely(pieces, f);
    }

    /// Releases words, and then wakes the waiters that this unblocks.
    ///
    /// `word` is the address of the first word, if the caller knows it.
    ///
    /// # Safety
    /// The caller holds the segments by words with `access`, and gives them up.
    pub(crate) unsafe fn release(&self, word: Option<usize>, held: Range<u64>, access: Access) {
        // SAFETY: the caller's promise.
        unsafe {
            let piece = self.store.held(word, held.start, held.end);
            if piece.len() == held.end - held.start {
                // The usual case, without a list.
                if let Some(wakes) = piece.release(access) {
                    wakes.wake(&self.queue);
                }
                return;
            }
            let mut unblocked = self.unblocked();
            self.for_held(word, held, |piece| unblocked.add(piece.release(access)));
            unblocked.wake();
        }
    }

    /// Returns an empty list of waiters to wake.
    #[inline]
    pub(crate) fn unblocked(&self) -> Unblocked<'_, S::Word, P> {
        Unblocked {
            queue: &self.queue,
            last: None,
            others: Vec::new(),
        }
    }

    /// Returns the token of a small hold.
    ///
    /// # Safety
    /// The caller holds the segments.
    pub(crate) unsafe fn token_of(&self, held: &Range<u64>) -> Token {
        // Ask for the whole piece: a pointer made from the address must be valid for all its words.
        // SAFETY: the caller's promise.
        let piece = unsafe { self.store.held(None, held.start, held.end) };
        words_token(piece.address())
    }

    /// Releases what a request has taken; returns the waiters to wake once the guard is dropped.
    ///
    /// # Safety
    /// The caller holds the segments `passed` and those of `piece` with `access`, and gives them
    /// up. The segments `passed` have passed the gate, or the request has an entry. The guard under
    /// which `piece` was found still lives.
    #[cold]
    pub(crate) unsafe fn back_off(
        &self,
        passed: Range<u64>,
        piece: Option<Piece<'_, S::Word>>,
        access: Access,
    ) -> Unblocked<'_, S::Word, P> {
        let mut unblocked = self.unblocked();
        // SAFETY: the caller's promise.
        let mut release =
            |piece: Piece<'_, S::Word>| unblocked.add(unsafe { piece.release(access) });
        if let Some(piece) = piece {
            // Do not look the piece up again: it may have been unlinked (G-I6).
            release(piece);
        }
        // SAFETY: the caller's promise.
        unsafe { self.for_held(None, passed, release) };
        unblocked
    }

    /// Releases what a request has taken, and wakes the waiters that this unblocks.
    ///
    /// # Safety
    /// The caller holds the segments with `access`, and gives them up. The segments have passed the
    /// gate, or the request has an entry.
    #[cold]
    pub(crate) unsafe fn give_up(&self, held: Range<u64>, access: Access) {
        // SAFETY: the caller's promise.
        let wakes = unsafe { self.back_off(held, None, access) };
        wakes.wake();
    }
}

/// Waiting for words. The callers of functions that take a [`Progress`] make the promise that
/// [`Progress`] describes.
impl<S: SegmentStore, P: Park> SegmentWords<S, P> {
    /// Takes the words of a small request, asking `stops` after each piece.
    ///
    /// Returns `None`, with nothing held, if the gate stops the request.
    ///
    /// # Errors
    /// If there is no memory for a word. The caller must cancel the request, which still holds what
    /// it has taken.
    ///
    /// # Safety
    /// The promise of [`Progress`].
    pub(crate) unsafe fn poll_take(
        &self,
        touched: &Range<u64>,
        access: Access,
        mut progress: Pin<&mut Progress>,
        stops: impl Fn() -> bool,
    ) -> Poll<Result<Option<Token>, NoMemory>> {
        // Run wakers only after this call, which contains the critical section.
        // SAFETY: the caller's promise.
        let taken =
            unsafe { self.take_in_critical_section(touched, access, progress.as_mut(), stops) };
        match taken {
            Take::Stopped(wakes) => {
                and_surely(|| wakes.wake(), || progress.finish(&self.queue));
                Poll::Ready(Ok(None))
            }
            Take::All => {
                progress.finish(&self.queue);
                // SAFETY: all segments were taken, and stay taken.
                Poll::Ready(Ok(Some(unsafe { self.token_of(touched) })))
            }
            Take::NoMemory => Poll::Ready(Err(NoMemory)),
            Take::Waits => {
                progress.run_foreign(&self.queue);
                Poll::Pending
            }
        }
    }

    /// # Safety
    /// The promise of [`Progress`].
    unsafe fn take_in_critical_section(
        &self,
        touched: &Range<u64>,
        access: Access,
        mut progress: Pin<&mut Progress>,
        stops: impl Fn() -> bool,
    ) -> Take<'_, S::Word, P> {
        let guard = self.store.enter();
        while progress.taken() < touched.end - touched.start {
            let before = progress.taken();
            let at = touched.start + before;
            let Some(piece) = self.store.find_or_make(&guard, at, touched.end) else {
                return Take::NoMemory;
            };
            // SAFETY: the caller's promise.
            let mut poll = |run| unsafe { progress.as_mut().poll(run, access, &self.queue) };
            let waits = piece.runs().any(|run| poll(run).is_pending());
            // Ask even if only a part was taken (G-I6), as in `advance`.
            if progress.taken() > before && stops() {
                progress.as_mut().leave(&self.queue);
                let taken = piece.up_to(progress.taken() - before);
                // SAFETY: this part was taken just now; the segments before it passed the gate.
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

    /// Scans the words of a wide request, until it has seen each word free once.
    ///
    /// # Safety
    /// The promise of [`Progress`].
    pub(crate) unsafe fn poll_scan(
        &self,
        touched: &Range<u64>,
        access: Access,
        mut progress: Pin<&mut Progress>,
    ) -> Poll<()> {
        loop {
            // Run wakers only after this call, which contains the critical section.
            // SAFETY: the caller's promise.
            let scanned =
                unsafe { self.scan_in_critical_section(touched, access, progress.as_mut()) };
            match scanned {
                Scanned::All => {
                    progress.finish(&self.queue);
                    return Poll::Ready(());
                }
                Scanned::Waits => {
                    progress.run_foreign(&self.queue);
                    return Poll::Pending;
                }
                Scanned::Unblocked => progress.as_mut().run_foreign(&self.queue),
            }
        }
    }

    /// # Safety
    /// The promise of [`Progress`].
    unsafe fn scan_in_critical_section(
        &self,
        touched: &Range<u64>,
        access: Access,
        mut progress: Pin<&mut Progress>,
    ) -> Scanned {
        if injected_bug!(
            "gate-scan-skipped",
            "a wide request does not wait for small requests that hold segments of its range",
            killed_by = "exclusion, exclusion-read-write, exclusion-write-read, batch"
        ) {
            return Scanned::All;
        }
        let guard = self.store.enter();
        let is_free = |piece: Piece<'_, S::Word>| piece.is_free(access);
        while progress.taken() < touched.end - touched.start {
            let at = touched.start + progress.taken();
            // The common case: one load per word.
            let next = self.store.first_busy(&guard, at, touched.end, is_free);
            if next > at {
                progress.as_mut().leave(&self.queue);
                progress.as_mut().skip(next - at);
            } else if let Some(run) = (self.store.find(&guard, at, touched.end))
                .ok()
                .and_then(|piece| piece.runs().next())
            {
                // SAFETY: the caller's promise.
                let free = unsafe { progress.as_mut().poll_free(run, access, &self.queue) };
                if free.is_pending() {
                    return Scanned::Waits;
                }
            }
            // The request is in no queue now. It may have unblocked other waiters by leaving one.
            if progress.has_unblocked() {
                return Scanned::Unblocked;
            }
        }
        Scanned::All
    }

    /// Blocks until the scan has seen every word of the segments free.
    pub(crate) fn scan(&self, touched: &Range<u64>, access: Access) {
        P::with(|parker| {
            let mut scan = Scan {
                progress: pin!(Progress::default()),
                queue: &self.queue,
            };
            loop {
                scan.progress.as_mut().listen(parker.waker());
                // SAFETY: when the scan is dropped, it leaves its queue.
                let scanned = unsafe { self.poll_scan(touched, access, scan.progress.as_mut()) };
                if scanned.is_ready() {
                    return;
                }
                scan.progress.as_mut().park(parker);
            }
        });
    }

    /// Enqueues a small request at its next segment, without checking that segment again. The
    /// request has a waker already ([`Progress::listen`]).
    ///
    /// # Errors
    /// If there is no memory for the word. Nothing has changed.
    ///
    /// # Safety
    /// The promise of [`Progress`].
    pub(crate) unsafe fn enqueue(
        &self,
        touched: &Range<u64>,
        access: Access,
        progress: Pin<&mut Progress>,
    ) -> Result<(), NoMemory> {
        let guard = self.store.enter();
        let at = touched.start + progress.taken();
        let piece = self.store.find_or_make(&guard, at, at + 1);
        let run = piece.ok_or(NoMemory)?.first_run();
        // SAFETY: the caller's promise.
        unsafe { progress.enqueue(run, access, &self.queue) };
        Ok(())
    }
}

/// How far a scan got in one read-side critical section.
enum Scanned {
    /// It has seen every word free.
    All,
    /// It is in a queue.
    Waits,
    /// It has left a queue, and must wake the waiters that it unblocked before it goes on.
    Unblocked,
}

/// The wait state of a blocking scan. Leaves its queue when it is dropped.
struct Scan<'a, 'p, P> {
    progress: Pin<&'p mut Progress>,
    queue: &'a WaitQueue<P>,
}

impl<P> Drop for Scan<'_, '_, P> {
    fn drop(&mut self) {
        self.progress.as_mut().leave(self.queue);
        self.progress.as_mut().finish(self.queue);
    }
}
