//! The error type of the crate.

use core::fmt;
use std::io;

use spanlock_range_lock::RangeError;
use thiserror::Error;

use crate::medium::layout::{MIN_PAGES, PAGE_BYTES, SLOT_BYTES};

/// The location of damage on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Place {
    /// Byte offset in the region.
    pub at: u64,
    /// The inode whose log or table slot is damaged; `None` for a superblock and for the journal.
    pub inode: Option<u32>,
    /// Byte offset in the file of the page whose data is damaged; `None` for other damage.
    pub offset: Option<u64>,
}

impl Place {
    /// Returns the page that contains the byte, counted from the start of the region.
    pub fn page(&self) -> u64 {
        self.at / PAGE_BYTES
    }

    /// Returns the 64-byte slot of that page that contains the byte (63 is a log page's tail).
    pub fn slot(&self) -> u64 {
        self.at % PAGE_BYTES / SLOT_BYTES as u64
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(inode) = self.inode {
            write!(f, "inode {inode}, ")?;
        }
        if let Some(offset) = self.offset {
            write!(f, "file offset {offset}, ")?;
        }
        write!(
            f,
            "byte {} (page {}, slot {})",
            self.at,
            self.page(),
            self.slot()
        )
    }
}

/// The reason an operation failed.
///
/// A failed operation leaves the volume unchanged, with these exceptions:
/// - [`Poisoned`](Error::Poisoned) means that an *earlier* operation failed midway.
/// - [`Volume::rename`](crate::Volume::rename) and
///   [`Volume::exchange`](crate::Volume::exchange) say what holds after
///   [`Corrupt`](Error::Corrupt).
/// - An operation that consists of several steps, such as
///   [`Volume::create_dir_all`](crate::Volume::create_dir_all) or
///   [`Volume::clean`](crate::Volume::clean), may have completed some of them.
/// - A log may have been cleaned, which has no effect on what the volume contains.
///
/// # What to do
/// Each message says what is wrong and where. Besides:
/// - [`NoSpace`](Error::NoSpace), [`NoInodes`](Error::NoInodes): remove files. A volume can also
///   [grow](crate::OpenOptions::grow), but not get more inodes. While the reserve lasts, existing
///   pages can be overwritten, a few at a time.
/// - [`Poisoned`](Error::Poisoned): reopen the volume. Recovery decides whether the operation that
///   failed midway has happened. Until then, open files can be read, and logs that are not poisoned
///   can be used.
/// - [`Corrupt`](Error::Corrupt): open the volume [read-only](crate::OpenOptions::read_only) to
///   read what is intact, call [`fsck::repair`](crate::fsck::repair), or restore a backup.
/// - [`NotAVolume`](Error::NotAVolume): check the path. If the region was a volume, restore a
///   backup; if it has grown since, truncate it to its old size. Otherwise, format it.
/// - [`Version`](Error::Version): open the volume with a release that reads that version.
/// - [`Truncated`](Error::Truncated): restore the region's full length.
/// - [`ReadOnly`](Error::ReadOnly), [`ReadOnlyRegion`](Error::ReadOnlyRegion): open the volume, or
///   the region, for writing.
/// - [`Lock`](Error::Lock), [`NoLock`](Error::NoLock): the range lock refused a range, or the
///   factory made none, for the reason in the message.
/// - [`WriteTooLong`](Error::WriteTooLong): split the write.
/// - All others: the name, the path, an offset or an option does not fit the operation.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum Error {
    /// Neither the first nor the last page of the region has the magic number of a volume, or the
    /// region is too short to have one. If the region was formatted, both superblocks are lost, or
    /// the first one is and the region has grown since.
    #[error("no volume here: {}", not_a_volume_reason(*.len))]
    NotAVolume {
        /// The region's size in bytes.
        len: u64,
    },
    /// The volume has another version of the format.
    #[error(
        "the volume has format version {found}, but this build reads version {supported}; \
         open it with a build that reads version {found}"
    )]
    Version {
        /// The version in the superblock.
        found: u32,
        /// The version that this build reads and writes.
        supported: u32,
    },
    /// The region is smaller than the volume that was formatted in it.
    #[error(
        "the volume has {expected} bytes, but the region has only {found}: it was truncated; \
         restore the missing part before opening the volume"
    )]
    Truncated {
        /// The volume's size in bytes, according to its superblock.
        expected: u64,
        /// The region's size in bytes.
        found: u64,
    },
    /// A part of the medium does not hold what was written there.
    #[error(
        "the volume is damaged: {what}, at {place}; list and repair the damage with fsck, \
         or restore the volume from a backup"
    )]
    Corrupt {
        /// What is damaged.
        what: &'static str,
        /// Where the damage is.
        place: Place,
    },
    /// The volume was opened [read-only](crate::OpenOptions::read_only).
    #[error("the volume was opened read-only: open it without that option to change it")]
    ReadOnly,
    /// The region is [read-only](spanlock_pmem::Pmem::is_read_only), but the operation has to write
    /// to it: it formats, repairs, or opens a volume without
    /// [`OpenOptions::read_only`](crate::OpenOptions::read_only).
    #[error(
        "the region is read-only: open the volume with `OpenOptions::read_only`, \
         or open the region writable"
    )]
    ReadOnlyRegion,
    /// The region or an option cannot be used for a volume.
    #[error("cannot format: {what} is {found}, but must be {wanted}")]
    BadFormat {
        /// The size or option.
        what: &'static str,
        /// Its value.
        found: u64,
        /// The values allowed.
        wanted: &'static str,
    },
    /// There are too few free pages. Files can still be removed. Existing pages of a file can be
    /// overwritten as long as the reserve suffices: see
    /// [`File::write_at`](crate::File::write_at).
    #[error(
        "no space: this operation needs {needed} more pages of 4 KiB, but only {free} are available to it; \
         remove files to free space"
    )]
    NoSpace {
        /// The pages that the failed allocation asked for.
        needed: u64,
        /// The pages available to this class of operation.
        free: u64,
    },
    /// Every inode is in use.
    #[error("all {total} inodes are in use: remove files, or format a volume with more inodes")]
    NoInodes {
        /// The number of inodes for files and directories: all except the root's.
        total: u64,
    },
    /// Nothing has this name, or the directory in which it was looked up has been removed.
    #[error("nothing is named {name:?}")]
    NotFound {
        /// The name.
        name: String,
    },
    /// A file or a directory of this name already exists.
    #[error("{name:?} already exists: open it, or remove it first")]
    Exists {
        /// The name.
        name: String,
    },
    /// The name is longer than [`MAX_NAME_BYTES`](crate::MAX_NAME_BYTES).
    #[error(
        "a name in the path {path:?} has {len} bytes, but at most {max} are allowed: shorten it"
    )]
    NameTooLong {
        /// The path, or the name in a method of [`Dir`](crate::Dir), as the caller gave it.
        path: String,
        /// Its length in bytes.
        len: usize,
        /// The largest possible length in bytes.
        max: usize,
    },
    /// The name stands for a file, but a directory is needed.
    #[error("{name:?} is a file, but this operation needs a directory")]
    NotADirectory {
        /// The name.
        name: String,
    },
    /// The name stands for a directory, but a file is needed.
    #[error("{name:?} is a directory, but this operation needs a file")]
    IsADirectory {
        /// The name.
        name: String,
    },
    /// The directory contains names.
    #[error("the directory {name:?} is not empty: remove what is in it first")]
    NotEmpty {
        /// The directory's name.
        name: String,
    },
    /// The directory would be moved into itself, or into a directory below itself.
    #[error("the directory {name:?} cannot be moved to {into:?}, which is inside it")]
    InsideItself {
        /// The directory's name.
        name: String,
        /// The name that it should get.
        into: String,
    },
    /// The two directories are in different volumes.
    #[error("the directories are in different volumes: copy the file instead")]
    OtherVolume,
    /// The name is empty, `.` or `..`, or contains a slash or NUL.
    #[error("in the path {path:?}, {name:?} is not a valid name: {why}")]
    NameInvalid {
        /// The path, or the name in a method of [`Dir`](crate::Dir), as the caller gave it.
        path: String,
        /// The name.
        name: String,
        /// Why it is invalid.
        why: &'static str,
    },
    /// The write, or the new size, would end past the volume's largest file size.
    #[error(
        "the file would end at byte {}, past the volume's largest file size of {max} bytes; \
         format a volume with a larger limit",
        offset.saturating_add(*len)
    )]
    FileTooLarge {
        /// The byte offset of the write; 0 for a new size.
        offset: u64,
        /// The length of the write, or the new size, in bytes.
        len: u64,
        /// The largest file size in bytes.
        max: u64,
    },
    /// The write is too long for one group of the log, given how scattered the free pages are.
    #[error(
        "a write of {len} bytes is too long: split it into parts of at most {max} bytes, each of which is atomic"
    )]
    WriteTooLong {
        /// The length of the write in bytes, rounded up to whole pages.
        len: u64,
        /// [`MAX_WRITE_BYTES`](crate::MAX_WRITE_BYTES).
        max: u64,
    },
    /// An earlier operation on the same log, or the removal of this file, failed midway: the region
    /// panicked, or the journal was damaged. The effect of that operation may or may not be on the
    /// medium. Open files can still be read.
    #[error("an earlier operation on inode {inode} failed midway: reopen the volume to recover it")]
    Poisoned {
        /// The inode of the log; 0 is the root directory's.
        inode: u32,
    },
    /// The file's range lock refused the range: the range is reversed, there is no memory for the
    /// request, or the factory created a lock whose capacity is too small.
    #[error("the file's range lock refused a range: {error}{advice}", error = .0, advice = lock_advice(*.0))]
    Lock(#[from] RangeError),
    /// The factory created no range lock for a file.
    #[error(
        "cannot create a range lock of {capacity} bytes for the file {name:?}: {why}; \
         choose a lock that needs less memory, or format with a smaller largest file size"
    )]
    NoLock {
        /// The file's name.
        name: String,
        /// The capacity in bytes that the lock should have had.
        capacity: u64,
        /// The factory's error message.
        why: String,
    },
}

