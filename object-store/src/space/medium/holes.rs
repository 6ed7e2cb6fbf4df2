//! The holes of a sparse file.

use std::fs::File;
use std::io;
use std::ops::Range;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::{Errno, retry_on_intr};

/// The file that is the storage, for punching holes; `None` if the storage has none.
#[derive(Debug, Default)]
pub(super) struct Holes(Option<File>);

impl Holes {
    pub(super) fn of(file: File) -> Self {
        Holes(Some(file))
    }

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

/// Makes these bytes of a file a hole.
pub(super) fn punch(file: &File, bytes: Range<u64>) -> io::Result<()> {
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
