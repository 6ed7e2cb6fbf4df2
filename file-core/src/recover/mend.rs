//! Repairing what a survey has noted.
//!
//! # Method
//! First, if the volume was closed: store a broken pointer at the end of each log that only its
//! digest shows to be damaged. *Fence.* Then erase the record of the checkpoint. *Fence.* The log
//! now counts as damaged without the digest, so a crash from here on does not hide its damage.
//! Before, the checkpoint is still valid: it refuses the file with or without the pointer. Then:
//! 1. Complete the change that the journal has, or empty a damaged journal. Rewrite damaged
//!    superblocks and inode lines. *Fence.*
//! 2. Erase the marks that interrupted renames have left. Then erase, in directories' logs, the
//!    marks of damaged groups and of names whose inode is missing, and the pointers to damaged
//!    pages; and in all logs, the words that are not zero within a sound group. *Fence.*
//! 3. For each damaged file, in the reverse of the order in which they claim pages: store a log of
//!    what is readable in unclaimed pages, and a copy of its last page if that has bytes past the
//!    size. *Fence.* Then store the head pointer to it. *Fence.*
//!
//! A single 8-byte store, or the last byte of a line, repairs each piece of damage. Until then, the
//! damage is as it was. So after a crash, less damage is left, and the repair can be repeated. No
//! step changes a page that anything readable refers to.

use core::iter;
use core::mem::replace;

use spanlock_pmem::{Durable, Flushed, Pmem};

use super::survey::DamagedFile;
use super::{Fix, LiveTree, Recovery, page_of};
use crate::alloc::Extent;
use crate::close;
use crate::error::Error;
use crate::journal::{self, Journal};
use crate::layout::{
    LogId, PAGE, PAGE_BYTES, PAGE_SLOTS, PageId, SLOT_BYTES, WORD_BYTES, mark_of, page_at, seal,
};
use crate::record::{GroupWriter, WriteHeader, slots_for};

/// The most pages of a file in one group, which then fits a page of the log.
const GROUP_PAGES: usize = 512;

/// A pointer that no seal matches, because no page is number 0.
const BROKEN_POINTER: u64 = 1 << 32;

/// Consecutive pages of a file in consecutive data pages.
struct Piece {
    file_page: u32,
    pages: Extent,
    checksums: Vec<u32>,
}

impl Piece {
    /// Returns the byte of the file after the last one.
    fn end(&self) -> u64 {
        (u64::from(self.file_page) + u64::from(self.pages.len)) * PAGE_BYTES
    }
}

/// A log that is rewritten.
struct NewLog<'f> {
    id: LogId,
    /// The birth of the next page.
    birth: u64,
    pages: Vec<(PageId, Box<[u8; PAGE]>)>,
    /// The slots of the last page that are in use.
    used: u32,
    free: &'f mut Vec<u32>,
}

impl NewLog<'_> {
    /// Appends a group. Returns `None` if no page is free.
    fn add(&mut self, header: &WriteHeader, extent: Option<Extent>, sums: &[u32]) -> Option<()> {
        let slots = slots_for(header.record_bytes());
        if self.pages.is_empty() || self.used + slots as u32 > PAGE_SLOTS {
            let id = PageId {
                log: self.id,
                birth: self.birth,
                page: self.free.pop()?,
            };
            self.birth = self.birth.wrapping_add(1);
            self.pages.push((id, Box::new([0; PAGE])));
            self.used = 0;
        }
        let (id, image) = self.pages.last_mut()?;
        let at = self.used as usize * SLOT_BYTES;
        let group = &mut image[at..at + slots * SLOT_BYTES];
        let mut writer = GroupWriter::new(group);
        header.put(&mut writer, extent.into_iter());
        sums.iter().for_each(|sum| writer.put(&sum.to_le_bytes()));
        let mark = mark_of(id.seed(), self.used, group);
        group[..WORD_BYTES].copy_from_slice(&mark.to_le_bytes());
        self.used += slots as u32;
        Some(())
    }
}