/// Returns what to do about [`Error::Lock`], if that is not obvious.
fn lock_advice(error: RangeError) -> &'static str {
    match error {
        RangeError::PastCapacity { .. } => {
            "; correct the factory to create locks of the capacity that it is given"
        }
        _ => "",
    }
}

/// Returns the explanation for [`Error::NotAVolume`].
fn not_a_volume_reason(len: u64) -> String {
    let least = MIN_PAGES * PAGE_BYTES;
    if len < least {
        return format!(
            "a region of {len} bytes is too short (a volume has at least {least}): \
             it was truncated, or never was a volume"
        );
    }
    format!(
        "neither the first nor the last page of the {len}-byte region holds a superblock; \
         open the region that was formatted, or format this one if it never was a volume \
         (if it was, restore a backup; if it has grown since, truncate it to its old size)"
    )
}

impl Error {
    /// Returns an error for damage at byte `at`, in the log or the table slot of `inode`.
    pub(crate) fn corrupt(what: &'static str, inode: u32, at: u64) -> Error {
        Error::Corrupt {
            what,
            place: Place {
                at,
                inode: Some(inode),
                offset: None,
            },
        }
    }

    /// Returns an error for a page of data that does not match its checksum. The page lies at byte
    /// `at` of the region, and at byte `offset` of the file `inode`.
    #[cold]
    pub(crate) fn damaged_data(inode: u32, offset: u64, at: u64) -> Error {
        Error::Corrupt {
            what: "file data that does not match its checksum",
            place: Place {
                at,
                inode: Some(inode),
                offset: Some(offset),
            },
        }
    }

