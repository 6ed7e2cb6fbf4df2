//! An open file: reads, and atomic copy-on-write writes.
//!
//! # Writes
//! ```text
//!   lock whole pages of the file                 released at the end
//!     take pages from the allocator               may fail
//!       reserve slots in the log                    may fail
//!         stream data ┐
//!         store slots ┴─ fence ── mark ── fence
//!         update index, size and time
//!       the reservation ends
//!     replaced pages become free
//! ```
//! Every step that can fail precedes the first store (M2). The write becomes durable with the
//! second fence and visible after it. So no reader sees data that a crash could still discard.
//!
//! Truncations, holes and allocations take the same steps. Each is a [`Change`](change::Change),
//! whose parts are new pages, holes, or pages that the file keeps.
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
//!
//! # Cost
//! Overwriting one page streams that page and writes one log slot, and takes two fences. It takes a
//! page and frees one, each by one atomic exchange if the allocator has a [spare](crate::alloc), or
//! else in a short critical section. It allocates no heap memory, unless the allocator's map of
//! free extents needs a node, or the log needs a page. A write to a part of a page also copies the
//! page, and allocates memory for the copy.

mod change;
mod cursor;
mod holes;
mod pages;
mod replaced;

use core::fmt;
use core::ops::Range;
use std::io::{IoSlice, IoSliceMut};

use spanlock_pmem::Pmem;
use spanlock_range_lock::{RangeLockExt, RawRangeLock};
use spanlock_sync::{Arc, injected_bug};

use self::change::{Change, Part};
pub use self::cursor::Cursor;
use self::pages::{Bytes, NewPages, blank};
use crate::alloc::Class;
use crate::clean::{EmitGroup, IsOld, Live};
use crate::error::Error;
use crate::inode::Inode;
use crate::layout::{PAGE, PAGE_BYTES, page_at};
use crate::log::Place;
use crate::volume::Volume;

/// An open file. Clones are handles to the same file and may be used by any number of threads.
///
/// Every change is atomic and durable. A change that has returned survives a crash. A change that a
/// crash interrupts is present afterwards as a whole or not at all. The file's range lock
/// serializes conflicting accesses to overlapping ranges.
pub struct File<P: Pmem, L: RawRangeLock> {
    volume: Arc<Volume<P, L>>,
    inode: Arc<Inode<L>>,
}

impl<P: Pmem, L: RawRangeLock> File<P, L> {
    pub(crate) fn new(volume: Arc<Volume<P, L>>, inode: Arc<Inode<L>>) -> Self {
        File { volume, inode }
    }

    pub(crate) fn inode(&self) -> &Inode<L> {
        &self.inode
    }

    pub(crate) fn volume(&self) -> &Volume<P, L> {
        &self.volume
    }

    /// Writes all of `data` at byte `offset`, atomically and durably. If `offset` lies past the end
    /// of the file, the gap reads as zeros. An empty write does nothing.
    ///
    /// Blocks while other threads read or write any of the same 4 KiB pages, and while they hold
    /// the whole file: [`set_modified`](Self::set_modified) does, and so can an
    /// [append](Self::append). Also blocks while another thread adds a page to the file's log and,
    /// on a full volume, while the log is cleaned. A [cleaning on
    /// demand](crate::FileCore::clean) can block it, too.
    ///
    /// If only the [reserve](crate::Stats::pages_reserved) is free, a write can only replace pages
    /// that the file has. It may take half of the reserve: 1/128 of the pages of the [data
    /// area](crate::Stats::pages_total), at least 2 and at most 256. So a longer write fails. If
    /// the file's log is full and cleaning does not help, the log takes a page from the same half,
    /// and keeps it. So once the logs of other files have done this, even a write of one page can
    /// fail.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::FileTooLarge`], [`Error::WriteTooLong`], [`Error::NoSpace`],
    /// [`Error::Lock`], [`Error::Poisoned`], and [`Error::Corrupt`] if the volume has data
    /// checksums and the write covers a part of a damaged page. The file is unchanged.
    pub fn write_at(&self, data: &[u8], offset: u64) -> Result<(), Error> {
        self.write_vectored_at(&[IoSlice::new(data)], offset)
    }

