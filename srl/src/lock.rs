//! The segment range lock: words for requests of few segments, a gate for requests of very many.
//!
//! # The problem
//! With one lock per file, writers of different pages wait for each other. With a tree of ranges
//! under one mutex, even readers wait ([SRL] §II-B, §III-C). So this lock divides the file into
//! segments of equal size, each with a reader-writer state of its own. In the paper, a request
//! touches the states of its segments and nothing else ([SRL] §IV).
//!
//! The lock has four parts:
//!
//! - The [`Word`] decides how states are encoded in atomic words: one state per word ([`RwWord`]),
//!   or sixteen ([`PackedWord`]).
//! - The [`SegmentStore`] decides where the words lie: side by side in an [`Array`], or in the
//!   leaves of a radix [`Tree`] that grows.
//! - The [gate](crate::gate) grants ranges of very many segments.
//! - [`SrlRequest`] is the [state machine](crate::request) of a waiting request.
//!
//! # Properties
//! - **Granularity**: a range locks every segment that it touches. So a reader and a writer of the
//!   same segment conflict even if their ranges do not overlap.
//! - **Cost**: without contention, a request takes each word with one read-modify-write. A writer
//!   that holds a whole word releases it by a plain store; any other release costs one more
//!   read-modify-write. A request for more segments than [`wide_above`](Srl::wide_above) is
//!   **wide**, any other is **small**. A wide request costs some tens of nanoseconds, and one
//!   plain load per word.
//! - **Allocation**: after construction, a small request that is granted without waiting allocates
//!   nothing, except the missing tail of an array or missing nodes of a tree.
//! - **Fairness**: each segment's queue is first come, first served. New requests overtake the
//!   waiter at its head at most [`MAX_PASSES`] times or, if that takes longer, for half a
//!   millisecond ([`spanlock_range_lock::words`]). [SRL] §IV-B
//!   proposes such a bound ("aging") but does not implement it. A request for *n* segments may have
//!   to queue at each of them, one after the other. In a tree that is shrunk, a waiter whose leaf
//!   is freed starts again as a new request, so more requests may overtake it ([`crate::tree`]).
//!   The gate serves wide requests, and the small requests that they stop, first come, first
//!   served.
//! - **Waiting**: a thread spins for a few microseconds. Then it yields its core, at most sixteen
//!   times, until a yield lets another thread run. Then it sleeps. Waiting for a segment allocates
//!   nothing.
//!
//! # Invariants
//! - **S-I1** A small hold of a span holds the states of all segments that the span touches, with
//!   the access of the hold. Two spans that overlap touch a common segment. The word of that
//!   segment excludes conflicting holds, and the later hold sees what was done under the earlier
//!   one. For a small and a wide hold, see G-I3.
//! - **S-I2** Small requests without entries never wait in a cycle. Each takes states in ascending
//!   order and waits at one segment at a time. A request at segment *i* waits for holders of *i*,
//!   and for waiters ahead of it in the queue of *i*. A holder of *i* can itself wait only at a
//!   later segment. A waiter ahead holds earlier segments only, and waits only for holders of *i*
//!   and for waiters ahead of itself.
//! - **S-I3** A try that fails releases all states that it took.
//! - **S-I4** A token contains the address of the first segment's word, or the gate's entry of a
//!   wide request. Its two lowest bits tell which ([`crate::token`]).
//!
//! This file has no atomics of its own. For orderings see [`spanlock_range_lock::words`] and
//! [`crate::gate`].
//!
//! # Not guaranteed
//! A thread that holds a range and requests another may wait for ever, even in ascending order. If
//! a request with an entry wants both, it waits for the first range, and its entry stops the thread
//! at the second.
//!
//! A small request that waits already holds its lower segments, as in the paper. A try on those
//! segments fails although the request has not been granted. Two conflicting tries at the same time
//! may both fail.
//!
//! # Models
//! `cargo verify` has rows `srl-array/…`, `srl-packed/…` and `srl-tree/…`. Rows `srl-gate/…` check
//! a lock in which a request for two segments is already wide. The properties whose names contain
//! `unwinds` say what holds when foreign code panics.
//!
//! [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905
//! [`MAX_PASSES`]: spanlock_range_lock::words::MAX_PASSES
//! [`PackedWord`]: crate::PackedWord
//! [`RwWord`]: spanlock_range_lock::RwWord

