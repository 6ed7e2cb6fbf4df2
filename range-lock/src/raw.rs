//! The raw side of the contract: the state machine that a range lock implements.
//!
//! A raw lock knows spans and holds, never data or lifetimes. The typed guards are built on it
//! ([`crate::RangeLockExt`], [`crate::RangeLock`]).
//!
//! One trait serves both static and run-time choice of a lock. [`RawRangeLock`] is `dyn`-compatible
//! because whatever a hold must remember until its release fits into one word, the [`Token`].

use core::fmt;
use core::num::NonZeroU64;
use core::ops::Range;

use crate::detect::LockId;
use crate::error::{RangeError, TryLockError};
use crate::words::for_each_surely;

/// The access with which a span is held, from weakest to strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// Shared with other readers.
    Read,
    /// Shared with readers, and can become exclusive. Each position has at most one upgradable
    /// hold.
    Upgradable,
    /// Exclusive.
    Write,
}

impl Access {
    /// Returns whether two holds of one position exclude each other. Two reads never do, nor do a
    /// read and an upgradable read; all other pairs do.
    #[inline]
    pub const fn conflicts_with(self, other: Access) -> bool {
        !matches!(
            (self, other),
            (Access::Read, Access::Read | Access::Upgradable) | (Access::Upgradable, Access::Read)
        )
    }
}

/// A half-open range `start..end` that is in order and not empty.
///
/// The unit is the caller's: bytes of a file, elements of a slice, blocks of a device. Every range
/// enters the library through [`Span::new`], so a raw lock never sees a reversed or an empty one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span {
    start: u64,
    // `end > start >= 0`: the niche keeps `Option<Span>` (`None` for an empty range) at 16 bytes.
    end: NonZeroU64,
}

impl Span {
    /// The widest range: `0..u64::MAX`.
    pub const FULL: Span = Span {
        start: 0,
        end: NonZeroU64::MAX,
    };

    /// Returns the span of `range`, or `None` if the range is empty.
    ///
    /// # Errors
    /// [`RangeError::Reversed`] if `range.start > range.end`.
    #[inline]
    pub const fn new(range: Range<u64>) -> Result<Option<Span>, RangeError> {
        if range.start < range.end {
            match NonZeroU64::new(range.end) {
                Some(end) => Ok(Some(Span {
                    start: range.start,
                    end,
                })),
                None => Ok(None),
            }
        } else if range.start == range.end {
            Ok(None)
        } else {
            Err(RangeError::Reversed {
                start: range.start,
                end: range.end,
            })
        }
    }

    /// Returns the first position.
    #[inline]
    pub const fn start(self) -> u64 {
        self.start
    }

    /// Returns one past the last position.
    #[inline]
    pub const fn end(self) -> u64 {
        self.end.get()
    }

    /// Returns the number of positions, never 0.
    #[inline]
    #[allow(clippy::len_without_is_empty)]
    pub const fn len(self) -> u64 {
        self.end.get() - self.start
    }

    /// Returns whether this span contains every position of `other`.
    #[inline]
    pub const fn contains(self, other: Span) -> bool {
        self.start <= other.start && other.end.get() <= self.end.get()
    }

    /// Returns whether the two spans share a position. This is the library's only definition of
    /// overlap.
    #[inline]
    pub const fn overlaps(self, other: Span) -> bool {
        self.start < other.end.get() && other.start < self.end.get()
    }

    /// Returns the span that a lock of this granularity locks in place of this one: rounded
    /// outwards to multiples of `granularity`. Rounding never moves the end past `capacity`; a span
    /// that already ends past it keeps its end.
    ///
    /// A granularity of 0 counts as 1.
    #[inline]
    pub const fn rounded(self, granularity: u64, capacity: u64) -> Span {
        let unit = if granularity == 0 { 1 } else { granularity };
        // A division takes longer than locking a word.
        let [before, past] = if unit.is_power_of_two() {
            [self.start & (unit - 1), self.end.get() & (unit - 1)]
        } else {
            [self.start % unit, self.end.get() % unit]
        };
        let up = if past == 0 { 0 } else { unit - past };
        let up = self.end.get().saturating_add(up);
        let cut = if up < capacity { up } else { capacity };
        let end = if cut > self.end.get() {
            cut
        } else {
            self.end.get()
        };
        Span {
            start: self.start - before,
            end: match NonZeroU64::new(end) {
                Some(end) => end,
                None => self.end,
            },
        }
    }

    /// Returns the span from the start of this one to the end of `last`, which ends no earlier.
    #[inline]
    pub(crate) const fn up_to(self, last: Span) -> Span {
        Span {
            start: self.start,
            end: last.end,
        }
    }

