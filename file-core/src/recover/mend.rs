//! Repairing what a survey has noted.
//!
//! # Method
//! 1. Complete the change that the journal has, or empty a damaged journal. Rewrite damaged
//!    superblocks and inode lines. *Fence.*
//! 2. Erase the marks that interrupted renames have left. Then erase, in directories' logs, the
//!    marks of damaged groups and of names whose inode is missing, and the pointers to damaged
//!    pages; and in all logs, the words that are not zero within a sound group. *Fence.*
//! 3. For each damaged file, store in unclaimed pages: a new log of what is readable; and if the
//!    file's last page has bytes past the size, a copy of it with zeros there. *Fence.* Then store
//!    the head pointers to the new logs. *Fence.* If there is no room for all new logs, no file
//!    gets one.
//!
//! Each piece of damage is repaired by one 8-byte store, or by the last byte of a line. Until then,
//! it is as it was. Apart from the words named above, no step changes a page to which anything
//! readable refers. So if a crash interrupts the repair of one file, of one directory or of any
//! number of single words, it leaves no new damage, and the repair can be repeated.
//!
//! # Not guaranteed
//! A crash between the head pointers of several files, all damaged, can give a page to the wrong
//! one of them. Suppose that an old group of file B names a page that file A has, and that A's new
//! log gives this page up. If B still has its old log after the crash, B gets the page.

use core::iter;

use spanlock_pmem::{Durable, Flushed, Pmem};

use crate::log::live::LiveGroup;
use crate::log::record::{GroupWriter, WriteHeader, slots_for};
use crate::medium::error::Error;
use crate::medium::journal::{self, Journal};
use crate::medium::layout::{
    LogId, PAGE, PAGE_BYTES, PAGE_SLOTS, PageId, SLOT_BYTES, WORD_BYTES, mark_of, page_at, seal,
};
use crate::object::inode::Run;
use crate::recover::damage::Fix;
use crate::recover::file_scan::FileScan;
use crate::recover::recovery::{LiveTree, Recovery, SurveyedFile, page_of};

/// The content of a page.
type Image = Box<[u8; PAGE]>;

/// A log that is rewritten.
struct NewLog<'f> {
    id: LogId,
    /// The birth of the next page.
    birth: u64,
    pages: Vec<(PageId, Image)>,
    /// The slots of the last page that are in use.
    used: u32,
    /// Pages that are free.
    free: &'f [u32],
    /// How many of them were taken, or wanted.
    taken: usize,
}

impl NewLog<'_> {
    /// Takes a free page. Its number means nothing if there is no room.
    fn take(&mut self) -> u32 {
        let page = self.free.get(self.taken).copied().unwrap_or(0);
        self.taken += 1;
        page
    }

    fn has_room(&self) -> bool {
        self.taken <= self.free.len()
    }

    /// Appends the group of a record of `bytes` bytes, which `put` writes, and which fits a page.
    /// Does nothing if there is no room.
    fn add(&mut self, bytes: usize, put: &dyn Fn(&mut GroupWriter<'_>)) {
        let slots = slots_for(bytes);
        if !self.has_room() {
            return;
        }
        if self.pages.is_empty() || self.used + slots as u32 > PAGE_SLOTS {
            let id = PageId {
                log: self.id,
                birth: self.birth,
                page: self.take(),
            };
            self.birth = self.birth.wrapping_add(1);
            self.pages.push((id, Box::new([0; PAGE])));
            self.used = 0;
        }
        let (id, image) = self.pages.last_mut().expect("it has pages");
        let at = self.used as usize * SLOT_BYTES;
        let group = &mut image[at..at + slots * SLOT_BYTES];
        put(&mut GroupWriter::new(group));
        let mark = mark_of(id.seed(), self.used, group);
        group[..WORD_BYTES].copy_from_slice(&mark.to_le_bytes());
        self.used += slots as u32;
    }
}