mod in_doubt;
mod slow;

use core::ops::Range;
use core::pin::Pin;
use core::task::{Poll, Waker, ready};

use spanlock_range_lock::words::{self, Run, Word};
use spanlock_range_lock::{
    Access, IntoRange, LockId, RangeError, RawRangeLock, RawRangeLockWait, Span, Token,
    TryLockError, span_in,
};
use spanlock_sync::wait::WaitQueue;
use spanlock_sync::{DefaultPark, Park};

use crate::array::Array;
use crate::gate::Gate;
use crate::request::SrlRequest;
use crate::segment::{SegmentError, Segments};
use crate::segment_words::SegmentWords;
use crate::store::{Lanes, SegmentStore};
use crate::token::{Holding, KIND, ONE_WORD};
use crate::tree::{Shape, Tree};

/// A range lock with a reader-writer state for each segment.
///
/// [`SrlArray`](crate::SrlArray), [`SrlTree`](crate::SrlTree) and their packed forms are aliases of
/// this type. `S` stores the states. `P` puts waiters to sleep.
#[derive(Debug)]
pub struct Srl<S, P = DefaultPark> {
    pub(crate) words: SegmentWords<S, P>,
    pub(crate) segments: Segments,
    pub(crate) gate: Gate<P>,
    wide_above: u64,
    id: LockId,
}

/// The default of [`Srl::wide_above`], in words. For more words, an entry of the gate costs
/// less than taking every word.
const WIDE_ABOVE: u64 = 512;

impl<W: Word> Srl<Array<W>> {
    /// Creates a lock for positions `0..capacity`, in segments of 4 KiB.
    ///
    /// Allocates. For a `static`, use
    /// [`LazyLock`](https://doc.rust-lang.org/std/sync/struct.LazyLock.html).
    ///
    /// Allocates up to 1 KiB of words. All other words are allocated when a request first needs one
    /// of them; if there is no memory for them then, the request returns an error. But if they take
    /// more than 64 MiB, this function allocates them too.
    ///
    /// # Errors
    /// [`SegmentError::Memory`] if there is no memory for the words that this function allocates.
    pub fn new(capacity: u64) -> Result<Self, SegmentError> {
        Self::with_segment_size(capacity, Segments::DEFAULT_SIZE)
    }

    /// Creates a lock for positions `0..capacity`, in segments of `size` positions.
    ///
    /// Allocates as `new` does.
    ///
    /// # Errors
    /// - [`SegmentError::Size`] if `size` is not a power of two.
    /// - [`SegmentError::Memory`] as for `new`.
    pub fn with_segment_size(capacity: u64, size: u64) -> Result<Self, SegmentError> {
        let segments = Segments::new(capacity, size)?;
        Ok(Self::with_store(Array::new(segments)?))
    }
}

impl<W: Word, P: Park> Srl<Array<W>, P> {
    /// Allocates all words that have not been allocated yet. After that, a request for few segments
    /// allocates nothing.
    ///
    /// # Errors
    /// [`SegmentError::Memory`] if there is no memory for them.
    pub fn try_reserve(&self) -> Result<(), SegmentError> {
        let reserved = self.words.store.reserve();
        reserved.ok_or_else(|| self.segments.no_memory())
    }

    /// Returns the size of the words in bytes: 4 per segment, or half a byte in the packed form.
    ///
    /// Words that have not been allocated yet do not count.
    pub fn memory_usage(&self) -> usize {
        self.words.store.memory_usage()
    }
}

