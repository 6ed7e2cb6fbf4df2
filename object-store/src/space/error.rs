//! The errors of a space.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use spanlock_journal_commit::compact;
use spanlock_range_lock::RangeError;
use thiserror::Error;

use super::MAX_VECTORS;

/// Why an operation of a [`Space`](super::Space) failed.
///
/// An operation that fails changes nothing, except after [`Failed`](Error::Failed): then the next
/// opening finds the whole batch or none of it.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The medium has no superblock of a space.
    #[error(
        "no space here: neither byte 0 nor byte 4096 of the medium has a sound superblock; \
         create a space, or open the medium that has one"
    )]
    NotASpace,
    /// The medium already holds a space.
    #[error("the medium already holds a space: open it, or erase its first 8192 bytes first")]
    Occupied,
    /// Another version of this crate wrote the space.
    #[error("the space has format version {found}, but this build reads version {supported}")]
    Version {
        /// The version in the superblock.
        found: u32,
        /// The version that this build reads and writes.
        supported: u32,
    },
    /// An option, or the size of the medium, cannot be used.
    #[error("cannot create a space: {what} is {found}, but must be {wanted}")]
    BadOption {
        /// The option.
        what: &'static str,
        /// Its value.
        found: u64,
        /// The values it may have.
        wanted: &'static str,
    },
    /// The file system cannot punch holes, or allocates the whole length of a file.
    #[error(
        "this file system has no sparse files: {why}; put the space on ext4, xfs, btrfs or tmpfs"
    )]
    NoHoles {
        /// What the file system refused.
        why: String,
    },
    /// The medium does not hold what was written there.
    #[error("the space is damaged: {what}, at byte {at} of the medium; restore it from a copy")]
    Corrupt {
        /// What is damaged.
        what: &'static str,
        /// The byte offset of the damage.
        at: u64,
    },
    /// The range is reversed, or ends past the end of the space.
    #[error("the range {}..{} does not lie in the space, which ends at {size}", range.start, range.end)]
    OutOfRange {
        /// The range, in bytes.
        range: Range<u64>,
        /// The size of the space in bytes.
        size: u64,
    },
    /// The range of a trim does not begin and end at a block.
    #[error("the trim of {}..{} must begin and end at a multiple of {block} bytes", range.start, range.end)]
    Unaligned {
        /// The range, in bytes.
        range: Range<u64>,
        /// The bytes of a block.
        block: u32,
    },
    /// The batch has more vectors than one batch may have.
    #[error("the batch has {found} vectors, but at most {MAX_VECTORS} are atomic: split it")]
    TooManyVectors {
        /// The vectors of the batch.
        found: usize,
    },
    /// Two vectors of the batch overlap.
    #[error("the vectors {}..{} and {}..{} of one batch overlap", first.start, first.end, second.start, second.end)]
    Overlap {
        /// The first vector's range.
        first: Range<u64>,
        /// The second vector's range.
        second: Range<u64>,
    },
    /// A vector lies outside the ranges that were held for it.
    #[error("{}..{} is not held {how}: name it when you call `hold`", range.start, range.end)]
    NotHeld {
        /// The range, in bytes.
        range: Range<u64>,
        /// The access that is missing.
        how: &'static str,
    },
    /// The record of the batch would take more than a quarter of a ring.
    #[error(
        "the batch needs a record of {record} bytes, but at most {max} fit: split it, or create the space with larger rings"
    )]
    TooLong {
        /// The bytes of the record.
        record: u64,
        /// The most bytes that a record may have.
        max: u64,
    },
    /// Too few places are free.
    #[error(
        "no space: the batch needs {needed} blocks, but only {free} are free; trim blocks that are no longer needed"
    )]
    NoSpace {
        /// The blocks that the batch writes.
        needed: u64,
        /// The free blocks.
        free: u64,
    },
    /// The range lock refused the request.
    #[error("the range lock refused a range: {0}")]
    Lock(#[from] RangeError),
    /// The medium failed, and nothing has changed.
    #[error("{during} failed: {cause}")]
    Io {
        /// The operation that failed.
        during: &'static str,
        /// The medium's error.
        #[source]
        cause: Arc<io::Error>,
    },
    /// The medium failed, now or earlier, in such a way that memory no longer knows what it holds.
    /// The space can still be read, with the content before the batch that failed.
    #[error("the space has failed: {why}; open it again to learn what is durable")]
    Failed {
        /// The failure.
        why: String,
    },
    /// A ring of the space cannot be opened or created.
    #[error("a ring of the space: {0}")]
    Ring(#[source] compact::Error),
}

impl Error {
    pub(super) fn corrupt(what: &'static str, at: u64) -> Error {
        Error::Corrupt { what, at }
    }

    pub(super) fn io(during: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |cause| Error::Io {
            during,
            cause: Arc::new(cause),
        }
    }
}
