//! Everything that can go wrong with a mapped file, said with the path and with what to do about
//! it.

use std::io;
use std::path::PathBuf;

use crate::flush::FlushInstruction;

/// Why a file could not be mapped, grown or written back.
///
/// Every message names the file and what to do; [`source`](std::error::Error::source) is the
/// operating system's own error, where there was one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PmemError {
    /// The length is zero, or no multiple of [`PAGE_BYTES`](crate::PAGE_BYTES), or past what can be
    /// mapped.
    #[error(
        "{path}: cannot map {len} bytes: the length must be a multiple of 4096, above zero and at most 2^63 - 4096 \
         (a file of another length is no region, or was cut short)",
        path = path.display()
    )]
    BadLength {
        /// The file.
        path: PathBuf,
        /// The length asked for, or found, in bytes.
        len: u64,
    },

    /// There is an empty file where a region was to be opened.
    #[error(
        "{path}: the file is empty, so there is no region in it: give another path, \
         or remove it and use `MappedFile::create`, which allocates it whole",
        path = path.display()
    )]
    Empty {
        /// The file.
        path: PathBuf,
    },

    /// There is a file already where one was to be created.
    #[error(
        "{path}: exists already: open it with `MappedFile::open`, or remove it first",
        path = path.display()
    )]
    AlreadyExists {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// There is no such file, or no such folder to create it in.
    #[error(
        "{path}: no such file or folder: make it with `MappedFile::create`, in a folder that exists",
        path = path.display()
    )]
    NotFound {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// This process may not read and write the file, or may not create it.
    #[error(
        "{path}: permission denied: a mapped file must be both readable and writable",
        path = path.display()
    )]
    PermissionDenied {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// The path leads to something that is not a regular file.
    #[error(
        "{path}: is {kind}, not a regular file: give the path of a file",
        path = path.display()
    )]
    NotAFile {
        /// What was found.
        path: PathBuf,
        /// What it is: "a folder", "a device, pipe or socket".
        kind: &'static str,
    },

    /// Another opener, of this process or another, holds the file.
    #[error(
        "{path}: in use by another opener: close the other `MappedFile` (or end its process) first",
        path = path.display()
    )]
    InUse {
        /// The file.
        path: PathBuf,
    },

    /// The file system has no room. Nothing was left behind; a file that was to grow has its old
    /// length.
    #[error(
        "{path}: no space for {needed} more bytes: free some, or ask for less",
        path = path.display()
    )]
    NoSpace {
        /// The file.
        path: PathBuf,
        /// How many bytes had to be allocated.
        needed: u64,
        /// The system's error.
        source: io::Error,
    },

    /// The new length is below the old: a region never shrinks while it is mapped.
    #[error(
        "{path}: cannot shrink from {len} to {new_len} bytes: drop the `MappedFile` and truncate the file",
        path = path.display()
    )]
    Shrink {
        /// The file.
        path: PathBuf,
        /// The length it has, in bytes.
        len: u64,
        /// The length asked for, in bytes.
        new_len: u64,
    },

    /// This processor lacks the flush instruction that
    /// [`Options::flush_instruction`](crate::Options::flush_instruction) asked for.
    #[error(
        "this processor has no `{asked}` instruction: leave the choice to `MappedFile`, or ask for one of {available:?}"
    )]
    NoSuchInstruction {
        /// The one asked for.
        asked: FlushInstruction,
        /// Those it has, best first.
        available: Vec<FlushInstruction>,
    },

    /// The file system refused to write bytes back, now or at an earlier call. **Sticky**: after
    /// it, no write-back of this `MappedFile` succeeds again. What was written since the last
    /// success may be lost, though it still reads back; drop the region, see to the disk, open it
    /// anew and recover.
    #[error(
        "{path}: writing back failed, so what was written lately may be lost: close it, check the disk, open it again and recover",
        path = path.display()
    )]
    WriteBack {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// Another error of the operating system.
    #[error("{path}: {doing} failed", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was being done.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
}
