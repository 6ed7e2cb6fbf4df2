//! What all Unix systems have in common.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

/// Has the file opened for this opener alone, where opening itself can do that. Here it cannot: see
/// [`try_lock`].
pub fn alone(options: &mut OpenOptions) -> &mut OpenOptions {
    options
}

/// Returns whether opening failed because of an opener that is [`alone`].
pub fn is_in_use(_: &io::Error) -> bool {
    false
}

/// Opens the file with further flags of `open`. If the path is a link, opening fails.
pub fn open_itself(options: &mut OpenOptions, path: &Path, flags: i32) -> io::Result<File> {
    let flags = flags | OFlags::NOFOLLOW.bits().cast_signed();
    options.custom_flags(flags).open(path)
}

/// Locks the file exclusively. Not std's function, which Android lacks.
pub fn try_lock(file: &File) -> Result<(), TryLockError> {
    lock(file, FlockOperation::NonBlockingLockExclusive)
}

/// Locks the file against those that lock it exclusively.
pub fn try_lock_shared(file: &File) -> Result<(), TryLockError> {
    lock(file, FlockOperation::NonBlockingLockShared)
}

fn lock(file: &File, how: FlockOperation) -> Result<(), TryLockError> {
    flock(file, how).map_err(|error| match error {
        Errno::WOULDBLOCK => TryLockError::WouldBlock,
        error => TryLockError::Error(error.into()),
    })
}

/// Unlocks the file. Closing alone is not enough: while another thread spawns a child, the child
/// holds a copy of the descriptor, and with it the lock, from fork to exec. If unlocking fails,
/// closing remains.
pub fn unlock(file: &File) {
    let _ = flock(file, FlockOperation::Unlock);
}

pub fn read_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    file.read_at(buf, offset)
}

pub fn read_exact_at(file: &File, buf: &mut [u8], offset: u64) -> io::Result<()> {
    file.read_exact_at(buf, offset)
}

pub fn write_all_at(file: &File, data: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(data, offset)
}

/// Returns whether the open file, which is locked, still has this name.
pub(crate) fn is_named(file: &File, path: &Path) -> io::Result<bool> {
    let found = file.metadata()?;
    match std::fs::symlink_metadata(path) {
        Ok(now) => Ok((now.dev(), now.ino()) == (found.dev(), found.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Returns whether the file lies in memory alone, so that no sync makes it survive a power cut.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn is_in_memory(file: &File) -> Result<bool, Errno> {
    /// tmpfs, ramfs, hugetlbfs: from the kernel's magic.h.
    const IN_MEMORY: [u32; 3] = [0x0102_1994, 0x8584_58f6, 0x9584_58f6];
    Ok(IN_MEMORY.contains(&(rustix::fs::fstatfs(file)?.f_type as u32)))
}

/// Returns whether the file lies in memory alone, so that no sync makes it survive a power cut.
#[cfg(any(target_vendor = "apple", target_os = "freebsd"))]
pub(crate) fn is_in_memory(file: &File) -> Result<bool, Errno> {
    let name = rustix::fs::fstatfs(file)?.f_fstypename;
    let name = name.iter().map(|&byte| byte as u8);
    Ok(name.take_while(|&byte| byte != 0).eq(*b"tmpfs"))
}

/// Returns whether the file may lie in memory alone: the names of this system's file systems are
/// not known here.
#[cfg(not(any(
    target_os = "linux",
    target_os = "android",
    target_vendor = "apple",
    target_os = "freebsd"
)))]
pub(crate) fn is_in_memory(_: &File) -> Result<bool, Errno> {
    Ok(true)
}
