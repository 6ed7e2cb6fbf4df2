//! A shared mapping of a whole file. Only this file, and `remap` of each platform, map and unmap
//! memory.

use core::ops::Range;
use core::ptr::{self, NonNull};
use std::fs::File;

#[cfg(target_os = "linux")]
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use rustix::mm::{self, MapFlags, MsyncFlags, ProtFlags};

use crate::platform;

/// The unit of msync, and of the parts that are mapped one by one: a multiple of every page size of
/// the architecture. The base is page-aligned, so offsets that are multiples of this are too.
const SYNC_BYTES: usize = if cfg!(target_arch = "x86_64") {
    4096
} else {
    65536
};

/// - **PM-I6** While it lives, `base .. base + len` is mapped shared and readable, and writable
///   unless it was mapped to be read only. Then holes may be mapped as zeros instead. Only
///   [`grow`](Mapping::grow), by `&mut`, changes it.
#[derive(Debug)]
pub(super) struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread; `Pmem`'s contracts govern which
// thread accesses which byte.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of `file`. With `map_sync`, MAP_SYNC is tried first.
    ///
    /// Returns whether MAP_SYNC was granted. The file system then writes a block's metadata back
    /// before the block becomes writable, so that flush instructions alone make stores durable.
    pub(super) fn new(file: &File, len: usize, map_sync: bool) -> Result<(Self, bool), Errno> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        if map_sync && let Some(flags) = platform::MAP_SYNC {
            match Self::map(file, len, access, flags) {
                Ok(mapping) => return Ok((mapping, true)),
                // The errors of file systems and kernels without MAP_SYNC.
                Err(Errno::OPNOTSUPP | Errno::INVAL) => {}
                Err(other) => return Err(other),
            }
        }
        Ok((Self::map(file, len, access, MapFlags::SHARED)?, false))
    }

    /// Maps the first `len` bytes of `file`, to be read only.
    pub(super) fn read_only(file: &File, len: usize) -> Result<Self, Errno> {
        #[cfg(target_os = "linux")]
        if platform::is_in_memory(file)? {
            return Self::read_only_without_holes(file, len);
        }
        Self::map(file, len, ProtFlags::READ, MapFlags::SHARED)
    }

    /// Maps the first `len` bytes of `file`, to be read only. Its holes are mapped as zeros that
    /// belong to no file. In memory, Linux allocates a page when a hole is read through a mapping
    /// of the file, and raises SIGBUS if the file system is full.
    #[cfg(target_os = "linux")]
    fn read_only_without_holes(file: &File, len: usize) -> Result<Self, Errno> {
        let mut data = next_data(file, 0, len)?;
        if data == Some(0..len) {
            return Self::map(file, len, ProtFlags::READ, MapFlags::SHARED);
        }
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: the kernel chooses the address, so the mapping replaces no other memory.
        let base = unsafe { mm::mmap_anonymous(ptr::null_mut(), len, ProtFlags::READ, flags)? };
        let base = NonNull::new(base.cast()).expect("the kernel maps nothing at address zero");
        let whole = Self { base, len };
        while let Some(Range { start, end }) = data {
            let flags = MapFlags::SHARED | MapFlags::FIXED;
            // SAFETY: `start..end` lies in `whole`, to which nothing refers yet, so only zeros are
            // replaced.
            unsafe {
                let at = whole.base().add(start).cast();
                mm::mmap(at, end - start, ProtFlags::READ, flags, file, start as u64)?;
            }
            data = next_data(file, end, len)?;
        }
        Ok(whole)
    }

    fn map(file: &File, len: usize, access: ProtFlags, flags: MapFlags) -> Result<Self, Errno> {
        // SAFETY: the kernel chooses the address, so the mapping replaces no other memory.
        let base = unsafe { mm::mmap(ptr::null_mut(), len, access, flags, file, 0)? };
        let base = NonNull::new(base.cast()).expect("the kernel maps nothing at address zero");
        Ok(Self { base, len })
    }

    /// Returns the address of the first byte, aligned to a page.
    #[inline]
    pub(super) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Returns the length in bytes.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Maps more of the same file, perhaps at another address. On error the mapping is as it was.
    pub(super) fn grow(&mut self, file: &File, new_len: usize) -> Result<(), Errno> {
        // SAFETY: PM-I6, and `&mut self`: no pointer into the old place is used while it moves.
        let base = unsafe { platform::remap(file, self.base.as_ptr().cast(), self.len, new_len)? };
        self.base = NonNull::new(base.cast()).expect("the kernel maps nothing at address zero");
        self.len = new_len;
        Ok(())
    }

    /// Writes back the pages of `file`, which is mapped, that `bytes` touches, and waits. `bytes`
    /// must be inside the mapping.
    pub(super) fn sync(&self, file: &File, bytes: Range<usize>) -> Result<(), Errno> {
        let start = bytes.start - bytes.start % SYNC_BYTES;
        // SAFETY: PM-I6; `start` up to `bytes.end` lies in the mapping. Contents do not change.
        let msync = unsafe {
            mm::msync(
                self.base.as_ptr().add(start).cast(),
                bytes.end - start,
                MsyncFlags::SYNC,
            )
        };
        platform::write_back_mapped(msync, file)
    }
}

/// Returns the next part of the file's first `len` bytes, from `at` on, that is not a hole, in
/// whole pages.
#[cfg(target_os = "linux")]
fn next_data(file: &File, at: usize, len: usize) -> Result<Option<Range<usize>>, Errno> {
    let find = |from| match seek(file, from) {
        Ok(found) => Ok(usize::try_from(found).map_or(len, |found| found.min(len))),
        Err(Errno::NXIO) => Ok(len),
        Err(error) => Err(error),
    };
    let start = find(SeekFrom::Data(at as u64))?;
    if start == len {
        return Ok(None);
    }
    let end = find(SeekFrom::Hole(start as u64))?;
    let pages = end.next_multiple_of(SYNC_BYTES).min(len);
    Ok(Some(start - start % SYNC_BYTES..pages))
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: PM-I6, and a mapping that is being dropped has no borrowers.
        let unmapped = unsafe { mm::munmap(self.base.as_ptr().cast(), self.len) };
        debug_assert_eq!(unmapped, Ok(()), "a whole mapping can be unmapped");
    }
}