impl<W: Word> Srl<Tree<W>> {
    /// Creates a lock for positions `0..capacity`, in segments of 4 KiB.
    ///
    /// Allocates. For a `static`, use
    /// [`LazyLock`](https://doc.rust-lang.org/std/sync/struct.LazyLock.html).
    ///
    /// [`Shape::for_capacity`] chooses the shape. For 1.5 TB it is the paper's.
    ///
    /// # Errors
    /// [`SegmentError::Memory`] if there is no memory for the root, or for the list of levels.
    pub fn new(capacity: u64) -> Result<Self, SegmentError> {
        Self::with_segment_size(capacity, Segments::DEFAULT_SIZE)
    }

    /// Creates a lock for positions `0..capacity`, in segments of `size` positions.
    ///
    /// [`Shape::for_capacity`] chooses the shape.
    ///
    /// # Errors
    /// - [`SegmentError::Size`] if `size` is not a power of two.
    /// - [`SegmentError::Memory`] if there is no memory for the root.
    pub fn with_segment_size(capacity: u64, size: u64) -> Result<Self, SegmentError> {
        Self::with_shape(capacity, &Shape::for_capacity(capacity, size)?)
    }

    /// Creates a lock for positions `0..capacity`, in a tree of this shape.
    ///
    /// The tree omits top levels that the capacity does not need.
    ///
    /// # Errors
    /// - [`SegmentError::Coverage`] if the levels do not cover the capacity.
    /// - [`SegmentError::Level`] if a leaf has fewer segments than one word holds. In the packed
    ///   form, leaves need at least 4 bits.
    /// - [`SegmentError::Memory`] if there is no memory for the root.
    pub fn with_shape(capacity: u64, shape: &Shape) -> Result<Self, SegmentError> {
        Ok(Self::with_store(Tree::new(capacity, shape)?))
    }
}

impl<W: Word, P: Park> Srl<Tree<W>, P> {
    /// Returns the size of all nodes in bytes. The result is exact while no thread creates or frees
    /// a node.
    pub fn memory_usage(&self) -> usize {
        self.words.store.memory_usage()
    }

    /// Frees all leaves in which no range is held, and the nodes above them that become empty.
    /// Returns the bytes freed.
    ///
    /// Frees nothing and returns 0 while the system refuses `membarrier` to the calling thread
    /// ([`use_fences`](spanlock_range_lock::use_fences)). The memory stays until another call.
    ///
    /// Holds are not disturbed. A waiter keeps its place in the queue while its segment is held. A
    /// waiter that has just been woken may have to join the queue again. Small requests near a
    /// freed leaf may wait for some microseconds. A wide hold keeps the leaves that it covers, and
    /// some leaves next to them.
    ///
    /// Blocks while another thread shrinks this lock. Also waits until every read-side critical
    /// section under way has ended; a thread is in such a section while it looks up and takes
    /// words. Must not be called from a [`Waker`], which may run in the thread that shrinks this
    /// lock.
    pub fn shrink(&self) -> usize {
        self.shrink_segments(&(0..self.segments.count()))
    }

    /// Does what [`shrink`](Self::shrink) does, for the leaves that `range` touches.
    ///
    /// Call it after a truncate, for the range that was cut off, once no thread holds that range.
    ///
    /// # Errors
    /// [`RangeError`] if `range` is reversed or ends past the capacity.
    pub fn shrink_range(&self, range: impl IntoRange) -> Result<usize, RangeError> {
        match span_in(range, self)? {
            None => Ok(0),
            Some(span) => Ok(self.shrink_segments(&self.segments.touched(span)?)),
        }
    }

    fn shrink_segments(&self, segments: &Range<u64>) -> usize {
        (self.words.store).shrink(&self.gate, &self.words.queue, segments)
    }
}

impl<S: SegmentStore> Srl<S> {
    pub(crate) fn with_store(store: S) -> Self {
        // `Word` promises that `LANES` is a power of two, which lane ranges and pieces need, and
        // that the alignment is above `KIND`, which tokens need (S-I4).
        const { assert!(S::Word::LANES.is_power_of_two() && align_of::<S::Word>() > KIND) };
        let segments = store.segments();
        let gate = Gate::default();
        let queue = WaitQueue::default();
        Srl {
            words: SegmentWords { store, queue },
            segments,
            gate,
            wide_above: WIDE_ABOVE * u64::from(S::Word::LANES),
            id: LockId::new(),
        }
    }
}

