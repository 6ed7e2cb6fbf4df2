//! Unix systems other than Linux.

use core::ffi::c_void;
use core::ops::Range;
use core::ptr;
use std::fs::File;
use std::io;
use std::path::Path;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

/// No such mappings here.
pub(crate) const MAP_SYNC: Option<MapFlags> = None;

/// Gives a file its name, unless another file has it. Other creations wait for the lock, but a
/// program that does not ask for it could come in between.
pub(crate) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match std::fs::symlink_metadata(to) {
        Ok(_) => Err(Errno::EXIST.into()),
        Err(_) => std::fs::rename(from, to),
    }
}

/// Allocates nothing: there is no call for it that all these systems have.
pub(crate) fn allocate(_: &File, _: Range<u64>) -> Result<(), Errno> {
    Err(Errno::OPNOTSUPP)
}

/// Maps more of the same file, at another address. On error the mapping is as it was.
///
/// # Safety
/// `base .. base + len` is a whole mapping, and nothing uses a pointer into it afterwards.
pub(crate) unsafe fn remap(
    file: &File,
    base: *mut c_void,
    len: usize,
    new_len: usize,
) -> Result<*mut c_void, Errno> {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: the system chooses the address, so the mapping replaces no other memory. The old one
    // is whole, and unused from now on. Both show the same pages, so no store is lost.
    unsafe {
        let mapped = mmap(ptr::null_mut(), new_len, access, MapFlags::SHARED, file, 0)?;
        let unmapped = munmap(base, len);
        debug_assert_eq!(unmapped, Ok(()), "a whole mapping can be unmapped");
        Ok(mapped)
    }
}

/// Completes the write-back of a mapping after `msync`, by the file's sync: see the table in
/// `platform.rs`.
pub(crate) fn write_back_mapped(msync: Result<(), Errno>, file: &File) -> Result<(), Errno> {
    // rustix takes the error from the result of `msync`, but it is in `errno`.
    msync.map_err(|_| errno_of(&io::Error::last_os_error()))?;
    file.sync_data().map_err(|error| errno_of(&error))
}

fn errno_of(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// Linux has all these calls, so its tests run this code, too.
#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    #[test]
    fn a_file_is_never_renamed_over_another() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        std::fs::write(&from, "new").unwrap();
        std::fs::write(&to, "somebody's").unwrap();
        let error = rename_new(&from, &to).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&to).unwrap(), b"somebody's");
        std::fs::remove_file(&to).unwrap();
        rename_new(&from, &to).unwrap();
        assert_eq!(std::fs::read(&to).unwrap(), b"new");
    }

    #[test]
    fn a_mapping_that_grows_keeps_its_stores() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(65536).unwrap();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        assert_eq!(
            (MAP_SYNC, allocate(&file, 0..1)),
            (None, Err(Errno::OPNOTSUPP))
        );
        // SAFETY: the system chooses the addresses, and only this test uses them.
        unsafe {
            let base = mmap(ptr::null_mut(), 65536, access, MapFlags::SHARED, &file, 0).unwrap();
            base.cast::<u8>().write(7);
            file.set_len(131_072).unwrap();
            let base = remap(&file, base, 65536, 131_072).unwrap();
            assert_eq!(base.cast::<u8>().read(), 7);
            base.cast::<u8>().add(131_071).write(8);
            write_back_mapped(Ok(()), &file).unwrap();
            munmap(base, 131_072).unwrap();
        }
        let mut last = [0];
        file.read_exact_at(&mut last, 131_071).unwrap();
        assert_eq!(last, [8]);
    }

    /// The error is in `errno`, because rustix may not know it.
    #[test]
    fn a_failed_msync_is_an_error() {
        let file = tempfile::tempfile().unwrap();
        let closed = std::fs::File::open("/no such file").unwrap_err();
        let failed = write_back_mapped(Err(Errno::from_raw_os_error(1)), &file).unwrap_err();
        assert_eq!(Some(failed), Errno::from_io_error(&closed));
    }
}
