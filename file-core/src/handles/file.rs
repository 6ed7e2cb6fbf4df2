//! An open file: how it is opened and read. `file/change.rs` has the steps of every change.
//!
//! # Reads
//! A read locks its bytes shared, reads the size, and then looks up each page without taking
//! another lock. Pages that the file does not have read as zeros. If the volume has data checksums,
//! a read compares each page with its checksum. So does a write to a part of a page, before its
//! first store: otherwise, the write would give damaged bytes a correct checksum.
//!
//! # The end
//! The bytes of a page past the file's size are zero. A write leaves them so, and a truncation
//! makes them so. An operation that moves the end holds at least the page of the old end or of the
//! new end, whichever is later. A truncation holds everything from the page of the new size on.

mod change;
pub(crate) mod cursor;
mod holes;
mod pages;
mod replaced_pages;
mod write;

use core::fmt;
use core::ops::Range;
use std::collections::BTreeSet;
use std::io::IoSliceMut;

use spanlock_pmem::Pmem;
use spanlock_range_lock::{RangeLockExt, RawRangeLock};
use spanlock_sync::Arc;

use crate::log::live::{EmitGroup, IsOld, Live};
use crate::log::tail::SlotAddress;
use crate::medium::error::Error;
use crate::medium::layout::{PAGE, PAGE_BYTES, page_at};
use crate::object::inode::Inode;
use crate::volume::shared::Shared;
use crate::volume::tree::NameAt;

/// An open file. Clones are handles to the same file and may be used by any number of threads.
///
/// Every change is atomic and durable. A change that has returned survives a crash. A change that a
/// crash interrupts is present afterwards as a whole or not at all. The file's range lock
/// serializes conflicting accesses to overlapping ranges.
pub struct File<P: Pmem, L: RawRangeLock> {
    shared: Arc<Shared<P, L>>,
    inode: Arc<Inode<L>>,
}

impl<P: Pmem, L: RawRangeLock> File<P, L> {
    pub(crate) fn new(shared: Arc<Shared<P, L>>, inode: Arc<Inode<L>>) -> Self {
        File { shared, inode }
    }

    /// Creates a file, and opens it.
    pub(crate) fn create_at(shared: &Arc<Shared<P, L>>, at: &NameAt<'_>) -> Result<Self, Error> {
        let inode = shared.create_file(at, || shared.make_lock(at.path))?;
        Ok(File::new(Arc::clone(shared), inode))
    }

    /// Opens a file.
    pub(crate) fn open_at(shared: &Arc<Shared<P, L>>, at: &NameAt<'_>) -> Result<Self, Error> {
        let inode = shared.open_file(at, || shared.make_lock(at.path))?;
        Ok(File::new(Arc::clone(shared), inode))
    }

    /// Gives the threads with these [numbers](spanlock_sync::thread::index) a page of the file's
    /// log each, in this order, as if they had contended for its end. For models and tests.
    #[doc(hidden)]
    pub fn give_lanes(&self, threads: &[usize]) -> Result<(), Error> {
        self.inode.log.give_lanes(&self.shared.medium, threads)
    }

    /// Poisons the file's log, as a panic in the middle of a change does. For models.
    #[doc(hidden)]
    pub fn poison_log(&self) {
        self.inode.log.poison();
    }

    /// Opens the file that has a name which was [listed](Shared::files), and adds it to `seen`.
    /// Returns `None` if the path does not lead to a file any more, or if the file was in `seen`
    /// because it has several names.
    ///
    /// The file is added under the identity with which it was opened, not the one that was listed.
    /// Its other names must not be passed over if this one has been removed since, or stands for
    /// another file.
    ///
    /// # Errors
    /// Those of [`open_at`](Self::open_at), except [`Error::NotFound`], [`Error::IsADirectory`] and
    /// [`Error::NotADirectory`].
    pub(crate) fn open_listed(
        shared: &Arc<Shared<P, L>>,
        path: &str,
        seen: &mut BTreeSet<(u32, u64)>,
    ) -> Result<Option<Self>, Error> {
        let file = match shared.with(path, |at| Self::open_at(shared, at)) {
            Ok(file) => file,
            // It, or a directory on its path, was removed, renamed or exchanged meanwhile.
            Err(
                Error::NotFound { .. } | Error::IsADirectory { .. } | Error::NotADirectory { .. },
            ) => return Ok(None),
            Err(error) => return Err(error),
        };
        let id = (file.inode().number, file.inode().generation);
        Ok(seen.insert(id).then_some(file))
    }

    pub(crate) fn inode(&self) -> &Inode<L> {
        &self.inode
    }

    pub(crate) fn shared(&self) -> &Shared<P, L> {
        &self.shared
    }

    /// Reads bytes starting at `offset` into `buf` and returns their number. The number is less
    /// than `buf.len()` only if the read reaches the end of the file, and 0 if it starts at or past
    /// the end. The rest of `buf` is unchanged.
    ///
    /// Blocks while other threads write any of the same 4 KiB pages, and while they hold the whole
    /// file: [`set_modified`](Self::set_modified) does, and so can an [append](Self::append).
    ///
    /// # Errors
    /// [`Error::Lock`], and [`Error::Corrupt`] if the volume has data checksums and a page does not
    /// match its checksum. The error names the page. The bytes before that page may have been read.
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Error> {
        self.read_vectored_at(&mut [IoSliceMut::new(buf)], offset)
    }