impl<P: Pmem> Recovery<'_, P> {
    /// Repairs all damage that was noted, as far as there are free pages.
    ///
    /// # Errors
    /// None if damage is noted.
    pub(crate) fn mend(&self, live: &LiveTree) -> Result<(), Error> {
        let pmem = self.reader.pmem;
        match self.damages.noted().iter().any(|it| it.fix == Fix::Journal) {
            true => journal::clear(pmem, self.geometry),
            false => Journal::open(pmem, self.geometry)?.redo(self.geometry)?,
        }
        let mut stored = Flushed::nothing();
        for damage in self.damages.noted() {
            let (at, line) = match damage.fix {
                Fix::Superblock(at) => (at, self.geometry.encode()),
                Fix::Inode(inode) => (self.geometry.inode_at(inode.id.number), inode.encode()),
                _ => continue,
            };
            // SAFETY: F-M8.
            let written = unsafe { pmem.write(at, &line) };
            stored = stored.and(pmem.flush(written));
        }
        pmem.fence(stored);

        // First, because a name that is erased could bring back one that it supersedes.
        self.finish_renames(live);
        let mut erased = Flushed::nothing();
        for damage in self.damages.noted() {
            if let Fix::Erase(at, _) = damage.fix {
                let written = pmem.publish(at, 0, Durable::at_rest());
                erased = erased.and(pmem.flush(written));
            }
        }
        pmem.fence(erased);

        // After the fence: the rest of a directory's chain that was cut off is free now.
        self.rewrite_logs()
    }

    /// Rewrites the logs of all damaged files, if there is room for all.
    fn rewrite_logs(&self) -> Result<(), Error> {
        self.keep_damaged_pages()?;
        let mut free = Vec::new();
        self.free_extents(&mut |extent| free.extend(extent.start..extent.start + extent.len));
        let mut free = &free[..];
        let pmem = self.reader.pmem;
        let mut heads = Vec::new();
        for file in &self.damaged_files {
            let Some((at, head, log)) = self.store_log(file, &mut free)? else {
                return Ok(());
            };
            heads.push((at, head, pmem.fence(log)));
        }
        let mut stored = Flushed::nothing();
        for (at, head, log) in heads {
            let written = pmem.publish(at, head, log);
            stored = stored.and(pmem.flush(written));
        }
        pmem.fence(stored);
        Ok(())
    }

    /// Claims the pages that damaged files lose. Until the head of its new log is stored, the old
    /// log of a file still leads to them. With a new page of the same log there, or with data that
    /// matches an old checksum, it would look sound after a crash.
    fn keep_damaged_pages(&self) -> Result<(), Error> {
        for file in &self.damaged_files {
            if let Some(page) = file.cut_at {
                self.claims.add(page_of(page));
            }
            let scan = self.scan_again(file)?;
            scan.runs.each_extent(|_, extent| {
                self.claims.add(extent);
                Ok::<_, Error>(())
            })?;
        }
        Ok(())
    }

    /// Stores a new log of what is readable of a file, and takes its pages from `free`. Returns the
    /// byte offset and the value of the head pointer to it, which is not stored; or `None` if there
    /// is no room.
    fn store_log(
        &self,
        file: &SurveyedFile,
        free: &mut &[u32],
    ) -> Result<Option<(u64, u64, Flushed)>, Error> {
        let pmem = self.reader.pmem;
        let id = file.inode.id.log();
        let mut scan = self.scan_again(file)?;
        for &page in &file.lost {
            scan.runs.remove(page.into(), u64::from(page) + 1);
        }
        // An older group may have mapped them, so they may have bytes that are not zero.
        scan.remove_pages_past_size();
        let mut log = NewLog {
            id,
            birth: scan.replayed.births(),
            pages: Vec::new(),
            used: 0,
            free,
            taken: 0,
        };
        let copy = self.last_page_without_tail(&scan)?;
        let copy = copy.map(|(file_page, image)| (file_page, log.take(), image));
        // First, because it removes the pages past the size.
        let size = WriteHeader {
            modified: scan.modified,
            sets_modified: true,
            ..WriteHeader::of_size(scan.size)
        };
        log.add(size.record_bytes(), &|group| size.put(group, iter::empty()));
        let header = WriteHeader {
            end: scan.size,
            checksums: self.geometry.data_checksums,
            modified: scan.modified,
            ..WriteHeader::default()
        };
        let mut emit = |group: LiveGroup<'_>| log.add(group.bytes, group.put);
        let mut run = Run::default();
        scan.runs.each(|file_page, mut mapping, _| {
            if let Some((last, page, image)) = &copy
                && *last == file_page
            {
                mapping.page = *page;
                mapping.checksum = crc32c::crc32c(&image[..]);
            }
            run.add(file_page, mapping, &header, &mut emit);
            Ok::<_, Error>(())
        })?;
        run.emit(0, &header, &mut emit);
        if !log.has_room() {
            return Ok(None);
        }
        *free = &free[log.taken..];

        let mut stored = Flushed::nothing();
        if let Some((_, page, image)) = &copy {
            // SAFETY: F-M8, and no log and no file has the page.
            stored = stored.and(unsafe { pmem.write_streaming(page_at(*page), &image[..]) });
        }
        // Backwards: each page has a pointer to the one that was stored before it.
        let mut next = None;
        for (id, image) in log.pages.iter_mut().rev() {
            id.put_tail(image, next.map_or(0, |next| seal(id.seed(), next)));
            next = Some(id.page);
            // SAFETY: F-M8, and no log and no file has the page.
            stored = stored.and(unsafe { pmem.write_streaming(page_at(id.page), &image[..]) });
        }
        let at = self.geometry.inode_at(id.inode);
        let head = next.map_or(0, |first| seal(id.head_seed(), first));
        Ok(Some((at, head, stored)))
    }

    /// If the page of the size has bytes past the size that are not zero, returns the page of the
    /// file, and its content with zeros there. The group that made these bytes zero may be lost.
    fn last_page_without_tail(&self, scan: &FileScan) -> Result<Option<(u32, Image)>, Error> {
        let mut last = None;
        scan.runs.each(|file_page, mapping, _| {
            last = Some((file_page, mapping.page));
            Ok::<_, Error>(())
        })?;
        let is_of_size = |it: &(u32, u32)| u64::from(it.0) == scan.size / PAGE_BYTES;
        let Some((file_page, page)) = last.filter(is_of_size) else {
            return Ok(None);
        };
        let mut image = Box::new([0; PAGE]);
        // SAFETY: F-M8.
        unsafe { self.reader.pmem.read(page_at(page), &mut image[..]) };
        let tail = &mut image[(scan.size % PAGE_BYTES) as usize..];
        if tail.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        tail.fill(0);
        Ok(Some((file_page, image)))
    }
}