    /// Writes the bytes of all buffers, one after the other, at byte `offset`, in one atomic write
    /// like [`write_at`](Self::write_at).
    ///
    /// # Errors
    /// Same as [`write_at`](Self::write_at).
    pub fn write_vectored_at(&self, bufs: &[IoSlice<'_>], offset: u64) -> Result<(), Error> {
        let len = Bytes::new(bufs).len();
        if len == 0 {
            return Ok(());
        }
        self.volume.check_writable()?;
        let write = Write::new(bufs, offset, self.end_of(len, offset)?);
        let _hold = self.inode.lock.write(write.range())?;
        self.write_held(&write)
    }

    /// Writes all of `data` at the end of the file, atomically and durably, and returns the offset
    /// at which it starts. Appends and other writes at the end exclude each other, so none
    /// overwrites another. A concurrent write, allocation or truncation beyond the pages of the
    /// append does not wait for it. The file may then be longer than the end of the append, whose
    /// bytes read as zeros until it takes effect.
    ///
    /// Blocks like [`write_at`](Self::write_at). If the end moves out of the locked pages while the
    /// append waits for them, the append tries again. There are at most four attempts: the third
    /// locks everything from the end on, and the fourth locks the whole file. The append needs no
    /// capability of the lock, so it works with a `Box<dyn RawRangeLock>`.
    ///
    /// # Errors
    /// Same as [`write_at`](Self::write_at).
    pub fn append(&self, data: &[u8]) -> Result<u64, Error> {
        let max = self.volume.medium.geometry.max_file_size;
        let (bufs, len) = (&[IoSlice::new(data)][..], data.len() as u64);
        let mut tries = 0;
        loop {
            let seen = self.inode.size();
            if len == 0 {
                return Ok(seen);
            }
            self.volume.check_writable()?;
            let likely = Write::new(bufs, seen, self.end_of(len, seen)?).range();
            let range = match tries {
                0 | 1 => likely,
                2 => likely.start..max,
                _ => 0..max,
            };
            let _hold = self.inode.lock.write(range.clone())?;
            // If the page of the end is held, another thread can move the end only to a later page.
            // Then the append may come first.
            let end = match injected_bug!(
                "append-stale-end",
                "an append writes where the end was before it had locked it",
                killed_by = "file-core/append-append, file-core-histories/file"
            ) {
                true => seen,
                false => self.inode.size(),
            };
            let write = Write::new(bufs, end, self.end_of(len, end)?);
            let wanted = write.range();
            if range.start <= wanted.start && wanted.end <= range.end {
                self.write_held(&write)?;
                return Ok(end);
            }
            tries += 1;
        }
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
        let max = self.volume.medium.geometry.max_file_size;
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
        let medium = &self.volume.medium;
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
        let medium = &self.volume.medium;
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

    /// Returns a handle with a position at the start of the file, for the traits of `std::io`.
    pub fn cursor(&self) -> Cursor<P, L> {
        Cursor::new(self.clone())
    }

    /// Returns the end of a write of `len` bytes at `offset`.
    ///
    /// # Errors
    /// [`Error::FileTooLarge`].
    #[inline]
    fn end_of(&self, len: u64, offset: u64) -> Result<u64, Error> {
        let max = self.volume.medium.geometry.max_file_size;
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
        let medium = &self.volume.medium;
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

    /// Performs the write. The caller holds its file pages exclusively.
    fn write_held(&self, write: &Write<'_>) -> Result<(), Error> {
        self.check_pages(write.file_pages())?;
        // SAFETY: the caller holds the pages of the write.
        let replaces = unsafe { self.inode.index.has_all(write.file_pages()) };
        let class = if replaces {
            Class::Overwrite
        } else {
            Class::Growth
        };
        let change = Change {
            first: write.first as u32,
            parts: &[Part::New(write.pages())],
            end: write.end,
            sets_size: false,
            sets_modified: None,
            class,
        };
        let mut new = NewPages::zeros(write.pages());
        self.fill(&mut new, write)?;
        self.apply(&change, &mut new)
    }

    /// Fills the pages of a write. The first and last page keep the old bytes that the write does
    /// not cover.
    fn fill<'d>(&self, new: &mut NewPages<'d>, write: &Write<'d>) -> Result<(), Error> {
        let data = new.whole.insert(Bytes::new(write.bufs));
        let (from, to) = (
            (write.offset % PAGE_BYTES) as usize,
            (write.end % PAGE_BYTES) as usize,
        );
        if from > 0 || (to > 0 && new.count == 1) {
            let image = new.head.insert(blank());
            self.load_page(write.first as u32, image)?;
            let len = ((PAGE - from) as u64).min(write.end - write.offset);
            data.copy_to(&mut image[from..][..len as usize]);
        }
        if to > 0 && new.count > 1 {
            let image = new.tail.insert(blank());
            self.load_page((write.last - 1) as u32, image)?;
            let mut rest = Bytes::new(write.bufs);
            rest.skip(write.end - write.offset - to as u64);
            rest.copy_to(&mut image[..to]);
        }
        Ok(())
    }
}

impl<P: Pmem, L: RawRangeLock> Live for File<P, L> {
    fn each(&self, is_old: &IsOld<'_>, emit: &mut EmitGroup<'_>) -> u64 {
        self.inode.each_live(is_old, emit)
    }

    fn moved(&self, is_old: &IsOld<'_>, groups: &[(u64, Place)]) -> Vec<u32> {
        self.inode.move_to(is_old, groups)
    }
}

/// A write that has been checked: it is not empty and ends within the largest file size.
struct Write<'d> {
    bufs: &'d [IoSlice<'d>],
    offset: u64,
    end: u64,
    /// The first file page that it touches.
    first: u64,
    /// The file page after the last that it touches.
    last: u64,
}

impl<'d> Write<'d> {
    /// Creates a write of all bytes in `bufs`, of which there is at least one. It ends at `end`.
    fn new(bufs: &'d [IoSlice<'d>], offset: u64, end: u64) -> Self {
        Write {
            bufs,
            offset,
            end,
            first: offset / PAGE_BYTES,
            last: end.div_ceil(PAGE_BYTES),
        }
    }

    /// Returns the file pages that the write touches.
    fn file_pages(&self) -> Range<u64> {
        self.first..self.last
    }

    /// Returns the number of these pages. A volume has fewer than 2³².
    fn pages(&self) -> u32 {
        (self.last - self.first) as u32
    }

    /// Returns the bytes to lock. They are whole pages, because the first and last page are merged
    /// with their old content.
    fn range(&self) -> Range<u64> {
        if injected_bug!(
            "locks-bytes-only",
            "a write locks its bytes, and not the whole pages that it copies",
            killed_by = "file-core-memory/halves"
        ) {
            return self.offset..self.end;
        }
        self.first * PAGE_BYTES..self.last * PAGE_BYTES
    }
}

impl<P: Pmem, L: RawRangeLock> Clone for File<P, L> {
    fn clone(&self) -> Self {
        File {
            volume: Arc::clone(&self.volume),
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
