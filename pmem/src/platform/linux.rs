//! Linux.

use core::ffi::c_void;
use core::ops::Range;
use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{CWD, FallocateFlags, RenameFlags, fallocate, renameat_with};
use rustix::io::{Errno, retry_on_intr};
use rustix::mm::{MapFlags, MremapFlags, mremap};

/// The flags of a mapping whose block metadata is written back before a page becomes writable.
pub(crate) const MAP_SYNC: Option<MapFlags> = Some(MapFlags::SHARED_VALIDATE.union(MapFlags::SYNC));

/// Gives a file its name, unless another file has it.
pub(crate) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // The file system has no such flag. Other creations wait for the lock.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => std::fs::rename(from, to),
        other => Ok(other?),
    }
}

/// Allocates blocks for these bytes of a file.
pub(crate) fn allocate(file: &File, bytes: Range<u64>) -> Result<(), Errno> {
    let len = bytes.end - bytes.start;
    retry_on_intr(|| fallocate(file, FallocateFlags::empty(), bytes.start, len))
}

/// Maps more of the same file, perhaps at another address. On error the mapping is as it was.
///
/// # Safety
/// `base .. base + len` is a whole mapping, and nothing uses a pointer into it afterwards.
pub(crate) unsafe fn remap(
    _: &File,
    base: *mut c_void,
    len: usize,
    new_len: usize,
) -> Result<*mut c_void, Errno> {
    // SAFETY: the caller's promise.
    unsafe { mremap(base, len, new_len, MremapFlags::MAYMOVE) }
}

/// Completes the write-back of a mapping after `msync`, which waits for the medium.
pub(crate) fn write_back_mapped(msync: Result<(), Errno>, _: &File) -> Result<(), Errno> {
    msync
}