    /// Returns an error for damage at byte `at`, to a superblock or the journal.
    pub(crate) fn corrupt_at(what: &'static str, at: u64) -> Error {
        Error::Corrupt {
            what,
            place: Place {
                at,
                inode: None,
                offset: None,
            },
        }
    }
}

impl From<Error> for io::Error {
    /// Wraps the error, with the kind that the standard library uses for it.
    fn from(error: Error) -> io::Error {
        let kind = match &error {
            Error::NoSpace { .. } | Error::NoInodes { .. } => io::ErrorKind::StorageFull,
            Error::NotFound { .. } => io::ErrorKind::NotFound,
            Error::Exists { .. } => io::ErrorKind::AlreadyExists,
            Error::NotADirectory { .. } => io::ErrorKind::NotADirectory,
            Error::IsADirectory { .. } => io::ErrorKind::IsADirectory,
            Error::NotEmpty { .. } => io::ErrorKind::DirectoryNotEmpty,
            Error::OtherVolume => io::ErrorKind::CrossesDevices,
            Error::NameTooLong { .. } | Error::NameInvalid { .. } => io::ErrorKind::InvalidFilename,
            Error::BadFormat { .. } | Error::InsideItself { .. } => io::ErrorKind::InvalidInput,
            Error::FileTooLarge { .. } | Error::WriteTooLong { .. } => io::ErrorKind::FileTooLarge,
            Error::NotAVolume { .. } | Error::Corrupt { .. } => io::ErrorKind::InvalidData,
            Error::Truncated { .. } => io::ErrorKind::UnexpectedEof,
            Error::Version { .. } => io::ErrorKind::Unsupported,
            Error::ReadOnly | Error::ReadOnlyRegion => io::ErrorKind::ReadOnlyFilesystem,
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, error)
    }
}
