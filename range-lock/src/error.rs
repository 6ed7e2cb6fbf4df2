//! What can be wrong with a range.

use thiserror::Error;

/// A range that no lock can take. Nothing was locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RangeError {
    /// The range ends before it starts.
    #[error("range {start}..{end} is reversed: it ends before it starts")]
    Reversed {
        /// Its start.
        start: u64,
        /// Its end.
        end: u64,
    },
    /// The range ends past what the lock covers.
    #[error("range {start}..{end} ends past the lock's capacity of {capacity}")]
    PastCapacity {
        /// Its start.
        start: u64,
        /// Its end.
        end: u64,
        /// One past the last position that the lock covers.
        capacity: u64,
    },
    /// The range would end past `u64::MAX`.
    #[error("{len} positions from {start} on end past the last position that there is")]
    Overflow {
        /// Its start.
        start: u64,
        /// How many positions it was to have.
        len: u64,
    },
}

/// Why a `try_` method took nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TryLockError {
    /// A conflicting hold, or a request that comes first, stands in the way.
    #[error("the range is held or requested by another")]
    WouldBlock,
    /// No lock could take this range, now or later.
    #[error(transparent)]
    Range(#[from] RangeError),
}

/// Why a request with a deadline took nothing.
#[cfg(feature = "std")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TimedLockError {
    /// The range was held or requested by another until the deadline had passed.
    #[error("the range could not be taken before the deadline")]
    TimedOut,
    /// No lock could take this range, now or later.
    #[error(transparent)]
    Range(#[from] RangeError),
}

/// Why a hold cannot be cut as asked. The hold is as before.
///
/// Positions are those that the method takes: of the lock for a hold, of the slice for a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PartError {
    /// The part ends before it starts.
    #[error("{start}..{end} is reversed: it ends before it starts")]
    Reversed {
        /// Its start.
        start: u64,
        /// Its end.
        end: u64,
    },
    /// The part, or the place to cut at (then `start` is `end`), does not lie within what is held.
    #[error("{start}..{end} does not lie within {held_start}..{held_end}, which is held")]
    Outside {
        /// The start of the part.
        start: u64,
        /// Its end.
        end: u64,
        /// The start of what is held.
        held_start: u64,
        /// Its end.
        held_end: u64,
    },
    /// The two parts would share a unit of the lock, which only one can hold.
    #[error("{at} is no multiple of {granularity}, the lock's granularity")]
    Unaligned {
        /// The place to cut at, as a position of the lock.
        at: u64,
        /// The lock's [granularity](crate::RawRangeLock::granularity).
        granularity: u64,
    },
}
