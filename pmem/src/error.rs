//! The errors of a mapped file.

use std::io;
use std::path::PathBuf;

use crate::flush::FlushInstruction;

/// Why a file could not be mapped, grown or written back.
///
/// The message names the file and says what to do. There are two exceptions: `NoSuchInstruction`
/// concerns no file, and `Io` only names the operation that failed. The operating system's own
/// error, if there was one, is the [`source`](std::error::Error::source).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PmemError {
    /// The length is zero, not a multiple of [`PAGE_BYTES`](crate::PAGE_BYTES), or too large to
    /// map.
    #[error(
        "{path}: cannot map {len} bytes: the length must be a multiple of 4096, \
         above zero and at most {most} (was the file truncated, or is it not a region?)",
        path = path.display(),
        most = isize::MAX as u64 / 4096 * 4096
    )]
    BadLength {
        /// The file.
        path: PathBuf,
        /// The length requested, or found, in bytes.
        len: u64,
    },

    /// The file to open is empty.
    #[error(
        "{path}: the file is empty: pass another path, \
         or remove it and use `MappedFile::create`, which allocates it",
        path = path.display()
    )]
    Empty {
        /// The file.
        path: PathBuf,
    },

    /// The file to create exists already.
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

    /// The file, or the folder to create it in, does not exist.
    #[error(
        "{path}: no such file or folder: create the file with `MappedFile::create`, \
         in a folder that exists",
        path = path.display()
    )]
    NotFound {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// This process may not read and write the file, or may not create it. If the file is opened
    /// read-only: it may not read the file.
    #[error(
        "{path}: permission denied: a mapped file must be both readable and writable, \
         or only readable for `MappedFile::open_read_only`",
        path = path.display()
    )]
    PermissionDenied {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// The file system is mounted read-only, so a file on it can be neither created nor opened to
    /// write.
    #[error(
        "{path}: on a read-only file system: open the file with `MappedFile::open_read_only`, \
         or mount the file system writable",
        path = path.display()
    )]
    ReadOnlyFileSystem {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },

    /// The region was opened with [`open_read_only`](crate::MappedFile::open_read_only), so it
    /// cannot grow.
    #[error(
        "{path}: opened read-only: open the file with `MappedFile::open` to change it",
        path = path.display()
    )]
    ReadOnly {
        /// The file.
        path: PathBuf,
    },

    /// The path leads to something that is not a regular file.
    #[error(
        "{path}: is {kind}, not a regular file: pass the path of a file",
        path = path.display()
    )]
    NotAFile {
        /// The path.
        path: PathBuf,
        /// Its kind: "a folder", "a device, pipe or socket".
        kind: &'static str,
    },

    /// Another opener, of this process or another one, holds the file.
    #[error(
        "{path}: in use by another opener: \
         close the other `MappedFile` first, or end its process",
        path = path.display()
    )]
    InUse {
        /// The file.
        path: PathBuf,
    },

    /// The file system has no room. A file that was to be created is removed again, and a file that
    /// was to grow has its old length. Opening a file with holes may have filled some of them.
    #[error(
        "{path}: no space for {needed} more bytes: free some, or request less",
        path = path.display()
    )]
    NoSpace {
        /// The file.
        path: PathBuf,
        /// The number of bytes that had to be allocated.
        needed: u64,
        /// The system's error.
        source: io::Error,
    },

    /// The new length is below the old one: a region never shrinks while it is mapped.
    #[error(
        "{path}: cannot shrink from {len} to {new_len} bytes: \
         drop the `MappedFile` and truncate the file",
        path = path.display()
    )]
    Shrink {
        /// The file.
        path: PathBuf,
        /// Its length in bytes.
        len: u64,
        /// The requested length in bytes.
        new_len: u64,
    },

    /// This processor lacks the flush instruction that
    /// [`Options::flush_instruction`](crate::Options::flush_instruction) requested.
    #[error(
        "this processor has no `{asked}` instruction: \
         leave the choice to `MappedFile`, or request one of {available:?}"
    )]
    NoSuchInstruction {
        /// The requested instruction.
        asked: FlushInstruction,
        /// The instructions it has, best first.
        available: Vec<FlushInstruction>,
    },

    /// The file system refused to write bytes back, now or at an earlier call. **Sticky**: no later
    /// write-back of this `MappedFile` succeeds. Bytes written since the last success may be lost,
    /// although they still read back. Drop the region, repair the disk, open the file again and
    /// recover.
    #[error(
        "{path}: writing back failed, so recent writes may be lost: \
         close the file, check the disk, open it again and recover",
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
        /// The operation that failed.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
}