    /// Returns the span as a range.
    #[inline]
    pub const fn range(self) -> Range<u64> {
        self.start..self.end.get()
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

/// One word that a hold must remember until its release. Its meaning is private to the lock.
///
/// For example a slot number, the address of a node, or nothing.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
#[must_use = "the token is what releases the hold"]
pub struct Token(usize);

impl Token {
    /// The token of locks that need only the span to release a hold.
    pub const NONE: Token = Token(0);

    /// Returns a token that carries `word`.
    #[inline]
    pub const fn new(word: usize) -> Token {
        Token(word)
    }

    /// Returns the word given to [`Token::new`].
    #[inline]
    pub const fn into_word(self) -> usize {
        self.0
    }
}

/// The state machine of a range lock.
///
/// # Safety
/// A span is *held* from the return of `lock` or `try_lock` (with `Ok`) until the call of `unlock`
/// with the same arguments. An implementation guarantees:
/// 1. **Exclusion.** Two holds whose spans [overlap](Span::overlaps) and whose accesses
///    [conflict](Access::conflicts_with) never exist at once.
/// 2. **Visibility.** Everything done before an `unlock` happens-before everything done after any
///    later `lock` or `try_lock` that conflicts with that hold.
/// 3. **Forgotten holds.** A hold without an `unlock` stays held for ever and breaks nothing else.
/// 4. **Any thread may release.** A hold may be released by another thread than the one that
///    acquired it.
///
/// The crate's documentation lists what the library expects beyond safety: progress, bounded
/// overtaking, tries that leave no trace. The models check it.
pub unsafe trait RawRangeLock: Send + Sync {
    /// Returns one past the last position that this lock can hold.
    fn capacity(&self) -> u64;

    /// Returns the lock's granularity: ranges block each other as if rounded outwards to multiples
    /// of it. It is 1 for exact ranges, the segment size for segments, and `u64::MAX` for a
    /// whole-range lock.
    fn granularity(&self) -> u64 {
        1
    }

    /// Returns the lock's identity for the feature `deadlock-detection`, if it has a [`LockId`].
    #[inline]
    fn id(&self) -> Option<&LockId> {
        None
    }

    /// Returns how many readers, an upgradable one included, can hold a position at the same time:
    /// one more waits, although it conflicts with none of them. `u32::MAX` means no limit.
    ///
    /// For the feature `deadlock-detection`, which asks for each hold of `span`, with its token,
    /// and for each request of [`lock`](Self::lock), without one. The result is `u32::MAX` as well
    /// for a hold that does not count among these readers, and for a request that does not wait
    /// until one of them leaves.
    fn reader_limit(&self, _span: Span, _token: Option<Token>) -> u32 {
        u32::MAX
    }

    /// Acquires `span`, blocking until no conflicting hold is left.
    ///
    /// Ordering: Acquire, with respect to the `unlock` of every earlier conflicting hold.
    ///
    /// # Errors
    /// [`RangeError::PastCapacity`] if `span` ends past [`capacity`](Self::capacity),
    /// [`RangeError::Memory`] if there is no memory for the request; nothing is held then.
    fn lock(&self, span: Span, access: Access) -> Result<Token, RangeError>;

    /// Acquires `span` unless a conflicting hold or request stands in the way. Never blocks.
    ///
    /// Ordering: Acquire on success, none on failure.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if it would have to wait, [`TryLockError::Range`] as for
    /// [`lock`](Self::lock). Then nothing is held, and no other request waits for this one.
    fn try_lock(&self, span: Span, access: Access) -> Result<Token, TryLockError>;

    /// Releases a hold and wakes the waiters it unblocks. Ordering: Release.
    ///
    /// # Safety
    /// `span` is held with `access`, and `token` was returned when it was acquired. Each hold is
    /// released at most once.
    unsafe fn unlock(&self, span: Span, access: Access, token: Token);

    /// Releases several holds, as [`unlock`](Self::unlock) does one after the other. If a waker
    /// panics, the others are released all the same. Ordering: Release.
    ///
    /// A lock in which one step can release them all overrides this.
    ///
    /// # Safety
    /// As for [`unlock`](Self::unlock), for each span with its access and the token at its index.
    /// There are as many tokens as spans.
    #[inline]
    unsafe fn unlock_all(&self, batch: &[(Span, Access)], tokens: &[Token]) {
        for_each_surely(batch.iter().zip(tokens), |(&(span, access), &token)| {
            // SAFETY: the caller's promise.
            unsafe { self.unlock(span, access, token) }
        });
    }
}
