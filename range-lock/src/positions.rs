//! What the methods accept as a range: every range type of `core::ops`, over several integers.

use core::ops::{
    Bound, Range, RangeBounds, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive,
};

use crate::error::{PartError, RangeError};
use crate::raw::{RawRangeLock, Span};

pub(crate) mod sealed {
    pub trait Sealed {}
}

/// A range of positions: `a..b`, `a..=b`, `a..`, `..b`, `..=b` or `..`, over any [`Position`].
///
/// A missing start is the first position of the lock, slice or hold, and a missing end is the end
/// of it.
///
/// ```
/// use spanlock_range_lock::{RangeLockExt, RwCounter};
///
/// let lock = RwCounter::new();
/// let (offset, len) = (4096_u32, 512_usize);
/// drop(lock.write(offset..offset + 512)?);
/// drop(lock.write(0..len)?);
/// drop(lock.write(0..=4095_u64)?);
/// drop(lock.read(4096..)?);
/// drop(lock.read(..len)?);
/// drop(lock.read(..)?);
/// # Ok::<(), spanlock_range_lock::RangeError>(())
/// ```
///
/// # Integer literals
/// Where nothing else gives the type of a literal, Rust makes it an `i32`. So give one of the
/// bounds a type if positions may exceed `i32::MAX`, as in `0..4_u64 << 30`. Without one, the
/// compiler rejects literals and sums that are too large. But it does not check the value of a
/// shift: `0..4 << 30` is empty.
///
/// Sealed.
pub trait IntoRange: sealed::Sealed {
    /// Returns the bounds as positions.
    #[doc(hidden)]
    fn bounds(self) -> Result<Bounds, RangeError>;
}

/// An integer that [`IntoRange`] accepts as a position: `u32`, `u64`, `usize`, and `i32`, which is
/// the type of integer literals. A negative position is an error. Sealed.
pub trait Position: Copy + sealed::Sealed {
    /// Returns the position.
    #[doc(hidden)]
    fn position(self) -> Result<u64, RangeError>;
}

macro_rules! position {
    ($($unsigned:ty),*) => {
        $(
            impl sealed::Sealed for $unsigned {}
            impl Position for $unsigned {
                #[inline(always)]
                fn position(self) -> Result<u64, RangeError> {
                    Ok(self as u64)
                }
            }
        )*
    };
}

position!(u32, u64, usize);

impl sealed::Sealed for i32 {}
impl Position for i32 {
    #[inline(always)]
    fn position(self) -> Result<u64, RangeError> {
        u64::try_from(self).map_err(|_| RangeError::Negative { at: self })
    }
}

macro_rules! range {
    ($($range:ident),*) => {
        $(
            impl<T: Position> sealed::Sealed for $range<T> {}
            impl<T: Position> IntoRange for $range<T> {
                #[inline(always)]
                fn bounds(self) -> Result<Bounds, RangeError> {
                    Bounds::of(self.start_bound(), self.end_bound())
                }
            }
        )*
    };
}

range!(Range, RangeInclusive, RangeFrom, RangeTo, RangeToInclusive);

impl sealed::Sealed for RangeFull {}
impl IntoRange for RangeFull {
    #[inline(always)]
    fn bounds(self) -> Result<Bounds, RangeError> {
        let (start, end) = (None, None);
        Ok(Bounds { start, end })
    }
}

/// The half-open bounds of a range. `None` is a missing one.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Bounds {
    start: Option<u64>,
    end: Option<u64>,
}

impl Bounds {
    #[inline(always)]
    fn of<T: Position>(start: Bound<&T>, end: Bound<&T>) -> Result<Self, RangeError> {
        let start = match start {
            Bound::Unbounded => None,
            // No range above has an excluded start.
            Bound::Included(at) | Bound::Excluded(at) => Some(at.position()?),
        };
        let end = match end {
            Bound::Unbounded => None,
            Bound::Excluded(at) => Some(at.position()?),
            Bound::Included(at) => match at.position()?.checked_add(1) {
                Some(end) => Some(end),
                None => return Err(RangeError::LastPosition),
            },
        };
        Ok(Bounds { start, end })
    }

    /// Returns the bounds of a range that has both.
    #[inline(always)]
    pub(crate) fn between(start: u64, end: u64) -> Self {
        let (start, end) = (Some(start), Some(end));
        Bounds { start, end }
    }

    /// Returns the empty range at the start.
    pub(crate) fn as_empty(self) -> Range<u64> {
        let start = self.start.unwrap_or(0);
        start..start
    }

    /// Returns the range in something that ends at `end`, which is called only for a missing end.
    #[inline(always)]
    pub(crate) fn up_to(self, end: impl FnOnce() -> u64) -> Result<Range<u64>, RangeError> {
        let start = self.start.unwrap_or(0);
        let end = match self.end {
            Some(end) => end,
            None => {
                let capacity = end();
                if start > capacity {
                    let end = start;
                    return Err(RangeError::PastCapacity {
                        start,
                        end,
                        capacity,
                    });
                }
                capacity
            }
        };
        Ok(start..end)
    }
}

/// Returns the range of a slice of `len` elements, which contains it.
#[inline(always)]
pub(crate) fn in_slice(range: Bounds, len: usize) -> Result<Range<u64>, RangeError> {
    checked(range.up_to(|| len as u64)?, len as u64)
}

#[inline(always)]
fn checked(range: Range<u64>, capacity: u64) -> Result<Range<u64>, RangeError> {
    let Range { start, end } = range;
    if start > end {
        return Err(RangeError::Reversed { start, end });
    }
    if end > capacity {
        return Err(RangeError::PastCapacity {
            start,
            end,
            capacity,
        });
    }
    Ok(start..end)
}

/// Returns `range` in the positions of `lock`, which checks it against its capacity itself.
#[inline(always)]
pub(crate) fn in_lock<L: RawRangeLock + ?Sized>(
    range: impl IntoRange,
    lock: &L,
) -> Result<Range<u64>, RangeError> {
    range.bounds()?.up_to(|| lock.capacity())
}

/// Returns the span of `range` in the positions of `lock`, or `None` if the range is empty.
///
/// For locks and collections of locks that take ranges in methods of their own.
///
/// # Errors
/// The range is reversed, has a negative position, includes `u64::MAX`, or has no end and starts
/// past the lock's capacity. The lock checks other ends.
#[inline(always)]
pub fn span_in<L: RawRangeLock + ?Sized>(
    range: impl IntoRange,
    lock: &L,
) -> Result<Option<Span>, RangeError> {
    Span::new(in_lock(range, lock)?)
}

/// Returns `part`, which must lie within `held`.
pub(crate) fn in_hold(part: Bounds, held: Range<u64>) -> Result<Range<u64>, PartError> {
    let start = part.start.unwrap_or(held.start);
    let end = part.end.unwrap_or(held.end.max(start));
    if start > end {
        return Err(PartError::Reversed { start, end });
    }
    if start < held.start || end > held.end {
        return Err(PartError::Outside {
            start,
            end,
            held_start: held.start,
            held_end: held.end,
        });
    }
    Ok(start..end)
}
