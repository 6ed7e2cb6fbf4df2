//! A sparse file as a medium: trimmed blocks become holes.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, retry_on_intr};
use spanlock_journal_commit::storage::{FileMode, FileStorage};
use spanlock_pmem::NewFile;

use super::disk::Disk;
use crate::space::Error;

/// The file that is the storage, for punching holes; `None` if the storage has none.
#[derive(Debug, Default)]
pub(super) struct Holes(Option<File>);

impl Holes {
    /// Allocates these bytes.
    pub(super) fn fill(&self, bytes: Range<u64>) -> io::Result<()> {
        match &self.0 {
            Some(file) => change(file, FallocateFlags::KEEP_SIZE, bytes),
            None => Ok(()),
        }
    }

    /// Makes these bytes a hole.
    pub(super) fn punch(&self, bytes: Range<u64>) -> io::Result<()> {
        match &self.0 {
            Some(file) => punch(file, bytes),
            None => Ok(()),
        }
    }
}

/// More allocated bytes than this in a new file mean that the file system has no holes.
const MOST_ALLOCATED: u64 = 1 << 20;

impl Disk<FileStorage> {
    /// Creates a sparse file of `len` bytes, rounded down to blocks of 4096; or of the largest size
    /// that the file system allows. [`Medium::len`](super::Medium::len) says which that is. The
    /// file takes room only for what is written.
    ///
    /// # Errors
    /// [`Error::NoHoles`], and [`Error::Io`] if the file exists or cannot be created. There is no
    /// new file then.
    pub fn create_file(
        path: impl AsRef<Path>,
        len: Option<u64>,
        mode: FileMode,
    ) -> Result<Self, Error> {
        let path = path.as_ref();
        let new = NewFile::begin(path, 0).map_err(Error::io("creating the file"))?;
        let found = set_largest(new.file(), len).map_err(Error::io("setting the file's size"))?;
        check_holes(new.file(), found)?;
        // Its lock ends here, before the storage takes its own.
        drop(new.publish().map_err(Error::io("creating the file"))?);
        Self::open_file(path, mode)
    }

    /// Opens a sparse file. Its holes stay.
    ///
    /// # Errors
    /// [`Error::Io`], if another opener has the file, among other reasons.
    pub fn open_file(path: impl AsRef<Path>, mode: FileMode) -> Result<Self, Error> {
        let path = path.as_ref();
        let opened = || {
            let holes = OpenOptions::new().read(true).write(true).open(path)?;
            let storage = FileStorage::open_sparse(path, mode)?;
            let id = |it: std::fs::Metadata| (it.dev(), it.ino());
            if id(holes.metadata()?) != id(std::fs::metadata(path)?) {
                let what = "another program replaced the file while it was being opened";
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, what));
            }
            let mut disk = Disk::new(storage);
            disk.holes = Holes(Some(holes));
            Ok(disk)
        };
        opened().map_err(Error::io("opening the file"))
    }
}

/// Sets the size of an empty file, and returns it.
fn set_largest(file: &File, len: Option<u64>) -> io::Result<u64> {
    const BLOCK: u64 = 4096;
    if let Some(len) = len {
        let len = len - len % BLOCK;
        file.set_len(len)?;
        return Ok(len);
    }
    // `least` is a size that the file system allows, `most` one that it refuses, in blocks.
    let (mut least, mut most) = (0, (1 << 63) / BLOCK);
    while most - least > 1 {
        let middle = least + (most - least) / 2;
        match file.set_len(middle * BLOCK) {
            Ok(()) => least = middle,
            Err(_) => most = middle,
        }
    }
    file.set_len(least * BLOCK)?;
    Ok(least * BLOCK)
}

fn check_holes(file: &File, len: u64) -> Result<(), Error> {
    let refused = |error: io::Error| Error::NoHoles {
        why: format!("punching a hole: {error}"),
    };
    punch(file, 0..len.min(4096)).map_err(refused)?;
    let found = file
        .metadata()
        .map_err(Error::io("reading the file's size"))?;
    let allocated = found.blocks() * 512;
    if allocated > MOST_ALLOCATED {
        let why = format!("a new file takes {allocated} bytes");
        return Err(Error::NoHoles { why });
    }
    Ok(())
}

/// Makes the bytes a hole.
fn punch(file: &File, bytes: Range<u64>) -> io::Result<()> {
    change(
        file,
        FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
        bytes,
    )
}

fn change(file: &File, how: FallocateFlags, bytes: Range<u64>) -> io::Result<()> {
    let len = bytes.end - bytes.start;
    if len == 0 {
        return Ok(());
    }
    let done: Result<(), Errno> = retry_on_intr(|| fallocate(file, how, bytes.start, len));
    Ok(done?)
}