impl<S: SegmentStore, P: Park> Srl<S, P> {
    /// Returns this lock with another way to wait: waiters sleep through `Q`.
    pub fn with_parking<Q: Park>(self) -> Srl<S, Q> {
        Srl {
            words: SegmentWords {
                store: self.words.store,
                queue: self.words.queue.with_parking(),
            },
            segments: self.segments,
            gate: self.gate.with_parking(),
            wide_above: self.wide_above,
            id: self.id,
        }
    }

    /// Returns this lock with another bound: requests for more than `segments` segments are wide.
    ///
    /// 0 counts as 1. The default is the number of segments in 512 words. A wide request costs a
    /// load per word, and an entry in the gate, where wide requests share a mutex. A small request
    /// costs some nanoseconds per word.
    pub fn wide_above(mut self, segments: u64) -> Self {
        self.wide_above = segments.max(1);
        self
    }

    /// Returns one past the last position that this lock covers.
    #[inline]
    pub const fn capacity(&self) -> u64 {
        self.segments.capacity()
    }

    /// Returns how positions map to segments.
    pub fn segments(&self) -> Segments {
        self.segments
    }

    #[inline]
    pub(crate) fn is_wide(&self, touched: &Range<u64>) -> bool {
        touched.end - touched.start > self.wide_above
    }
}

// A panic of foreign code leaves the lock as if it had not happened (contract, point 10).
impl<S: SegmentStore, P> core::panic::UnwindSafe for Srl<S, P> {}
impl<S: SegmentStore, P> core::panic::RefUnwindSafe for Srl<S, P> {}

// SAFETY: guarantees 1 and 2 of `RawRangeLock`: S-I1. Guarantees 3 and 4: words and entries do not
// record an owner, and any thread can find them by the token.
unsafe impl<S: SegmentStore, P: Park> RawRangeLock for Srl<S, P> {
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

    /// Only holds in words are counted. A wide request waits for conflicting holds only.
    fn reader_limit(&self, span: Span, token: Option<Token>) -> u32 {
        let counts = match token {
            Some(token) => matches!(Holding::of(token), Holding::Words(_)),
            None => (self.segments.touched(span)).is_ok_and(|touched| !self.is_wide(&touched)),
        };
        if counts { S::Word::READERS } else { u32::MAX }
    }

    // `always`: a call would return its result in memory. That alone would cost more than an
    // uncontended request.
    #[inline(always)]
    fn lock(&self, span: Span, access: Access) -> Result<Token, RangeError> {
        let token = match self.take_one_word(span, access) {
            Ok(token) => token,
            Err(refusal) => self.lock_slow(span, access, refusal)?,
        };
        self.words.queue.counters().acquisitions(1);
        Ok(token)
    }

    #[inline]
    fn try_lock(&self, span: Span, access: Access) -> Result<Token, TryLockError> {
        let token = self.try_take(span, access)?;
        self.words.queue.counters().acquisitions(1);
        Ok(token)
    }

    #[inline(always)]
    unsafe fn unlock(&self, span: Span, access: Access, token: Token) {
        let word = token.into_word();
        // SAFETY: the caller holds the span with `access` by this token; S-I4.
        unsafe {
            if word & KIND != ONE_WORD {
                self.unlock_slow(span, access, token);
            } else if S::Word::LANES == 1 || self.is_whole_word(span) {
                let word = &*core::ptr::with_exposed_provenance::<S::Word>(word);
                Run::new(word, 0, S::Word::LANES).unlock(access, &self.words.queue);
            } else {
                // A call, because this is too much code to inline wherever a hold ends.
                self.unlock_lanes(span, access, word);
            }
        }
    }
}

