//! Files and block devices of Linux.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, OFlags, fallocate};
use rustix::io::{Errno, ReadWriteFlags, pwritev2};
use spanlock_pmem::PmemError;

use super::FileMode;

/// Returns the flags of `open` for a mode.
pub(super) fn flags(mode: FileMode) -> i32 {
    let flags = match mode {
        FileMode::Buffered => OFlags::empty(),
        FileMode::Direct => OFlags::DIRECT,
        FileMode::Dsync => OFlags::DIRECT | OFlags::DSYNC,
    };
    flags.bits().cast_signed()
}

/// Opens a file or a block device, which is claimed.
pub(super) fn open(options: &mut OpenOptions, path: &Path, mode: FileMode) -> io::Result<File> {
    // Only for block devices does the flag have a meaning without `O_CREAT`.
    let is_device = std::fs::metadata(path)?.file_type().is_block_device();
    let claim = if is_device {
        OFlags::EXCL.bits().cast_signed()
    } else {
        0
    };
    let options = options.custom_flags(flags(mode) | claim);
    let file = options.open(path).map_err(claimed)?;
    let kind = file.metadata()?.file_type();
    if !kind.is_file() && !kind.is_block_device() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "neither a file nor a block device",
        ));
    }
    if kind.is_block_device() != is_device {
        return Err(io::Error::new(
            io::ErrorKind::ResourceBusy,
            "another program replaced it while it was being opened: open it again",
        ));
    }
    Ok(file)
}

/// Says what to do if the system refuses to open a block device exclusively.
fn claimed(error: io::Error) -> io::Error {
    if error.kind() != io::ErrorKind::ResourceBusy {
        return error;
    }
    io::Error::new(
        io::ErrorKind::ResourceBusy,
        "this block device is mounted, or another program has it open exclusively: \
         unmount it, or close it there, first",
    )
}

/// Allocates the blocks of a new file, if the file system can. This call finds a full disk before
/// anything is written. Otherwise writing the zeros allocates.
pub(super) fn allocate(file: &File, len: u64) -> io::Result<()> {
    // Linux allocates no empty range.
    if len == 0 {
        return Ok(());
    }
    match fallocate(file, FallocateFlags::empty(), 0, len) {
        Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Allocates blocks for the holes of a file. A device has none.
pub(super) fn fill_holes(file: &File, path: &Path, len: u64) -> io::Result<()> {
    match file.metadata()?.is_file() {
        true => spanlock_pmem::fill_holes(file, path, len).map_err(without_room),
        false => Ok(()),
    }
}

/// Adds what to do to the error of a file whose holes cannot be filled.
fn without_room(error: PmemError) -> io::Error {
    match error {
        PmemError::NoSpace { needed, source, .. } => {
            let what =
                format!("no room for the holes of this file: free {needed} bytes on its disk");
            io::Error::new(source.kind(), what)
        }
        PmemError::Io { source, .. } => source,
        other => io::Error::other(other),
    }
}

/// Writes with `RWF_DSYNC`. If the device supports FUA, Linux uses it for this write alone.
pub(super) fn write_durably(file: &File, data: &[u8], offset: u64) -> io::Result<()> {
    let mut done = 0;
    while done < data.len() {
        let rest = [io::IoSlice::new(&data[done..])];
        match pwritev2(file, &rest, offset + done as u64, ReadWriteFlags::DSYNC) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => done += written,
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                return super::write_and_sync(file, &data[done..], offset + done as u64);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
