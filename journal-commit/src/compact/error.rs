//! The errors of a log.

use std::io;
use std::sync::Arc;

use thiserror::Error;

use super::Lsn;

/// Why an operation of a [`Log`](super::Log) failed.
///
/// An error that refuses a record leaves the log unchanged. After [`Poisoned`](Error::Poisoned) and
/// [`Panicked`](Error::Panicked) no further record is acknowledged until the log is opened again.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The storage holds no log of this crate.
    #[error(
        "no log here: the storage of {len} bytes has no superblock of this crate, neither at its start nor at byte {at}; \
         create a log, or open the storage that has one",
        at = super::format::SLOTS[1]
    )]
    NotALog {
        /// The length of the storage.
        len: u64,
    },
    /// A crash has interrupted the creation of the log. No record was ever in it.
    #[error(
        "a crash has interrupted the creation of this log, so it never had a record: \
         create it again with `Log::create`"
    )]
    Unfinished,
    /// The storage is not empty, so no log may be created in it.
    #[error(
        "the storage may hold a log or other data: its first {bytes} bytes must be zero, or all of its \
         bytes if the options give an id; open the log, or zero the storage first",
        bytes = super::format::DATA
    )]
    Occupied,
    /// Another version of this crate wrote the log.
    #[error(
        "the log has format version {found}, but this build reads version {supported}: \
         open it with a build that reads version {found}"
    )]
    Version {
        /// The version in the superblock.
        found: u32,
        /// The version that this build reads and writes.
        supported: u32,
    },
    /// The storage is smaller than the log that was created in it.
    #[error(
        "the log has {expected} bytes, but the storage has only {found}: it was cut short; \
         restore the missing end before opening the log"
    )]
    CutShort {
        /// The storage's length according to the superblock.
        expected: u64,
        /// The number of bytes in the storage.
        found: u64,
    },
    /// The storage is too small for a log, or the value of an option is not allowed.
    #[error("cannot create a log: {what} is {found}, but must be {wanted}")]
    BadOption {
        /// The size or option.
        what: &'static str,
        /// Its value.
        found: u64,
        /// The values it may have.
        wanted: &'static str,
    },
    /// Acknowledged data is missing or differs from what was written. An incomplete batch at the
    /// end of the log, as a crash leaves it, is not an error.
    #[error(
        "the log is damaged: {what}, at byte {at} of the storage; the records before {lsn} are sound; \
         restore the storage from a copy, or discard the rest with `Log::salvage`"
    )]
    Corrupt {
        /// A description of the damage.
        what: &'static str,
        /// The byte offset of the damage in the storage.
        at: u64,
        /// The first missing record.
        lsn: Lsn,
    },
    /// No superblock is usable, so no record can be found.
    #[error(
        "the log cannot be opened: {what}, at byte {at} of the storage; \
         restore the storage from a copy, or give up the records with `Log::wipe`"
    )]
    BadSuperblock {
        /// A description of the damage.
        what: &'static str,
        /// The byte offset of a damaged superblock in the storage.
        at: u64,
    },
    /// A number in the superblock is so large that counting on from it could overflow. Only forgery
    /// explains it.
    #[error(
        "the log can only be read: a number in its superblock is {found}, which is too large for any real log; \
         copy the records to a new log"
    )]
    ReadOnly {
        /// The number.
        found: u64,
    },
    /// The record is larger than the whole log.
    #[error(
        "a record of {len} bytes does not fit into this log, which holds at most {max}: \
         split it, or create a larger log"
    )]
    RecordTooLarge {
        /// The record's length.
        len: usize,
        /// The length of the largest record that fits into the empty log.
        max: u64,
    },
    /// The log has no room for the record: truncate first.
    #[error(
        "the log is full: the record needs {needed} bytes and {free} are free; \
         truncate records that are no longer needed"
    )]
    Full {
        /// The bytes that the record would take, headers included.
        needed: u64,
        /// The free bytes.
        free: u64,
    },
    /// The record does not exist yet, or is not durable yet.
    #[error(
        "record {lsn} does not exist yet, or is not durable yet: the first such record is {next}"
    )]
    NotYet {
        /// The record that the caller named.
        lsn: Lsn,
        /// The first record that does not exist or is not durable.
        next: Lsn,
    },
    /// The record was truncated.
    #[error("record {lsn} was truncated: the first record that is left is {first}")]
    Truncated {
        /// The record that the caller named.
        lsn: Lsn,
        /// The first record that is left.
        first: Lsn,
    },
    /// The storage failed while the log was being created, opened, wiped or read. If opening or
    /// reading failed, no acknowledged record is lost. If creating or wiping failed, the storage's
    /// start may have changed.
    #[error("{during} failed: {cause}")]
    Io {
        /// The operation that failed.
        during: &'static str,
        /// The storage's error.
        #[source]
        cause: Arc<io::Error>,
    },
    /// The storage failed to write or to flush, now or earlier. Records that were not acknowledged
    /// may or may not be durable. Nothing is acknowledged until the log is opened again.
    #[error(
        "the log is poisoned, because {during} failed: {cause}; \
         open it again to learn what is durable"
    )]
    Poisoned {
        /// The operation that failed.
        during: &'static str,
        /// The storage's error.
        #[source]
        cause: Arc<io::Error>,
    },
    /// The storage panicked in another thread. This has the same consequences as
    /// [`Poisoned`](Error::Poisoned).
    #[error(
        "the log is poisoned, because the storage panicked; \
         open it again to learn what is durable"
    )]
    Panicked,
}

impl Error {
    pub(super) fn io(during: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |cause| Error::Io {
            during,
            cause: Arc::new(cause),
        }
    }

    /// Returns the error with which a storage that failed poisons the log.
    pub(super) fn into_poisoned(self) -> Error {
        match self {
            Error::Io { during, cause } => Error::Poisoned { during, cause },
            other => other,
        }
    }

    pub(super) fn poisoned(during: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |cause| Error::Poisoned {
            during,
            cause: Arc::new(cause),
        }
    }
}
