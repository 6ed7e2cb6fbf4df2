//! What can go wrong.

use std::io;
use std::sync::Arc;

use thiserror::Error;

use super::Lsn;

/// Why an operation of a [`Log`](super::Log) did nothing.
///
/// Whatever refuses a record leaves the log as it was. After [`Poisoned`](Error::Poisoned) and [`Panicked`](Error::Panicked) nothing is acknowledged any more,
/// until the log is opened again.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no log of this crate in the storage.
    #[error(
        "no log here: neither the first bytes nor those at {at} of the storage's {len} are a superblock of this crate; \
         create a log, or open the storage that has one",
        at = super::format::SLOTS[1]
    )]
    NotALog {
        /// Bytes of the storage.
        len: u64,
    },
    /// A log may not be created here: something is there already.
    #[error(
        "the first {bytes} bytes of the storage are not all zero: there may be a log, or something else, in it; \
         open it, or wipe it first",
        bytes = super::format::DATA
    )]
    Occupied,
    /// The log was written by another version of this crate.
    #[error(
        "the log has format version {found}, this build reads version {supported}: open it with a build that reads version {found}"
    )]
    Version {
        /// The version in the superblock.
        found: u32,
        /// The version that this build reads and writes.
        supported: u32,
    },
    /// The storage is smaller than the log that was created in it.
    #[error(
        "the log has {expected} bytes, but the storage only {found}: it was cut short; restore the missing end before opening it"
    )]
    CutShort {
        /// Bytes that the superblock promises.
        expected: u64,
        /// Bytes that the storage has.
        found: u64,
    },
    /// A storage, or an option, that no log can have.
    #[error("cannot create a log: {what} is {found}, it must be {wanted}")]
    BadOption {
        /// Which size or option.
        what: &'static str,
        /// Its value.
        found: u64,
        /// What it may be.
        wanted: &'static str,
    },
    /// What had been acknowledged is not there, or not as it was written. (The end of a write that a crash interrupted is not an error.)
    #[error(
        "the log is damaged: {what}, at byte {at} of the storage; the records before {lsn} are sound; \
         restore the storage from a copy, or give up what follows by `Log::salvage`"
    )]
    Corrupt {
        /// What is wrong.
        what: &'static str,
        /// Where, in bytes from the start of the storage.
        at: u64,
        /// The first record that is missing.
        lsn: Lsn,
    },
    /// The record is larger than the whole log.
    #[error(
        "a record of {len} bytes does not fit into this log, whose largest has {max}: split it, or create a larger log"
    )]
    RecordTooLarge {
        /// Bytes of the record.
        len: usize,
        /// Bytes of the largest that the log can hold, when it is empty.
        max: u64,
    },
    /// No room for the record: truncate first.
    #[error(
        "the log is full: the record needs {needed} bytes and {free} are free; truncate what is no longer needed"
    )]
    Full {
        /// Bytes that the record would take, with what stands around it.
        needed: u64,
        /// Bytes that are free.
        free: u64,
    },
    /// There is no such record yet, or it is not durable yet.
    #[error("record {lsn} was asked for, and {next} is the next to come")]
    NotYet {
        /// The record asked for.
        lsn: Lsn,
        /// The first that there is not.
        next: Lsn,
    },
    /// The record was truncated away.
    #[error("record {lsn} was truncated: the first that is left is {first}")]
    Truncated {
        /// The record asked for.
        lsn: Lsn,
        /// The first that is there.
        first: Lsn,
    },
    /// The storage failed while the log was opened, created or read; nothing has changed by it.
    #[error("{during} failed: {cause}")]
    Io {
        /// What the log was doing.
        during: &'static str,
        /// What the storage said.
        #[source]
        cause: Arc<io::Error>,
    },
    /// The storage failed to write or to flush, now or earlier: what was not acknowledged may or may not be there, and nothing will be acknowledged until the log
    /// is opened again.
    #[error(
        "the log takes nothing more, since {during} failed: {cause}; open it again to learn what is durable"
    )]
    Poisoned {
        /// What the log was doing.
        during: &'static str,
        /// What the storage said.
        #[source]
        cause: Arc<io::Error>,
    },
    /// The storage panicked under another thread: as [`Poisoned`](Error::Poisoned).
    #[error(
        "the log takes nothing more, since the storage panicked; open it again to learn what is durable"
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

    pub(super) fn poisoned(during: &'static str) -> impl FnOnce(io::Error) -> Error {
        move |cause| Error::Poisoned {
            during,
            cause: Arc::new(cause),
        }
    }
}
