//! The array form of the segment range lock: a reader-writer word a segment, all allocated at once.
//!
//! # The problem
//! One lock a file makes writers of different pages wait for each other, and a tree of ranges under one mutex
//! makes even readers wait ([SRL] §II-B, §III-C). So cut the file into segments of equal size and give each a
//! word of its own: a request touches the words of its segments and nothing else. [SRL] §IV, the variant
//! that its evaluation calls SRL(array).
//!
//! # Properties
//! - **Granularity**: two requests conflict if they touch a common segment and one writes, even where
//!   their ranges do not overlap.
//! - **Cost**: while nobody competes, one read-modify-write a segment to take and one to give back. No allocation after
//!   construction, except for a waiter's place in the queue.
//! - **Fairness**: each segment's word is first come, first served, with at most [`MAX_PASSES`] arrivals going past a waiter
//!   that is next in line ([`spanlock::rw_word`]): the aging that [SRL] §IV-B leaves open. A request of *n*
//!   segments queues at up to *n* words, one after the other.
//! - **Waiting**: spins for about a microsecond, then sleeps.
//! - **Memory**: 4 bytes a segment; a page of them is used only once one of its 1,024 segments is.
//!
//! # Invariants
//! - **S-I1** A hold of a span holds the words of all segments that it touches, with its access. Two spans that overlap touch a common
//!   segment, so by [`RwWord`]'s exclusion conflicting holds exclude each other, and by its visibility the later
//!   sees what the earlier did.
//! - **S-I2** Words are taken in ascending order, and a request waits for one word at a time, holding only words before it. So
//!   whoever waits at word *i* waits for holders of *i* or for waiters ahead in its queue, who hold only
//!   words up to *i*, and wait, if at all, at *i* or after it: no circle.
//! - **S-I3** A failed try has released what it took.
//!
//! It has no atomics of its own; orderings: [`spanlock::rw_word`].
//!
//! # Not promised
//! A request that waits holds its lower segments already, as in the paper: a try on those fails, though the
//! request is not granted yet. Two tries at the same time may both fail.
//!
//! # Models
//! In `verify/`, rows `srl-array/…`:
//!
//! | pair of operations | properties |
//! |---|---|
//! | write, write | `exclusion` (overlap in one segment), `deadlock` (two segments each), `overlap-3`, `exclusion-3` |
//! | write, read | `exclusion-read-write`, `wakeup`, `last-reader-wakes` |
//! | read, read | `readers-share` |
//! | disjoint, any | `disjoint` |
//! | try, any | `visibility`, `try-leaves-no-trace` |
//!
//! [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905
//! [`MAX_PASSES`]: spanlock::rw_word::MAX_PASSES

use spanlock::rw_word::{self, RwWord};
use spanlock::{
    Access, RangeError, RawRangeLock, RawRangeLockDowngrade, RawRangeLockSplit,
    RawRangeLockUpgrade, Span, Token, TryLockError,
};
use spanlock_sync::atomic::zeroed_slice;
use spanlock_sync::wait::WaitQueue;

use crate::segment::{SegmentError, Segments};

/// A range lock with a reader-writer word for each segment of a fixed capacity.
///
/// ```
/// use spanlock::{RangeLockExt, RangeError};
/// use spanlock_srl::SrlArray;
///
/// let lock = SrlArray::new(1 << 20)?; // 1 MiB in segments of 4 KiB
/// let first = lock.write(0..4096)?;
/// let second = lock.write(4096..8192)?; // another segment: does not wait
/// assert!(lock.try_read(4000..5000).is_err());
/// drop((first, second));
/// assert!(lock.try_read(4000..5000).is_ok());
/// assert!(matches!(lock.read(0..1 << 21), Err(RangeError::PastCapacity { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SrlArray {
    /// As many as `segments.count()`.
    words: Box<[RwWord]>,
    segments: Segments,
    queue: WaitQueue,
}

impl SrlArray {
    /// A lock for positions `0..capacity`, in segments of 4 KiB.
    ///
    /// # Errors
    /// [`SegmentError::Memory`] if there is no memory for its words.
    pub fn new(capacity: u64) -> Result<Self, SegmentError> {
        Self::with_segment_size(capacity, Segments::DEFAULT_SIZE)
    }

    /// A lock for positions `0..capacity`, in segments of `size`.
    ///
    /// # Errors
    /// [`SegmentError::Size`] if `size` is not a power of two, [`SegmentError::Memory`] if there is no memory for
    /// the words.
    pub fn with_segment_size(capacity: u64, size: u64) -> Result<Self, SegmentError> {
        let segments = Segments::new(capacity, size)?;
        let count = segments.count();
        let words = usize::try_from(count).ok().and_then(zeroed_slice);
        let words = words.ok_or(SegmentError::Memory {
            segments: count,
            capacity,
        })?;
        Ok(SrlArray {
            words,
            segments,
            queue: WaitQueue::new(),
        })
    }

