//! The system calls of each platform, for this crate and `spanlock-journal-commit`.
//!
//! | | Linux | other Unix | Windows |
//! |---|---|---|---|
//! | one opener only | `flock` | `flock` | the share mode |
//! | a new name | `renameat2` | check, then `rename` | check, then `MoveFileEx` |
//! | a new name is durable | after the folder's sync | after the folder's sync | not known |
//! | blocks of a new file | `fallocate` | zeros are written | zeros are written |
//! | blocks of holes | `fallocate` | zeros are written | left as they are |
//! | write-back of a mapping | `msync` | `msync`, then the file's sync | no mappings |
//!
//! On Apple's systems neither `fsync` nor `msync` reaches the medium, but std's `sync_all` and
//! `sync_data` are `F_FULLFSYNC`, which does. On Windows both are `FlushFileBuffers`. On other Unix
//! systems `msync` waits for the file's pages, and the sync adds the metadata. Whether it also adds
//! the device's cache is up to the file system: FreeBSD's UFS and NetBSD's `fsync` do not.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(all(unix, any(test, not(target_os = "linux"))))]
mod other_unix;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(target_os = "linux")]
pub(crate) use linux::{MAP_SYNC, allocate, next_hole, remap, rename_new, write_back_mapped};
#[cfg(all(unix, not(target_os = "linux")))]
pub(crate) use other_unix::{MAP_SYNC, allocate, next_hole, remap, rename_new, write_back_mapped};
#[cfg(unix)]
pub use unix::{
    alone, is_in_use, open_itself, read_at, read_exact_at, try_lock, try_lock_shared, unlock,
    write_all_at,
};
#[cfg(unix)]
pub(crate) use unix::{is_in_memory, is_named, sync_folder};
#[cfg(windows)]
pub use windows::{
    alone, is_in_use, open_itself, read_at, read_exact_at, try_lock, unlock, write_all_at,
};
#[cfg(windows)]
pub(crate) use windows::{is_named, rename_new, sync_folder};
