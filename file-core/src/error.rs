//! What can go wrong: one error for the whole crate.

use core::fmt;

use spanlock_range_lock::RangeError;
use thiserror::Error;

use crate::layout::{MIN_PAGES, PAGE_BYTES, SLOT_BYTES};

/// Where on the medium something is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// Byte offset in the region.
    pub at: u64,
    /// The inode whose log or slot it belongs to; `None` for the superblock.
    pub inode: Option<u32>,
}

impl Place {
    /// The page that holds the byte, counted from the start of the region.
    pub fn page(&self) -> u64 {
        self.at / PAGE_BYTES
    }

    /// The 64-byte slot of that page that holds the byte (63 is a log page's tail).
    pub fn slot(&self) -> u64 {
        self.at % PAGE_BYTES / SLOT_BYTES as u64
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.inode {
            Some(inode) => write!(f, "inode {inode}, ")?,
            None => write!(f, "superblock, ")?,
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

/// Why an operation did nothing.
///
/// Whatever failed left the volume as it was: no error stands for half an operation.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum Error {
    /// The region does not hold a volume of this crate.
    #[error("no volume here: {}", not_a_volume_reason(*.len))]
    NotAVolume {
        /// The region's size in bytes.
        len: u64,
    },
    /// The volume was formatted by another version of this crate.
    #[error(
        "the volume has format version {found}, this build reads version {supported}: \
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
        "the volume has {expected} bytes, but the region only {found}: it was cut short; \
         restore the missing end before opening it"
    )]
    Truncated {
        /// Bytes that the superblock promises.
        expected: u64,
        /// Bytes that the region has.
        found: u64,
    },
    /// Something on the medium is not what was written there.
    #[error("the volume is damaged: {what}, at {place}; restore it from a copy")]
    Corrupt {
        /// What is wrong.
        what: &'static str,
        /// Where.
        place: Place,
    },
    /// A region, or an option of the format, that no volume can have.
    #[error("cannot format: {what} is {found}, it must be {wanted}")]
    BadFormat {
        /// Which size or option.
        what: &'static str,
        /// Its value.
        found: u64,
        /// What it may be.
        wanted: &'static str,
    },
    /// Not enough free pages. Removing a file, or overwriting what a file has already, may still work.
    #[error(
        "no space: {needed} more pages of 4 KiB are needed and {free} are free for this operation; \
         remove files to go on"
    )]
    NoSpace {
        /// Pages that the operation wanted from the allocator when it gave up.
        needed: u64,
        /// Pages that an operation of its kind could have got.
        free: u64,
    },
    /// Every inode is in use.
    #[error("all {total} inodes are in use: remove files, or format with more inodes")]
    NoInodes {
        /// Inodes that files can have: all but the root directory's.
        total: u64,
    },
    /// There is no file of this name.
    #[error("no file is named {name:?}")]
    NotFound {
        /// The name.
        name: String,
    },
    /// There is a file of this name already.
    #[error("a file named {name:?} exists already: open it, or remove it first")]
    Exists {
        /// The name.
        name: String,
    },
    /// The name is longer than [`MAX_NAME_BYTES`](crate::MAX_NAME_BYTES).
    #[error("the name has {len} bytes, at most {max} are possible: shorten it")]
    NameTooLong {
        /// Its length in bytes.
        len: usize,
        /// The longest possible.
        max: usize,
    },
    /// The name is empty or contains NUL.
    #[error("{name:?} cannot name a file: {why}")]
    NameInvalid {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A write that would end past the volume's largest file size.
    #[error(
        "writing {len} bytes at offset {offset} ends past the largest file size of this volume, {max} bytes; \
         it is chosen when the volume is formatted"
    )]
    FileTooLarge {
        /// Where the write starts, in bytes.
        offset: u64,
        /// Bytes to write.
        len: u64,
        /// The largest file size in bytes.
        max: u64,
    },
    /// More bytes than one atomic write can take.
    #[error(
        "one write takes at most {max} bytes, not {len}: split it (each part is atomic on its own)"
    )]
    WriteTooLong {
        /// Bytes to write.
        len: u64,
        /// [`MAX_WRITE_BYTES`](crate::MAX_WRITE_BYTES).
        max: u64,
    },
    /// An earlier operation on the same log panicked midway, because the region refused its bytes.
    /// What it did may be on the medium or not; reading goes on.
    #[error(
        "an earlier operation on inode {inode} panicked midway: open the volume again, which recovers it"
    )]
    Poisoned {
        /// The inode of the log; 0 is the directory's.
        inode: u32,
    },
    /// The file's range lock refused the range: the factory made a lock of too small a capacity.
    #[error(
        "the file's range lock does not cover the file: {0}; the factory must make locks of the capacity it is given"
    )]
    Lock(#[from] RangeError),
    /// The factory made no range lock for a file.
    #[error(
        "no range lock of {capacity} bytes for the file {name:?}: {why}; \
         choose a lock that takes less memory, or format with a smaller largest file size"
    )]
    NoLock {
        /// The file's name.
        name: String,
        /// The capacity in bytes that the lock was to have.
        capacity: u64,
        /// The factory's error, as it prints.
        why: String,
    },
}

/// The rest of [`Error::NotAVolume`].
fn not_a_volume_reason(len: u64) -> String {
    let least = MIN_PAGES * PAGE_BYTES;
    if len < least {
        return format!(
            "a region of {len} bytes is too short for one (the smallest has {least}): \
             it was cut short, or is something else"
        );
    }
    format!(
        "neither the first nor the last page of the {len}-byte region carries a superblock; \
         format the region, or open the one that was formatted \
         (if this is the one, it was grown and then its first page overwritten: cut it back to its old size)"
    )
}

impl Error {
    /// Damage at byte `at`, in the log or the slot of `inode`.
    pub(crate) fn corrupt(what: &'static str, inode: u32, at: u64) -> Error {
        Error::Corrupt {
            what,
            place: Place {
                at,
                inode: Some(inode),
            },
        }
    }
}
