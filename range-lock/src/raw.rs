//! The raw side of the contract: what a range lock's state machine implements.
//!
//! A raw lock knows spans and holds, never data or lifetimes. The typed guards stand on it
//! ([`crate::RangeLockExt`], [`crate::RangeLock`]).
//!
//! One trait serves static and run-time choice alike: [`RawRangeLock`] is `dyn`-usable, because what
//! a hold must remember until its release fits one word, the [`Token`].

use core::fmt;
use core::num::NonZeroU64;
use core::ops::Range;

use crate::detect::LockId;
use crate::error::{RangeError, TryLockError};

/// How a span is taken; in the order of strength.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Access {
    /// Shared with other readers.
    Read,
    /// Shared with readers, and can become exclusive: at most one holds a position so.
    Upgradable,
    /// Exclusive.
    Write,
}

impl Access {
    /// Whether two holds of one position exclude each other: they do unless one reads and the other
    /// does not write.
    #[inline]
    pub const fn conflicts_with(self, other: Access) -> bool {
        !matches!(
            (self, other),
            (Access::Read, Access::Read | Access::Upgradable) | (Access::Upgradable, Access::Read)
        )
    }
}

/// A half-open range `start..end` that is known to be in order and not empty.
///
/// The unit is the caller's: bytes of a file, elements of a slice, blocks of a device. Every range
/// enters the library through [`Span::new`], so a raw lock never sees a reversed or an empty one.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span {
    start: u64,
    // `end > start >= 0`: the niche makes `Option<Span>` (an empty range is `None`) 16 bytes.
    end: NonZeroU64,
}

impl Span {
    /// Everything that a range can name: `0..u64::MAX`.
    pub const FULL: Span = Span {
        start: 0,
        end: NonZeroU64::MAX,
    };

    /// The span of `range`, or `None` if it is empty.
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

    /// The first position.
    #[inline]
    pub const fn start(self) -> u64 {
        self.start
    }

    /// One past the last position.
    #[inline]
    pub const fn end(self) -> u64 {
        self.end.get()
    }

    /// How many positions; never 0.
    #[inline]
    #[allow(clippy::len_without_is_empty)]
    pub const fn len(self) -> u64 {
        self.end.get() - self.start
    }

    /// Whether every position of `other` is one of this span.
    #[inline]
    pub const fn contains(self, other: Span) -> bool {
        self.start <= other.start && other.end.get() <= self.end.get()
    }

    /// Whether the two spans share a position. The only definition of overlap in the library.
    #[inline]
    pub const fn overlaps(self, other: Span) -> bool {
        self.start < other.end.get() && other.start < self.end.get()
    }

    /// The span rounded outwards to multiples of `granularity` and cut off at `capacity`, where it ends at or before: what a lock
    /// of that granularity really takes.
    ///
    /// A granularity of 0 counts as 1.
    #[inline]
    pub const fn rounded(self, granularity: u64, capacity: u64) -> Span {
        let unit = if granularity == 0 { 1 } else { granularity };
        let past = self.end.get() % unit;
        let up = if past == 0 { 0 } else { unit - past };
        let up = self.end.get().saturating_add(up);
        let cut = if up < capacity { up } else { capacity };
        let end = if cut > self.end.get() {
            cut
        } else {
            self.end.get()
        };
        Span {
            start: self.start - self.start % unit,
            end: match NonZeroU64::new(end) {
                Some(end) => end,
                None => self.end,
            },
        }
    }

    /// The span as a range.
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

/// What a hold must remember until its release: one word, the lock's own affair.
///
/// A slot number, a node's address, or nothing.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
#[must_use = "the token is what releases the hold"]
pub struct Token(usize);

impl Token {
    /// For locks that find everything again from the span.
    pub const NONE: Token = Token(0);

    /// A token that carries `word`.
    #[inline]
    pub const fn new(word: usize) -> Token {
        Token(word)
    }

    /// The word given to [`Token::new`].
    #[inline]
    pub const fn into_word(self) -> usize {
        self.0
    }
}

/// A range lock's state machine.
///
/// # Safety
/// Between the return of `lock` or `try_lock` (with `Ok`) and the call of `unlock` with the same
/// arguments the span is *held*. An implementation guarantees:
/// 1. **Exclusion.** Two holds whose spans [overlap](Span::overlaps) and whose accesses
///    [conflict](Access::conflicts_with) never exist at once.
/// 2. **Visibility.** Everything done before an `unlock` happens-before everything done after any later
///    `lock` or `try_lock` that conflicts with that hold.
/// 3. **A forgotten hold** (no `unlock`) stays held for ever and breaks nothing else.
/// 4. A hold may be released by another thread than the one that took it.
///
/// What the library expects beyond safety (progress, bounded overtaking, a try that leaves no trace)
/// is listed in the crate's documentation, and checked by the models.
pub unsafe trait RawRangeLock: Send + Sync {
    /// One past the last position that this lock can hold.
    fn capacity(&self) -> u64;

    /// Ranges block each other as if they were rounded outwards to multiples of this: 1 for a lock of exact ranges, the
    /// segment size for segments, `u64::MAX` for a lock of everything.
    fn granularity(&self) -> u64 {
        1
    }

    /// What the feature `deadlock-detection` knows this lock by, if the lock has a [`LockId`].
    #[inline]
    fn id(&self) -> Option<&LockId> {
        None
    }

    /// Takes `span`, blocking until no conflicting hold is left.
    ///
    /// Ordering: Acquire, towards the `unlock` of every earlier conflicting hold.
    ///
    /// # Errors
    /// [`RangeError::PastCapacity`] if `span` ends past [`capacity`](Self::capacity); nothing is held.
    fn lock(&self, span: Span, access: Access) -> Result<Token, RangeError>;

    /// Takes `span` if no conflicting hold or request stands in the way; never blocks.
    ///
    /// Ordering: Acquire on success, none on failure.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if it would have to wait, [`TryLockError::Range`] as in
    /// [`lock`](Self::lock). Nothing is held and nobody waits for it.
    fn try_lock(&self, span: Span, access: Access) -> Result<Token, TryLockError>;

    /// Gives a hold back and wakes whom it unblocked. Ordering: Release.
    ///
    /// # Safety
    /// `span` is held with `access`, and `token` is the one that taking it returned; each hold is
    /// released at most once.
    unsafe fn unlock(&self, span: Span, access: Access, token: Token);
}
