//! Writes and appends.

use core::ops::Range;
use std::io::IoSlice;

use spanlock_pmem::Pmem;
use spanlock_range_lock::{RangeLockExt, RawRangeLock};
use spanlock_sync::injected_bug;

use crate::handles::file::File;
use crate::handles::file::change::{Change, Part};
use crate::handles::file::pages::{Bytes, NewPages, blank};
use crate::medium::alloc::Class;
use crate::medium::error::Error;
use crate::medium::layout::{PAGE, PAGE_BYTES};

impl<P: Pmem, L: RawRangeLock> File<P, L> {
    /// Writes all of `data` at byte `offset`, atomically and durably. If `offset` lies past the end
    /// of the file, the gap reads as zeros. An empty write does nothing.
    ///
    /// Blocks while other threads read or write any of the same 4 KiB pages, and while they hold
    /// the whole file: [`set_modified`](Self::set_modified) does, and so can an
    /// [append](Self::append). Also blocks while another thread adds a page to the file's log and,
    /// on a full volume, while the log is cleaned. A [cleaning on
    /// demand](crate::Volume::clean) can block it, too.
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
        self.shared.check_writable()?;
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
        let max = self.shared.medium.geometry.max_file_size;
        let (bufs, len) = (&[IoSlice::new(data)][..], data.len() as u64);
        let mut tries = 0;
        loop {
            let seen = self.inode.size();
            if len == 0 {
                return Ok(seen);
            }
            self.shared.check_writable()?;
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