// SAFETY: `poll_lock` returns `Ready` when the span is held as after `lock`. A leaked request stays
// in its queue.
unsafe impl<S: SegmentStore, P: Park> RawRangeLockWait for Srl<S, P> {
    type Request = SrlRequest;

    unsafe fn poll_lock(
        &self,
        span: Span,
        access: Access,
        mut request: Pin<&mut SrlRequest>,
        waker: &Waker,
    ) -> Poll<Result<Token, RangeError>> {
        let wanted = self.wanted(self.segments.touched(span)?, access);
        request.as_mut().refresh();
        // SAFETY: the caller's promise.
        let poll = unsafe { (request.as_mut()).poll(&self.words, &self.gate, &wanted, waker) };
        if poll.is_pending() {
            request.poll_again(waker);
        }
        let token = ready!(poll).map_err(|error| error.at(span))?;
        self.words.queue.counters().acquisitions(1);
        Poll::Ready(Ok(token))
    }

    unsafe fn cancel(&self, span: Span, access: Access, request: Pin<&mut SrlRequest>) {
        let touched = self.segments.of(span);
        // SAFETY: the caller's promise.
        unsafe { request.cancel(&self.words, &self.gate, &touched, access) }
    }
}

/// Why the fast path did not take a request's segments.
pub(crate) enum Refusal<G> {
    /// It tried nothing. The segments do not share a word, have no word yet, end past the capacity,
    /// or are wide; or the queue has waiters.
    Untried,
    /// The word has a conflicting hold.
    Busy,
    /// The word at this address was taken under this guard, but the gate is closed.
    Closed(G, usize),
}

/// The fast path: an uncontended request for one word.
///
/// It is small enough to be inlined, and so is everything that it calls, except the lookup of a
/// leaf. Any other call would save registers before the read-modify-write, which would then wait
/// for those stores. That would cost more than everything else here.
impl<S: SegmentStore, P: Park> Srl<S, P> {
    #[inline(always)]
    pub(crate) fn take_one_word(
        &self,
        span: Span,
        access: Access,
    ) -> Result<Token, Refusal<S::ReadGuard<'_>>> {
        self.take_one_word_by(span, |run| run.take_at_once(access, &self.words.queue))
    }

    /// Takes the segments of a request for one word by `take`, and checks the gate.
    #[inline(always)]
    fn take_one_word_by(
        &self,
        span: Span,
        take: impl FnOnce(Run<'_, S::Word>) -> Result<(), words::Refusal>,
    ) -> Result<Token, Refusal<S::ReadGuard<'_>>> {
        let (first, last) = self.segments.ends(span);
        let Some(lanes) = Lanes::of::<S::Word>(first, last) else {
            return Err(Refusal::Untried);
        };
        // A request for one segment is never wide.
        let wide = S::Word::LANES > 1 && last - first >= self.wide_above;
        if wide || span.end() > self.segments.capacity() {
            return Err(Refusal::Untried);
        }
        let guard = self.words.store.enter();
        let Some(word) = self.words.store.word(&guard, first) else {
            return Err(Refusal::Untried);
        };
        match take(lanes.run(word)) {
            Ok(()) => {}
            Err(words::Refusal::Untried) => return Err(Refusal::Untried),
            Err(words::Refusal::Busy) => return Err(Refusal::Busy),
        }
        let word = core::ptr::from_ref(word).expose_provenance();
        if self.gate.is_closed() {
            return Err(Refusal::Closed(guard, word));
        }
        Ok(Token::new(word | ONE_WORD))
    }

    /// Takes the segments if that is possible without waiting.
    #[inline]
    pub(crate) fn try_take(&self, span: Span, access: Access) -> Result<Token, TryLockError> {
        match self.take_one_word(span, access) {
            Ok(token) => Ok(token),
            Err(refusal) => self.try_take_slow(span, access, refusal),
        }
    }

    /// Returns whether a span whose segments share a word covers all lanes of the word.
    #[inline]
    fn is_whole_word(&self, span: Span) -> bool {
        let (first, last) = self.segments.ends(span);
        last - first == u64::from(S::Word::LANES - 1)
    }
}
