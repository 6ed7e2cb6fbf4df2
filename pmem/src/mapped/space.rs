//! Allocating disk space in advance: on a full disk, a store into the mapping of a hole raises
//! SIGBUS.

use core::ops::Range;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rustix::fs::fstatvfs;
use rustix::io::Errno;

use crate::error::PmemError;
use crate::platform::allocate;

/// The number of bytes written at a time where the file system cannot allocate.
const CHUNK_BYTES: usize = 1 << 20;

/// Extends `file` from `added.start` to `added.end` bytes, with zeros in allocated blocks.
///
/// On error the file may be longer than it was; the caller truncates or removes it.
pub(super) fn extend(file: &File, path: &Path, added: Range<u64>) -> Result<(), PmemError> {
    let needed = added.end - added.start;
    let result =
        check_free_space(file, needed).and_then(|()| match allocate(file, added.clone()) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(file, added),
            other => Ok(other?),
        });
    result.map_err(|source| failed(path, needed, source))
}

/// Allocates blocks for the holes in the first `len` bytes of `file`. The contents stay.
///
/// Where the file system cannot allocate, holes stay; files made by `extend` have none.
pub fn fill_holes(file: &File, path: &Path, len: u64) -> Result<(), PmemError> {
    let allocated = file.metadata().map_or(0, |found| found.blocks() * 512);
    let needed = len.saturating_sub(allocated);
    if len == 0 {
        // Linux allocates no empty range.
        return Ok(());
    }
    let result = check_free_space(file, needed).and_then(|()| match allocate(file, 0..len) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
        other => Ok(other?),
    });
    result.map_err(|source| failed(path, needed, source))
}

/// Refuses a size that cannot fit before trying it. An attempt would fill the disk, for other
/// programs too, until it fails.
fn check_free_space(file: &File, needed: u64) -> io::Result<()> {
    let found = fstatvfs(file)?;
    let free = found.f_bfree.saturating_mul(found.f_frsize);
    // Zero blocks in total: a file system without a size, such as an unlimited tmpfs.
    if found.f_blocks == 0 || needed <= free {
        Ok(())
    } else {
        Err(Errno::NOSPC.into())
    }
}

fn write_zeros(file: &File, bytes: Range<u64>) -> io::Result<()> {
    let zeros = vec![0; CHUNK_BYTES];
    let mut at = bytes.start;
    while at < bytes.end {
        let len = (bytes.end - at).min(CHUNK_BYTES as u64);
        file.write_all_at(&zeros[..len as usize], at)?;
        at += len;
    }
    Ok(())
}

fn failed(path: &Path, needed: u64, source: io::Error) -> PmemError {
    let path = path.to_owned();
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
            PmemError::NoSpace {
                path,
                needed,
                source,
            }
        }
        _ => PmemError::Io {
            path,
            doing: "allocating space",
            source,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_extend_and_keep_what_was_there() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(b"kept", 0).unwrap();
        let len = 4 + 2 * CHUNK_BYTES as u64 + 7;
        write_zeros(&file, 4..len).unwrap();

        let mut found = vec![1; len as usize];
        file.read_exact_at(&mut found, 0).unwrap();
        assert_eq!(file.metadata().unwrap().len(), len);
        assert_eq!(&found[..4], b"kept");
        assert!(found[4..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn more_than_the_disk_holds_is_refused_before_it_is_tried() {
        let file = tempfile::tempfile().unwrap();
        let error = check_free_space(&file, 1 << 60).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(file.metadata().unwrap().blocks(), 0);
    }

    #[test]
    fn holes_that_do_not_fit_are_refused_before_they_are_filled() {
        let file = tempfile::tempfile().unwrap();
        // More than any file can have: an attempt to allocate it fails at once, with another error.
        let len = 1 << 63;
        let error = fill_holes(&file, Path::new("sparse"), len).unwrap_err();
        let needed = matches!(error, PmemError::NoSpace { needed, .. } if needed == len);
        assert!(needed, "{error}");
        assert_eq!(file.metadata().unwrap().blocks(), 0);
    }
}
