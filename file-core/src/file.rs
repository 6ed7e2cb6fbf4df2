//! An open file: reads, and atomic copy-on-write writes.
//!
//! # Writes
//! ```text
//!   lock whole pages of the file                 released at the end
//!     take pages from the allocator               may fail
//!       reserve slots in the log                    may fail
//!         stream data ┐
//!         store slots ┴─ fence ── mark ── fence
//!         update index and size
//!       the reservation ends
//!     replaced pages become free
//! ```
//! Every step that can fail precedes the first store (M2). The write becomes durable with the
//! second fence and visible after it. So no reader ever sees data that a crash could still discard.
//!
//! # Reads
//! A read locks its bytes shared, reads the size, and then looks up each page without taking
//! another lock. Pages that the file does not have read as zeros.
//!
//! # Cost
//! Overwriting one page streams that page and writes one log slot. It takes two fences and two short
//! critical sections of the allocator. It allocates no heap memory, unless the allocator's map of
//! free extents needs a node, or the log needs a page.

use core::fmt;

use spanlock_pmem::{Flushed, Pmem};
use spanlock_range_lock::{RangeLockExt, RawRangeLock};
use spanlock_sync::{Arc, injected_bug};

use crate::alloc::{Class, Extent, ExtentList};
use crate::error::Error;
use crate::index::Mapping;
use crate::inode::Inode;
use crate::layout::{MAX_WRITE_BYTES, PAGE, PAGE_BYTES, SLOT_BYTES, page_at};
use crate::log::Reservation;
use crate::log_page::Gained;
use crate::medium::Medium;
use crate::record::{GroupWriter, WriteHeader, slots_for};
use crate::volume::Volume;