impl<P: Pmem> Recovery<'_, P> {
    /// Repairs all damage that was noted, as far as there are free pages.
    ///
    /// # Errors
    /// None if damage is noted.
    pub(crate) fn mend(&self, live: &LiveTree) -> Result<(), Error> {
        let pmem = self.reader.pmem;
        self.break_changed_logs();
        // F-O1.
        close::erase(pmem);
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
            // SAFETY: M8.
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
        self.keep_damaged_pages()?;
        let mut free = Vec::new();
        self.free_extents(&mut |extent| free.extend(extent.start..extent.start + extent.len));
        // The file that claimed pages last comes first. It may have lost a page to a file that
        // replaces this page by a copy. If that file came first, a crash would bring the page back.
        for file in self.damaged_files.iter().rev() {
            self.rewrite(file, &mut free)?;
        }
        Ok(())
    }

    /// Makes the damage that only digests show visible without them, durably: breaks the pointers
    /// that end these logs. Otherwise, a crash after the checkpoint is erased would hide it.
    ///
    /// The checkpoint stays valid: a file whose digest differs cannot be opened anyway.
    fn break_changed_logs(&self) {
        let pmem = self.reader.pmem;
        let mut broken = Flushed::nothing();
        for at in self.damaged_files.iter().filter_map(|it| it.end_at) {
            let written = pmem.publish(at, BROKEN_POINTER, Durable::at_rest());
            broken = broken.and(pmem.flush(written));
        }
        pmem.fence(broken);
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

    /// Rewrites the log of a file, unless there is no room.
    fn rewrite(&self, file: &DamagedFile, free: &mut Vec<u32>) -> Result<(), Error> {
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
        };
        // First, because it removes the pages past the size.
        let size = WriteHeader {
            modified: scan.modified,
            sets_modified: true,
            ..WriteHeader::of_size(scan.size)
        };
        let mut pieces = Vec::new();
        let mut stored = Flushed::nothing();
        let mut copy = None;
        let mut has_room = true;
        scan.runs.each(|file_page, mut mapping, _| {
            // The group that made the bytes past the size zero may be lost.
            let image = self.image_without_tail(scan.size, file_page, mapping.page);
            if let Some(image) = image {
                has_room = match log.free.pop() {
                    Some(page) => {
                        copy = Some(page);
                        // SAFETY: M8, and no log and no file has the page.
                        let written = unsafe { pmem.write_streaming(page_at(page), &image[..]) };
                        stored = replace(&mut stored, Flushed::nothing()).and(written);
                        mapping.page = page;
                        mapping.checksum = crc32c::crc32c(&image[..]);
                        true
                    }
                    None => false,
                };
            }
            extend(&mut pieces, file_page, mapping.page, mapping.checksum);
            Ok::<_, Error>(())
        })?;
        let has_room = has_room
            && log.add(&size, None, &[]).is_some()
            && pieces.iter().all(|piece| {
                let header = WriteHeader {
                    file_page: piece.file_page,
                    pages: piece.pages.len,
                    extents: 1,
                    // The size, even if the group that sets it is damaged later.
                    end: piece.end().min(scan.size),
                    checksums: self.geometry.data_checksums,
                    ..WriteHeader::default()
                };
                let sums: &[u32] = match header.checksums {
                    true => &piece.checksums,
                    false => &[],
                };
                log.add(&header, Some(piece.pages), sums).is_some()
            });
        if !has_room {
            // Before another use of the page stores to it (M2).
            pmem.fence(stored);
            let NewLog { pages, free, .. } = log;
            free.extend(pages.iter().map(|(id, _)| id.page).chain(copy));
            return Ok(());
        }

        let mut pages = log.pages;
        let nexts: Vec<u32> = pages.iter().skip(1).map(|(id, _)| id.page).collect();
        let nexts = nexts.into_iter().map(Some).chain(iter::once(None));
        for ((id, image), next) in pages.iter_mut().zip(nexts) {
            let next = next.map_or(0, |page| seal(id.seed(), page));
            id.put_tail(image, next);
            // SAFETY: M8, and no log and no file has the page.
            stored = stored.and(unsafe { pmem.write_streaming(page_at(id.page), &image[..]) });
        }
        let durable = pmem.fence(stored);
        if let Some((first, _)) = pages.first() {
            let head = seal(id.head_seed(), first.page);
            let written = pmem.publish(self.geometry.inode_at(id.inode), head, durable);
            pmem.persist(written);
        }
        Ok(())
    }

    /// If `file_page` of a file is its last page, and `page`, which has its data, has bytes past
    /// the size that are not zero, returns its content with zeros there.
    fn image_without_tail(&self, size: u64, file_page: u32, page: u32) -> Option<Box<[u8; PAGE]>> {
        if u64::from(file_page) != size / PAGE_BYTES {
            return None;
        }
        let mut image = Box::new([0; PAGE]);
        // SAFETY: M8.
        unsafe { self.reader.pmem.read(page_at(page), &mut image[..]) };
        let tail = &mut image[(size % PAGE_BYTES) as usize..];
        if tail.iter().all(|byte| *byte == 0) {
            return None;
        }
        tail.fill(0);
        Some(image)
    }
}

/// Adds a page of the file to the pieces.
fn extend(pieces: &mut Vec<Piece>, file_page: u32, page: u32, checksum: u32) {
    if let Some(last) = pieces.last_mut() {
        let len = last.pages.len;
        let follows =
            last.file_page.checked_add(len) == Some(file_page) && last.pages.start + len == page;
        if follows && (len as usize) < GROUP_PAGES {
            last.pages.len += 1;
            last.checksums.push(checksum);
            return;
        }
    }
    pieces.push(Piece {
        file_page,
        pages: Extent {
            start: page,
            len: 1,
        },
        checksums: vec![checksum],
    });
}
