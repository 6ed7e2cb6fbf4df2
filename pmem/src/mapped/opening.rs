//! From a path to a locked file: the checks, and their errors.

use core::ops::Deref;
use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::path::Path;

use crate::error::PmemError;
use crate::mapped::PAGE_BYTES;
use crate::new_file::NewFile;
use crate::platform;

/// Begins to create a file. Fails if the path exists, and leaves it unchanged.
pub(super) fn create_new(path: &Path) -> Result<NewFile, PmemError> {
    NewFile::begin(path, 0).map_err(|source| match source.kind() {
        io::ErrorKind::ResourceBusy => PmemError::InUse {
            path: path.to_owned(),
        },
        _ => open_failed(path, source),
    })
}

/// How a file is opened, and locked against other openers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    /// To read and write, as the only opener.
    Write,
    /// To read only, beside other openers that only read.
    ReadOnly,
}

/// Opens an existing file, locks it, and returns its length.
pub(super) fn open_existing(path: &Path, access: Access) -> Result<(LockedFile, u64), PmemError> {
    // Check before opening: opening a device or a pipe can itself have an effect.
    let found = std::fs::metadata(path).map_err(|source| open_failed(path, source))?;
    check_is_file(path, &found)?;
    let file = OpenOptions::new()
        .read(true)
        .write(access == Access::Write)
        .open(path)
        .map_err(|source| open_failed(path, source))?;
    let file = LockedFile::new(file, path, access)?;
    // Check again under the lock: the path may lead elsewhere by now, or the file may have grown.
    let found = file
        .metadata()
        .map_err(|source| io_failed(path, "reading its length", source))?;
    check_is_file(path, &found)?;
    if found.len() == 0 {
        return Err(PmemError::Empty {
            path: path.to_owned(),
        });
    }
    Ok((file, found.len()))
}

/// Converts a length that can be mapped to a `usize` of at most `isize::MAX` (PM-I7).
pub(super) fn check_len(path: &Path, len: u64) -> Result<usize, PmemError> {
    match isize::try_from(len) {
        Ok(mappable) if len > 0 && len.is_multiple_of(PAGE_BYTES) => Ok(mappable as usize),
        _ => Err(PmemError::BadLength {
            path: path.to_owned(),
            len,
        }),
    }
}

pub(super) fn io_failed(path: &Path, doing: &'static str, source: io::Error) -> PmemError {
    PmemError::Io {
        path: path.to_owned(),
        doing,
        source,
    }
}

/// **PM-I9** A file that, until this is dropped, no other opener can lock; if it was opened
/// read-only, none can lock it to write.
#[derive(Debug)]
pub(super) struct LockedFile(File);

impl LockedFile {
    /// Locks `file`, or fails at once.
    pub(super) fn new(file: File, path: &Path, access: Access) -> Result<Self, PmemError> {
        let locked = match access {
            Access::Write => platform::try_lock(&file),
            Access::ReadOnly => platform::try_lock_shared(&file),
        };
        match locked {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(PmemError::InUse {
                path: path.to_owned(),
            }),
            Err(TryLockError::Error(source)) => Err(io_failed(path, "locking", source)),
        }
    }
}

impl Deref for LockedFile {
    type Target = File;

    fn deref(&self) -> &File {
        &self.0
    }
}

impl Drop for LockedFile {
    fn drop(&mut self) {
        platform::unlock(&self.0);
    }
}

fn check_is_file(path: &Path, found: &Metadata) -> Result<(), PmemError> {
    if found.is_file() {
        return Ok(());
    }
    let kind = if found.is_dir() {
        "a folder"
    } else {
        "a device, pipe or socket"
    };
    Err(PmemError::NotAFile {
        path: path.to_owned(),
        kind,
    })
}

pub(super) fn open_failed(path: &Path, source: io::Error) -> PmemError {
    let not_a_file = std::fs::metadata(path)
        .ok()
        .and_then(|it| check_is_file(path, &it).err());
    let path = path.to_owned();
    match source.kind() {
        io::ErrorKind::NotFound => PmemError::NotFound { path, source },
        io::ErrorKind::PermissionDenied => PmemError::PermissionDenied { path, source },
        io::ErrorKind::ReadOnlyFilesystem => PmemError::ReadOnlyFileSystem { path, source },
        io::ErrorKind::AlreadyExists => {
            not_a_file.unwrap_or(PmemError::AlreadyExists { path, source })
        }
        _ => not_a_file.unwrap_or(PmemError::Io {
            path,
            doing: "opening",
            source,
        }),
    }
}