/// An open file. Clones are handles to the same file and may be used by any number of threads.
///
/// Every write is atomic and durable. Once it has returned, it survives a crash; if a crash
/// interrupts it, it is present as a whole or not at all. The file's range lock serializes
/// conflicting accesses to overlapping ranges.
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

    /// Writes all of `data` at byte `offset`, atomically and durably. If `offset` lies past the end
    /// of the file, the gap reads as zeros. An empty write does nothing.
    ///
    /// Blocks while other threads read or write any of the same 4 KiB pages, while another thread
    /// adds a page to the file's log, and, on a full volume, while the log is cleaned.
    ///
    /// # Errors
    /// [`Error::FileTooLarge`], [`Error::WriteTooLong`], [`Error::NoSpace`], [`Error::Lock`],
    /// [`Error::Poisoned`]. The file is unchanged.
    pub fn write_at(&self, data: &[u8], offset: u64) -> Result<(), Error> {
        if data.is_empty() {
            return Ok(());
        }
        let write = self.plan(data, offset)?;
        let _hold = self.inode.lock.write(write.range())?;
        self.write_held(&write)
    }

    /// Writes all of `data` at the end of the file, atomically and durably, and returns the offset
    /// at which it starts. Appends and other writes at the end exclude each other, so none
    /// overwrites another. A concurrent write that starts beyond the end's page does not conflict,
    /// so it may enlarge the file before the appended data is visible.
    ///
    /// Blocks like [`write_at`](Self::write_at). The append restarts if the file grows while it
    /// waits for the range lock.
    ///
    /// # Errors
    /// Same as [`write_at`](Self::write_at).
    pub fn append(&self, data: &[u8]) -> Result<u64, Error> {
        loop {
            let offset = self.inode.size();
            if data.is_empty() {
                return Ok(offset);
            }
            let write = self.plan(data, offset)?;
            let _hold = self.inode.lock.write(write.range())?;
            // The end is final under the lock: every other append needs the page where the file
            // ends.
            let is_unchecked = injected_bug!(
                "append-at-old-end",
                "an append takes the file's end before the lock, and does not look again",
                killed_by = "file-core-histories/file"
            );
            if is_unchecked || self.inode.size() == offset {
                self.write_held(&write)?;
                return Ok(offset);
            }
        }
    }

    /// Reads bytes starting at `offset` into `buf` and returns their number. It is less than
    /// `buf.len()` only if the read reaches the end of the file, and 0 past the end. The rest of
    /// `buf` is unchanged.
    ///
    /// Blocks while other threads write any of the same 4 KiB pages.
    ///
    /// # Errors
    /// [`Error::Lock`].
    pub fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Error> {
        let medium = &self.volume.medium;
        let end = offset
            .saturating_add(buf.len() as u64)
            .min(medium.geometry.max_file_size);
        if offset >= end {
            return Ok(0);
        }
        let _hold = self.inode.lock.read(offset..end)?;
        // Read the size under the lock: an earlier value could hide bytes written since.
        let end = end.min(self.inode.size());
        let mut at = offset;
        while at < end {
            let within = (at % PAGE_BYTES) as usize;
            let n = (PAGE - within).min((end - at) as usize);
            let into = &mut buf[(at - offset) as usize..][..n];
            match self.inode.index.get((at / PAGE_BYTES) as u32) {
                Some(mapping) => medium.load_data(mapping.page, within, into),
                None => into.fill(0),
            }
            at += n as u64;
        }
        Ok(end.saturating_sub(offset) as usize)
    }

    /// Returns the size in bytes.
    pub fn size(&self) -> u64 {
        self.inode.size()
    }

    /// Checks that the write is possible. `data` must not be empty.
    fn plan<'d>(&self, data: &'d [u8], offset: u64) -> Result<Write<'d>, Error> {
        let (len, max) = (data.len() as u64, self.volume.medium.geometry.max_file_size);
        match offset.checked_add(len) {
            Some(end) if end <= max => {}
            _ => return Err(Error::FileTooLarge { offset, len, max }),
        }
        if len > MAX_WRITE_BYTES {
            return Err(Error::WriteTooLong {
                len,
                max: MAX_WRITE_BYTES,
            });
        }
        Ok(Write::new(data, offset))
    }

    /// Performs the write. The caller holds its file pages exclusively.
    fn write_held(&self, write: &Write<'_>) -> Result<(), Error> {
        let Volume { medium, .. } = &*self.volume;
        let inode = &*self.inode;
        let alloc = &medium.space.alloc;
        let replaces = write
            .file_pages()
            .all(|page| inode.index.get(page).is_some());
        let class = if replaces {
            Class::Overwrite
        } else {
            Class::Growth
        };

        let hint = (inode.number as u64) << 32 | write.first as u64;
        let extents = alloc.take(hint, write.pages, class)?;
        let header = write.header(&extents, medium.geometry.data_checksums);
        let slots = slots_for(header.record_bytes());
        match inode.log.reserve(medium, slots as u32, class, inode) {
            Ok(reservation) => {
                self.write_reserved(write, &extents, &header, slots, reservation);
                Ok(())
            }
            Err(error) => {
                // M2: nothing has been stored to these pages.
                extents.iter().for_each(|extent| alloc.release(extent));
                Err(error)
            }
        }
    }

    /// Performs the part that cannot fail, from the first store to freeing the old pages.
    fn write_reserved(
        &self,
        write: &Write<'_>,
        extents: &ExtentList,
        header: &WriteHeader,
        slots: usize,
        mut reservation: Reservation<'_>,
    ) {
        let medium = &self.volume.medium;
        let (mut few_slots, mut many_slots) = ([0; 4 * SLOT_BYTES], Vec::new());
        let group = scratch(&mut few_slots, &mut many_slots, slots * SLOT_BYTES);
        let (mut few, mut many) = ([0; 16], Vec::new());
        let checksums = scratch(&mut few, &mut many, write.pages as usize);

        let flushed = self.store_data(write, extents, checksums);
        let mut writer = GroupWriter::new(group);
        header.put(&mut writer, extents.iter());
        if header.checksums {
            for checksum in checksums.iter() {
                writer.put(&checksum.to_le_bytes());
            }
        }
        let frees_early = injected_bug!(
            "freed-before-commit",
            "an overwrite frees the old pages before the new ones are committed",
            killed_by = "file-core-full/patch-second, file-core-full/patch-append, file-core-full/second-second"
        );
        if frees_early {
            let mut old = Replaced::default();
            let mapped = write.file_pages().filter_map(|it| self.inode.index.get(it));
            mapped.for_each(|mapping| old.push(mapping.page, medium));
            old.flush(medium);
        }
        reservation.commit(medium, group, flushed);

        let log_page = reservation.place().page;
        let mut old = Replaced::default();
        for ((page, file_page), &checksum) in
            extents.pages().zip(write.file_pages()).zip(&*checksums)
        {
            let mapping = Mapping { page, checksum };
            if let Some((mapping, log_page)) =
                self.inode.index.replace(file_page, mapping, log_page)
            {
                if !frees_early {
                    old.push(mapping.page, medium);
                }
                old.push_reference(log_page, medium);
            }
        }
        self.inode.grow(header.end, log_page);
        reservation.end(Gained {
            live: header.pages,
            tombs: 0,
        });
        old.flush(medium);
    }

    /// Streams the new pages. The first and last page keep the old bytes that the write does not
    /// cover.
    fn store_data(
        &self,
        write: &Write<'_>,
        extents: &ExtentList,
        checksums: &mut [u32],
    ) -> Flushed {
        let medium = &self.volume.medium;
        let with_checksums = medium.geometry.data_checksums;
        let mut flushed = Flushed::nothing();
        let mut done = 0;
        for Extent { start, len } in extents.iter() {
            let mut i = 0;
            while i < len {
                let whole = write.whole_pages(write.first + done).min(len - i);
                if whole > 0 {
                    let content = write.content(write.first + done, whole);
                    flushed = flushed.and(medium.store_pages(start + i, content));
                    if with_checksums {
                        let pages = content.chunks_exact(PAGE);
                        for (page, checksum) in pages.zip(&mut checksums[done as usize..]) {
                            *checksum = crc32c::crc32c(page);
                        }
                    }
                    (i, done) = (i + whole, done + whole);
                } else {
                    let image = self.merged(write, write.first + done);
                    flushed = flushed.and(medium.store_page(start + i, &image));
                    if with_checksums {
                        checksums[done as usize] = crc32c::crc32c(&image);
                    }
                    (i, done) = (i + 1, done + 1);
                }
            }
        }
        flushed
    }

    /// Returns the new content of a page that the write covers only in part.
    fn merged(&self, write: &Write<'_>, file_page: u32) -> [u8; PAGE] {
        let mut image = [0; PAGE];
        if let Some(mapping) = self.inode.index.get(file_page) {
            self.volume.medium.load_data(mapping.page, 0, &mut image);
        }
        let page_start = page_at(file_page);
        let from = write.offset.max(page_start);
        let to = write.end().min(page_start + PAGE_BYTES);
        let data = &write.data[(from - write.offset) as usize..(to - write.offset) as usize];
        image[(from - page_start) as usize..][..data.len()].copy_from_slice(data);
        image
    }
}

