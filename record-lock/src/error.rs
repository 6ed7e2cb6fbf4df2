//! Why a call fails.

use crate::hold::Hold;

/// Why a call fails. No bytes were locked or unlocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A hold of another owner conflicts with the request (`EAGAIN`).
    #[error("{0} conflicts with the request")]
    Conflict(Hold),
    /// If the request waited for this hold, its owner would wait for itself (`EDEADLK`). Of the
    /// holds of which this is true, it is the one that starts first.
    #[error(
        "{0} conflicts with the request, and its owner waits, also through others, for this one"
    )]
    Deadlock(Hold),
    /// The deadline passed before the request was granted.
    #[error("the deadline passed before the bytes were free")]
    TimedOut,
    /// The owner was released before the request was granted.
    #[error("the owner was released before the request was granted")]
    Released,
    /// The table has an owner of this id already.
    #[error("the table has an owner {id} already: release it first")]
    OwnerExists {
        /// The id.
        id: u64,
    },
    /// The range ends before it starts.
    #[error("the range is reversed: it starts at byte {start}, and ends before byte {end}")]
    Reversed {
        /// The start of the range.
        start: u64,
        /// The end of the range, which is not part of it.
        end: u64,
    },
    /// The range would end past the last byte that its protocol can name (`EOVERFLOW`,
    /// `NFS4ERR_INVAL`, `STATUS_INVALID_LOCK_RANGE`).
    #[error("a range of {length} bytes from {offset} on ends past the last byte, {last}")]
    PastLast {
        /// The start of the range.
        offset: u64,
        /// The number of bytes.
        length: u64,
        /// The last byte of the protocol.
        last: u64,
    },
    /// The range would begin before byte 0 (`EINVAL`).
    #[error("start {start}, length {length}: the range begins before byte 0")]
    BeforeFirst {
        /// The start of the request.
        start: i64,
        /// The length of the request, which is negative if the range ends at `start`.
        length: i64,
    },
    /// The protocol has no range of zero bytes (`NFS4ERR_INVAL`).
    #[error("the range at {offset} has no bytes, and NFS forbids that")]
    NoBytes {
        /// The start of the range.
        offset: u64,
    },
    /// There is no memory (`ENOLCK`). Later, there may be.
    #[error("no memory for one more lock or owner")]
    Memory,
}

impl From<std::collections::TryReserveError> for Error {
    fn from(_: std::collections::TryReserveError) -> Self {
        Error::Memory
    }
}
