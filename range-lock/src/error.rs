//! Why a request fails.

use alloc::collections::TryReserveError;

use thiserror::Error;

use crate::raw::{Access, Span};

/// A range that the lock cannot hold, or has no memory for. Nothing was locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RangeError {
    /// The range ends before it starts.
    #[error("range {start}..{end} is reversed: it ends before it starts")]
    Reversed {
        /// The start of the range.
        start: u64,
        /// The end of the range.
        end: u64,
    },
    /// The range ends past the lock's capacity.
    #[error("range {start}..{end} ends past the lock's capacity of {capacity}")]
    PastCapacity {
        /// The start of the range.
        start: u64,
        /// The end of the range.
        end: u64,
        /// One past the last position that the lock covers.
        capacity: u64,
    },
    /// A bound of the range is negative.
    #[error("the position {at} is negative")]
    Negative {
        /// The bound.
        at: i32,
    },
    /// The range includes the position `u64::MAX`, which no lock covers: its end would be one
    /// more.
    #[error("the range includes the position u64::MAX, which no lock covers")]
    LastPosition,
    /// The range would end past `u64::MAX`.
    #[error("a range of {len} positions from {start} on would end past the last position")]
    Overflow {
        /// The start of the range.
        start: u64,
        /// The requested number of positions.
        len: u64,
    },
    /// The columns of a block do not fit between two rows, so rows would overlap.
    #[error(
        "columns up to {end} do not fit into a stride of {stride} elements: rows would overlap"
    )]
    Stride {
        /// The end of the columns, in elements.
        end: u64,
        /// The distance from one row to the next, in elements.
        stride: u64,
    },
    /// The rows of a block end past `usize::MAX`.
    #[error("{rows} rows with a stride of {stride} elements end past usize::MAX")]
    Rows {
        /// The end of the rows.
        rows: u64,
        /// The distance from one row to the next, in elements.
        stride: u64,
    },
    /// Two rows of a batch of blocks overlap, so the batch cannot lend both.
    #[error("row {start}..{end} overlaps row {other_start}..{other_end} of the same batch")]
    Overlap {
        /// The start of the row.
        start: u64,
        /// The end of the row.
        end: u64,
        /// The start of the other row.
        other_start: u64,
        /// The end of the other row.
        other_end: u64,
    },
    /// There is no memory for the request. Later, there may be.
    #[error("no memory for a request for the range {start}..{end}; nothing was locked")]
    Memory {
        /// The start of the range.
        start: u64,
        /// The end of the range. For a batch, the range covers all its parts.
        end: u64,
    },
}

/// There is no memory. Nothing has changed.
///
/// A lock's implementation returns it where the caller knows the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no memory")]
pub struct NoMemory;

impl NoMemory {
    /// Returns the error of a request for `span`.
    #[cold]
    pub fn at(self, span: Span) -> RangeError {
        let core::ops::Range { start, end } = span.range();
        RangeError::Memory { start, end }
    }

    /// Returns the error of a batch, whose spans are in ascending order.
    #[cold]
    pub fn in_batch(self, batch: &[(Span, Access)]) -> RangeError {
        let start = batch.first().map_or(0, |(span, _)| span.start());
        let end = batch.last().map_or(0, |(span, _)| span.end());
        RangeError::Memory { start, end }
    }
}

impl From<TryReserveError> for NoMemory {
    fn from(_: TryReserveError) -> Self {
        NoMemory
    }
}

/// The reason why a `try_` method acquired nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TryLockError {
    /// A conflicting hold, or a request that comes first, is in the way.
    #[error("a conflicting hold or request is in the way")]
    WouldBlock,
    /// The range is invalid for this lock, or there is no memory for the request.
    #[error(transparent)]
    Range(#[from] RangeError),
}

/// The reason why a request with a deadline acquired nothing.
#[cfg(feature = "std")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TimedLockError {
    /// Conflicting holds or requests were in the way until the deadline had passed.
    #[error("the deadline passed before the range was free")]
    TimedOut,
    /// The range is invalid for this lock, or there is no memory for the request.
    #[error(transparent)]
    Range(#[from] RangeError),
}

#[cfg(feature = "std")]
impl From<TryLockError> for TimedLockError {
    /// A request that would have had to wait is one that had no time to.
    fn from(error: TryLockError) -> Self {
        match error {
            TryLockError::WouldBlock => TimedLockError::TimedOut,
            TryLockError::Range(error) => TimedLockError::Range(error),
        }
    }
}

/// The reason why a hold cannot be cut as asked. The hold is unchanged.
///
/// Positions are in the units of the method: positions of the lock for a hold, indices into the
/// slice for a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PartError {
    /// A bound of the part is not a position.
    #[error(transparent)]
    Range(#[from] RangeError),
    /// The part ends before it starts.
    #[error("{start}..{end} is reversed: it ends before it starts")]
    Reversed {
        /// The start of the part.
        start: u64,
        /// The end of the part.
        end: u64,
    },
    /// The part does not lie within the hold. For a place to cut at, `start` equals `end`.
    #[error("{start}..{end} does not lie within the held range {held_start}..{held_end}")]
    Outside {
        /// The start of the part.
        start: u64,
        /// The end of the part.
        end: u64,
        /// The start of the hold.
        held_start: u64,
        /// The end of the hold.
        held_end: u64,
    },
    /// Both parts would contain a piece of the same unit of the lock, which only one hold can own.
    #[error("cannot cut at {at}: not a multiple of the lock's granularity, {granularity}")]
    Unaligned {
        /// The place to cut at, as a position of the lock.
        at: u64,
        /// The lock's [granularity](crate::RawRangeLock::granularity).
        granularity: u64,
    },
    /// There is no memory for a second hold. Later, there may be.
    #[error("no memory to cut a hold in two at {at}")]
    Memory {
        /// The place to cut at, as a position of the lock.
        at: u64,
    },
}

/// The reason why a batch does not lend several of its ranges at once. Ranges have the index that
/// they have in the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DisjointError {
    /// The batch does not hold all of the range for writing.
    #[error("the batch does not hold all of range {index} for writing")]
    NotHeld {
        /// The index of the range.
        index: usize,
    },
    /// Two of the ranges overlap.
    #[error("ranges {index} and {other} overlap")]
    Overlap {
        /// The index of the first of the two.
        index: usize,
        /// The index of the second.
        other: usize,
    },
}