/// Returns the first `len` elements of `few`, or of `many` if `few` is too short. All elements of
/// `few` must have their default value.
fn scratch<'a, T: Copy + Default>(
    few: &'a mut [T],
    many: &'a mut Vec<T>,
    len: usize,
) -> &'a mut [T] {
    if len <= few.len() {
        &mut few[..len]
    } else {
        many.resize(len, T::default());
        many
    }
}

/// A write that has been checked: it is not empty and ends within the largest file size.
struct Write<'d> {
    data: &'d [u8],
    offset: u64,
    /// The first file page that it touches.
    first: u32,
    /// The number of file pages that it touches.
    pages: u32,
}

impl<'d> Write<'d> {
    fn new(data: &'d [u8], offset: u64) -> Self {
        let end = offset + data.len() as u64;
        let first = offset / PAGE_BYTES;
        Write {
            data,
            offset,
            first: first as u32,
            pages: (end.div_ceil(PAGE_BYTES) - first) as u32,
        }
    }

    /// Returns the file pages that the write touches. A range `first..first + pages` could
    /// overflow: the end of the last possible page does not fit in a `u32`.
    fn file_pages(&self) -> impl Iterator<Item = u32> + use<> {
        let first = self.first;
        (0..self.pages).map(move |i| first + i)
    }

    fn end(&self) -> u64 {
        self.offset + self.data.len() as u64
    }

    /// Returns the bytes to lock. They are whole pages, because the first and last page are merged
    /// with their old content.
    fn range(&self) -> core::ops::Range<u64> {
        if injected_bug!(
            "locks-bytes-only",
            "a write locks its bytes, and not the whole pages that it copies",
            killed_by = "file-core-histories/file-2, file-core-histories/file-3"
        ) {
            return self.offset..self.end();
        }
        let start = page_at(self.first);
        start..start + self.pages as u64 * PAGE_BYTES
    }

    fn header(&self, extents: &ExtentList, checksums: bool) -> WriteHeader {
        WriteHeader {
            file_page: self.first,
            pages: self.pages,
            extents: extents.count(),
            end: self.end(),
            sets_size: false,
            checksums,
        }
    }

    /// Returns the number of consecutive pages from `file_page` on that the write covers
    /// completely.
    fn whole_pages(&self, file_page: u32) -> u32 {
        if page_at(file_page) < self.offset {
            return 0;
        }
        (self.end() / PAGE_BYTES).saturating_sub(file_page as u64) as u32
    }

    /// Returns the data of `pages` whole pages from `file_page` on.
    fn content(&self, file_page: u32, pages: u32) -> &'d [u8] {
        let from = (page_at(file_page) - self.offset) as usize;
        &self.data[from..from + pages as usize * PAGE]
    }
}

/// What a write has replaced: pages, which it frees, and references to log pages, which it takes
/// away. Neighbours are joined into runs.
#[derive(Default)]
struct Replaced {
    run: Option<Extent>,
    /// A log page, and how many references.
    references: (u32, u32),
}

impl Replaced {
    fn push<P>(&mut self, page: u32, medium: &Medium<P>) {
        match &mut self.run {
            Some(run) if run.start + run.len == page => run.len += 1,
            run => {
                // M7: the mark of the write that replaced these pages is durable.
                if let Some(run) = run.replace(Extent {
                    start: page,
                    len: 1,
                }) {
                    medium.space.alloc.release(run);
                }
            }
        }
    }

    fn push_reference<P>(&mut self, log_page: u32, medium: &Medium<P>) {
        if self.references.0 != log_page {
            self.take_references(medium);
            self.references.0 = log_page;
        }
        self.references.1 += 1;
    }

    fn take_references<P>(&mut self, medium: &Medium<P>) {
        let (log_page, count) = core::mem::take(&mut self.references);
        if count > 0 {
            // P1: the mark of the write that replaced them is durable.
            medium.space.take_live(log_page, count);
        }
    }

    fn flush<P>(mut self, medium: &Medium<P>) {
        self.take_references(medium);
        if let Some(run) = self.run {
            // M7, as in `push`.
            medium.space.alloc.release(run);
        }
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
