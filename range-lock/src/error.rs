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
