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
use core::task::{Poll, Waker, ready};

use spanlock_range_lock::words::{Progress, Wakes, for_each_surely};
use spanlock_range_lock::{Access, Token};
use spanlock_sync::unwind::and_surely;
use spanlock_sync::wait::{Listener, WaitQueue};
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
}

/// How far a waiting small request got in one read-side critical section.
enum Take<W> {
    /// It holds every segment.
    All,
    /// It is in a queue.
    Waits,
    /// The gate stopped it. It holds nothing, and these waiters must be woken.
    Stopped(Vec<Wakes<W>>),
}

/// Taking words without waiting, and releasing them.
impl<S: SegmentStore, P: Park> SegmentWords<S, P> {
    /// Skips the first `taken` segments. Takes the following ones, and stops before one that cannot
    /// be taken without waiting.
    ///
    /// Calls `stops` after each piece. If `stops` returns true, releases everything.
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
            let piece = self.store.find_or_make(&guard, at, touched.end);
            let taken = piece.arrive(access, &self.queue);
            // Ask even if only a part of the piece was taken: the guard must not be dropped while
            // the request holds words that have not passed the gate (G-I6).
            if taken > 0 && stops() {
                let taken = piece.up_to(taken);
                // SAFETY: this part was taken just now; the segments before it passed the gate.
                let wakes = unsafe { self.back_off(touched.start..at, taken, access) };
                drop(guard);
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

    /// Takes all words without asking the gate, or no words if that would require waiting.
    ///
    /// # Safety
    /// The caller has a granted entry in the gate for the segments, with `access`.
    pub(crate) unsafe fn take_under_entry(
        &self,
        touched: &Range<u64>,
        access: Access,
    ) -> Option<Token> {
        match self.advance(touched, 0, access, || false) {
            Advance::All(word) => Some(words_token(word)),
            // SAFETY: `advance` took these segments, and the caller has an entry.
            Advance::Taken(taken) => unsafe {
                self.give_up(touched.start..touched.start + taken, access);
                None
            },
            Advance::Stopped => None,
        }
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

    /// Releases words and wakes the waiters that this unblocks.
    ///
    /// `word` is the address of the first word, if the caller knows it.
    ///
    /// # Safety
    /// The caller holds the segments by words with `access`, and gives them up.
    pub(crate) unsafe fn release(&self, word: Option<usize>, held: Range<u64>, access: Access) {
        // SAFETY: the caller's promise.
        unsafe {
            self.for_held(word, held, |piece| {
                if let Some(wakes) = piece.release(access) {
                    wakes.wake(&self.queue);
                }
            });
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
    ) -> Vec<Wakes<S::Word>> {
        let mut wakes = Vec::new();
        // SAFETY: the caller's promise.
        let mut release =
            |piece: Piece<'_, S::Word>| wakes.extend(unsafe { piece.release(access) });
        if let Some(piece) = piece {
            // Do not look the piece up again: it may have been unlinked (G-I6).
            release(piece);
        }
        // SAFETY: the caller's promise.
        unsafe { self.for_held(None, passed, release) };
        wakes
    }

    pub(crate) fn wake(&self, wakes: Vec<Wakes<S::Word>>) {
        for_each_surely(wakes.into_iter(), |wakes| wakes.wake(&self.queue));
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
        self.wake(wakes);
    }
}

/// Waiting for words.
impl<S: SegmentStore, P: Park> SegmentWords<S, P> {
    /// Takes the words of a small request, asking `stops` after each piece.
    ///
    /// Returns `None`, with nothing held, if the gate stops the request.
    pub(crate) fn poll_take(
        &self,
        touched: &Range<u64>,
        access: Access,
        progress: &mut Progress,
        stops: impl Fn() -> bool,
    ) -> Poll<Option<Token>> {
        // Wake only after this call, which contains the critical section.
        let taken = self.take_in_critical_section(touched, access, progress, stops);
        if let Take::Stopped(wakes) = taken {
            and_surely(|| self.wake(wakes), || progress.wake_others());
            return Poll::Ready(None);
        }
        progress.wake_others();
        match taken {
            Take::All => {
                *progress = Progress::default();
                // SAFETY: all segments were taken, and stay taken.
                Poll::Ready(Some(unsafe { self.token_of(touched) }))
            }
            _ => Poll::Pending,
        }
    }

    fn take_in_critical_section(
        &self,
        touched: &Range<u64>,
        access: Access,
        progress: &mut Progress,
        stops: impl Fn() -> bool,
    ) -> Take<S::Word> {
        let guard = self.store.enter();
        while progress.taken() < touched.end - touched.start {
            let before = progress.taken();
            let at = touched.start + before;
            let piece = self.store.find_or_make(&guard, at, touched.end);
            let mut poll = |run| progress.poll(run, access, &self.queue);
            let waits = piece.runs().any(|run| poll(run).is_pending());
            // Ask even if only a part was taken (G-I6), as in `advance`.
            if progress.taken() > before && stops() {
                progress.leave(&self.queue);
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
    pub(crate) fn poll_scan(
        &self,
        touched: &Range<u64>,
        access: Access,
        progress: &mut Progress,
    ) -> Poll<()> {
        // Wake only after this call, which contains the critical section.
        let scanned = self.scan_in_critical_section(touched, access, progress);
        progress.wake_others();
        scanned
    }

    fn scan_in_critical_section(
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
        let guard = self.store.enter();
        let is_free = |piece: Piece<'_, S::Word>| piece.is_free(access);
        while progress.taken() < touched.end - touched.start {
            let at = touched.start + progress.taken();
            // The common case: one load per word.
            let next = self.store.first_busy(&guard, at, touched.end, is_free);
            if next > at {
                progress.leave(&self.queue);
                progress.skip(next - at);
            } else if let Ok(piece) = self.store.find(&guard, at, touched.end) {
                for run in piece.runs() {
                    ready!(progress.poll_free(run, access, &self.queue));
                }
            }
        }
        Poll::Ready(())
    }

    /// Blocks until the scan has seen every word of the segments free.
    pub(crate) fn scan(&self, touched: &Range<u64>, access: Access) {
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
                scan.progress.park(parker);
            }
        });
    }

    /// Skips the first `taken` segments of a small request, and enqueues the request at the next
    /// one without checking that segment again.
    pub(crate) fn enqueue(
        &self,
        touched: &Range<u64>,
        taken: u64,
        access: Access,
        waker: &Waker,
    ) -> Progress {
        let listener = Listener::new(waker);
        let guard = self.store.enter();
        let at = touched.start + taken;
        let run = self.store.find_or_make(&guard, at, at + 1).first_run();
        Progress::queued(run, taken, access, &self.queue, listener)
    }
}

/// The wait state of a blocking scan. Leaves its queue when it is dropped.
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