    /// Reads bytes starting at `offset` into all buffers, one after the other, like
    /// [`read_at`](Self::read_at). They are a snapshot: no write takes effect in between.
    ///
    /// # Errors
    /// Same as [`read_at`](Self::read_at).
    pub fn read_vectored_at(
        &self,
        bufs: &mut [IoSliceMut<'_>],
        offset: u64,
    ) -> Result<usize, Error> {
        let lengths = bufs.iter().map(|buf| buf.len() as u64);
        let wanted = lengths.fold(0, u64::saturating_add);
        let max = self.shared.medium.geometry.max_file_size;
        let end = offset.saturating_add(wanted).min(max);
        if offset >= end {
            return Ok(0);
        }
        let _hold = self.inode.lock.read(offset..end)?;
        // Read the size under the lock: an earlier value could hide bytes written since.
        let end = end.min(self.inode.size());
        let mut at = offset;
        for buf in bufs {
            let here = (buf.len() as u64).min(end.saturating_sub(at)) as usize;
            self.read_held(&mut buf[..here], at)?;
            at += here as u64;
        }
        Ok((at - offset) as usize)
    }

    /// Reads bytes below the file's size, which the caller holds.
    fn read_held(&self, buf: &mut [u8], offset: u64) -> Result<(), Error> {
        let medium = &self.shared.medium;
        let with_checksums = medium.geometry.data_checksums;
        let (mut at, mut rest) = (offset, buf);
        while !rest.is_empty() {
            let within = (at % PAGE_BYTES) as usize;
            let here = (PAGE - within).min(rest.len());
            let (into, later) = rest.split_at_mut(here);
            let file_page = (at / PAGE_BYTES) as u32;
            // SAFETY: the caller holds the bytes that are read.
            match unsafe { self.inode.index.get(file_page) } {
                None => into.fill(0),
                Some(mapping) if !with_checksums => medium.load_data(mapping.page, within, into),
                Some(_) => {
                    let mut image = [0; PAGE];
                    self.load_page(file_page, &mut image)?;
                    into.copy_from_slice(&image[within..within + here]);
                }
            }
            (at, rest) = (at + here as u64, later);
        }
        Ok(())
    }

    /// Loads a page of the file, which the caller holds, into `image`, which has a page's length.
    /// Returns whether the file has the page. A hole leaves `image` unchanged.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the page does not match its checksum.
    fn load_page(&self, file_page: u32, image: &mut [u8]) -> Result<bool, Error> {
        let medium = &self.shared.medium;
        // SAFETY: the caller holds the page.
        let Some(mapping) = (unsafe { self.inode.index.get(file_page) }) else {
            return Ok(false);
        };
        medium.load_data(mapping.page, 0, image);
        if medium.geometry.data_checksums && crc32c::crc32c(image) != mapping.checksum {
            let (offset, at) = (page_at(file_page), page_at(mapping.page));
            return Err(Error::damaged_data(self.inode.number, offset, at));
        }
        Ok(true)
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        self.inode.size()
    }

    /// Returns the end of a write of `len` bytes at `offset`.
    ///
    /// # Errors
    /// [`Error::FileTooLarge`].
    #[inline]
    fn end_of(&self, len: u64, offset: u64) -> Result<u64, Error> {
        let max = self.shared.medium.geometry.max_file_size;
        match offset.checked_add(len) {
            Some(end) if end <= max => Ok(end),
            _ => Err(Error::FileTooLarge { offset, len, max }),
        }
    }

    /// Checks that the volume has as many pages, free or not, as the range.
    ///
    /// # Errors
    /// [`Error::NoSpace`].
    fn check_pages(&self, pages: Range<u64>) -> Result<(), Error> {
        let medium = &self.shared.medium;
        let needed = pages.end - pages.start;
        if needed > u64::from(medium.geometry.data_pages()) {
            let (free, reserved) = medium.space.alloc.free_pages();
            return Err(Error::NoSpace {
                needed,
                free: free - reserved,
            });
        }
        Ok(())
    }
}

impl<P: Pmem, L: RawRangeLock> Live for File<P, L> {
    fn each(&self, is_old: &IsOld<'_>, emit: &mut EmitGroup<'_>) -> u64 {
        self.inode.each_live(is_old, emit)
    }

    fn moved(&self, is_old: &IsOld<'_>, groups: &[(u64, SlotAddress)]) -> Vec<u32> {
        self.inode.move_to(is_old, groups)
    }
}

impl<P: Pmem, L: RawRangeLock> Clone for File<P, L> {
    fn clone(&self) -> Self {
        File {
            shared: Arc::clone(&self.shared),
            inode: Arc::clone(&self.inode),
        }
    }
}

impl<P: Pmem, L: RawRangeLock> fmt::Debug for File<P, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File")
            .field("inode", &self.inode.number)
            .field("generation", &self.inode.generation)
            .field("size", &self.size())
            .finish_non_exhaustive()
    }
}