    /// How positions map to segments.
    pub fn segments(&self) -> Segments {
        self.segments
    }

    /// Bytes that the words take: 4 a segment ([SRL] Equation 3 without the tree).
    ///
    /// [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905
    pub fn memory_usage(&self) -> usize {
        size_of_val(&*self.words)
    }

    /// The words of the segments that `span` touches, in ascending order, and the token that finds them again.
    #[inline]
    fn words(&self, span: Span) -> Result<(&[RwWord], Token), RangeError> {
        let touched = self.segments.touched(span)?;
        // In bounds: `touched` lies below `count`, which is the number of words.
        let words = &self.words[touched.start as usize..touched.end as usize];
        Ok((words, token_of(words)))
    }

    /// The words of a hold. Starts from the address that the token kept: after a read-modify-write the processor is
    /// slow to load anything, so a release that looks nothing up is measurably cheaper.
    ///
    /// # Safety
    /// `token` is the one that [`words`](Self::words) returned for `span`.
    #[inline]
    unsafe fn held(&self, span: Span, token: Token) -> &[RwWord] {
        let touched = self.segments.of(span);
        let first = core::ptr::with_exposed_provenance(token.into_word());
        // SAFETY: the caller's token is the address of the first of the words that `span` touches; they
        // lie one after the other in `self.words`, which nobody changes or moves while `self` lives.
        unsafe { core::slice::from_raw_parts(first, (touched.end - touched.start) as usize) }
    }
}

// SAFETY: 1, 2: S-I1. 3, 4: the words know no owner, and are found again from the token.
unsafe impl RawRangeLock for SrlArray {
    #[inline]
    fn capacity(&self) -> u64 {
        self.segments.capacity()
    }

    #[inline]
    fn granularity(&self) -> u64 {
        self.segments.size()
    }

    #[inline]
    fn lock(&self, span: Span, access: Access) -> Result<Token, RangeError> {
        let (words, token) = self.words(span)?;
        rw_word::lock_all(words.iter(), access, &self.queue);
        Ok(token)
    }

    #[inline]
    fn try_lock(&self, span: Span, access: Access) -> Result<Token, TryLockError> {
        let (words, token) = self.words(span)?;
        let taken = rw_word::try_lock_all(words.iter(), access, &self.queue);
        taken.then_some(token).ok_or(TryLockError::WouldBlock)
    }

    #[inline]
    unsafe fn unlock(&self, span: Span, access: Access, token: Token) {
        // SAFETY: the caller holds the span, hence the words of its segments (S-I1), which its token names.
        unsafe { rw_word::unlock_all(self.held(span, token).iter(), access, &self.queue) }
    }
}

// SAFETY: each word goes from one hold to the other in one step (S-I1).
unsafe impl RawRangeLockDowngrade for SrlArray {
    unsafe fn downgrade(&self, span: Span, from: Access, token: Token) -> Token {
        // SAFETY: the caller holds the words of the span with `from`, which is not `Read`.
        unsafe {
            let words = self.held(span, token).iter();
            rw_word::downgrade_all(words, from, Access::Read, &self.queue);
        }
        token
    }
}

// SAFETY: each word goes from one hold to the other in one step, or all go back to the first (S-I1).
unsafe impl RawRangeLockUpgrade for SrlArray {
    unsafe fn try_upgrade(&self, span: Span, from: Access, token: Token) -> Result<Token, Token> {
        // SAFETY: the caller holds the words of the span with `from`, which is not `Write`.
        let upgraded =
            unsafe { rw_word::try_upgrade_all(self.held(span, token).iter(), from, &self.queue) };
        if upgraded { Ok(token) } else { Err(token) }
    }
}

// SAFETY: the words of what is kept are not touched.
unsafe impl RawRangeLockSplit for SrlArray {
    unsafe fn shrink(&self, span: Span, access: Access, token: Token, keep: Span) -> Token {
        // SAFETY: the caller holds the words of the span (S-I1).
        let words = unsafe { self.held(span, token) };
        let (all, kept) = (self.segments.of(span), self.segments.of(keep));
        let (below, rest) = words.split_at((kept.start - all.start) as usize);
        let (kept, above) = rest.split_at((kept.end - kept.start) as usize);
        // SAFETY: the caller gives up what no part of `keep` touches.
        unsafe {
            rw_word::unlock_all(below.iter().chain(above), access, &self.queue);
        }
        token_of(kept)
    }

    unsafe fn split(&self, span: Span, _access: Access, token: Token, at: u64) -> (Token, Token) {
        // SAFETY: the caller holds the words of the span (S-I1).
        let words = unsafe { self.held(span, token) };
        let below = (at >> self.segments.size().trailing_zeros()) - self.segments.of(span).start;
        let (below, above) = words.split_at(below as usize);
        (token_of(below), token_of(above))
    }
}

/// The token of a hold of `words`: the address of the first.
#[inline]
fn token_of(words: &[RwWord]) -> Token {
    Token::new(words.as_ptr().expose_provenance())
}
