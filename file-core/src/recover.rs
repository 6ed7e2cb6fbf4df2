//! Recovery: rebuilds the volume's state in memory from the bytes of a region.
//!
//! # Method
//! 1. Walk the directory's chain from inode 0 and replay its committed groups. This yields the live
//!    files.
//! 2. For each live file, walk its chain and replay its committed groups into a fresh index.
//! 3. Let every log and index *claim* its pages. Unclaimed pages are free.
//!
//! The volume stores no tail pointers, so recovery visits every slot of every page. A slot whose
//! first word is zero is skipped. A slot with a mark is the lead of as many slots as the mark
//! counts. A group of more slots than a page has begins a page, and goes on in the next ones.
//!
//! # What is trusted
//! Recovery trusts no metadata. Each pointer is sealed, lies in range, and claims its page, so no
//! chain can meet another or itself. Each group's checksum covers its place. Each record must be
//! valid. The first violation ends the recovery with [`Error::Corrupt`]. Recovery writes nothing,
//! except that it repairs a damaged superblock before it starts. So the metadata of a volume that
//! opens is as this crate wrote it, or differs only in meaningless bytes. `docs/format.md` lists
//! the damage that checksums miss. Recovery does not read data pages.
//!
//! # Cost
//! Time: every log is read once, and each extent in it takes a step in a tree of the file's
//! extents. Memory, besides the rebuilt state: the largest log, the extents of its file, and one
//! bit per page. Counts in the volume do not change that, even forged ones: a file has at most as
//! many pages as the volume, and [`runs`] does not visit pages that a later group replaces.

#[cfg(test)]
mod forged;
mod runs;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use spanlock_pmem::Pmem;
use spanlock_sync::injected_bug;

use self::runs::Runs;
use crate::alloc::Extent;
use crate::chain::LogState;
use crate::directory::check_name;
use crate::error::Error;
use crate::index::Index;
use crate::inode::Content;
use crate::layout::{
    Geometry, INODE_USED_BYTES, LogId, PAGE, PAGE_BYTES, PAGE_SLOTS, PageId, ROOT, ROOT_GENERATION,
    RawInode, SLOT_BYTES, T_NEXT_AT, TAIL_AT, WORD_BYTES, get_u64, mark_of, page_at, slots_of_mark,
    unseal,
};
use crate::log::{Log, Place};
use crate::log_page::{LogPages, State};
use crate::options::RecoveryReport;
use crate::record::{Record, WriteHeader};

/// A file that the directory names.
pub(crate) struct LiveFile {
    pub(crate) generation: u64,
    pub(crate) name: String,
    /// The position of its group.
    pub(crate) place: Place,
}

/// The live files.
pub(crate) struct LiveFiles {
    /// The files by inode number.
    pub(crate) names: BTreeMap<u32, LiveFile>,
    /// The largest generation found in the directory's log or in any readable inode.
    pub(crate) last_generation: u64,
}

/// Receives the records of a log.
type EachRecord<'a> = dyn FnMut(Record, Place) -> Result<(), Error> + 'a;

/// A page of a chain, read into memory.
struct ReadPage {
    id: PageId,
    /// Groups that take something away.
    tombs: u32,
    /// Whether a group continues in the next page.
    is_continued: bool,
}

/// A chain of log pages, read into memory.
struct ReadChain {
    log: LogId,
    pages: Vec<ReadPage>,
    /// All slots, in order.
    slots: Vec<u8>,
}

impl ReadChain {
    /// Returns the position of slot `index` of the chain.
    fn place(&self, index: u32) -> Place {
        Place {
            page: self.pages[(index / PAGE_SLOTS) as usize].id.page,
            slot: index % PAGE_SLOTS,
        }
    }
}

/// The state of a recovery.
pub(crate) struct Recovery<'a, P> {
    pmem: &'a P,
    geometry: &'a Geometry,
    log_pages: &'a LogPages,
    /// One bit for each page of the data area, set once the page is claimed.
    claimed: Vec<u64>,
    pub(crate) report: RecoveryReport,
}

impl<'a, P: Pmem> Recovery<'a, P> {
    pub(crate) fn new(pmem: &'a P, geometry: &'a Geometry, log_pages: &'a LogPages) -> Self {
        let words = geometry.data_pages().div_ceil(64) as usize;
        Recovery {
            pmem,
            geometry,
            log_pages,
            claimed: vec![0; words],
            report: RecoveryReport {
                inodes: geometry.inodes as u64,
                ..Default::default()
            },
        }
    }

    /// Returns the inode in slot `number`, if a complete one was written there.
    pub(crate) fn inode(&self, number: u32) -> Option<RawInode> {
        let mut bytes = [0; INODE_USED_BYTES];
        // SAFETY: M8.
        unsafe { self.pmem.read(self.geometry.inode_at(number), &mut bytes) };
        RawInode::decode(&bytes, number)
    }

    /// Returns the inode that the directory names.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if slot `number` does not hold an inode of this generation.
    pub(crate) fn live_inode(&self, number: u32, generation: u64) -> Result<RawInode, Error> {
        let at = self.geometry.inode_at(number);
        match self.inode(number) {
            Some(inode) if inode.generation == generation => Ok(inode),
            Some(_) => Err(Error::corrupt("an inode of another generation", number, at)),
            None => Err(Error::corrupt("an unreadable inode", number, at)),
        }
    }

    /// Replays the log of `inode`. Calls `each` with the records of its committed groups and their
    /// positions, in order. Returns the log, ready to append after the last committed group.
    ///
    /// # Errors
    /// [`Error::Corrupt`], and errors from `each`.
    pub(crate) fn replay(
        &mut self,
        inode: &RawInode,
        each: &mut EachRecord<'_>,
    ) -> Result<Log, Error> {
        let mut read = self.read_chain(inode)?;
        let next = self.replay_slots(&mut read, each)?;
        self.report.log_pages += read.pages.len() as u64;
        let mut births = 0;
        for (nth, page) in read.pages.iter().enumerate() {
            let is_last = nth + 1 == read.pages.len();
            let open = if is_last { PAGE_SLOTS - next } else { 0 };
            let state = State::recovered(open, page.tombs, page.is_continued);
            self.log_pages.start(page.id.page, page.id.seed(), state);
            births = births.max(page.id.birth.wrapping_add(1));
        }
        let pages = read.pages.iter().map(|it| it.id.page).collect();
        Ok(Log::new(LogState::new(read.log, pages, births), next))
    }

    /// Reads the chain of `inode`, claiming its pages.
    fn read_chain(&mut self, inode: &RawInode) -> Result<ReadChain, Error> {
        let number = inode.number;
        let log = LogId {
            inode: number,
            generation: inode.generation,
        };
        let mut read = ReadChain {
            log,
            pages: Vec::new(),
            slots: Vec::new(),
        };
        let mut word = inode.head;
        let mut word_at = self.geometry.inode_at(number);
        let mut seed = log.head_seed();
        loop {
            let pointer = unseal(seed, word);
            let Some(page) = pointer.map_err(|()| {
                Error::corrupt("a log pointer with a wrong checksum", number, word_at)
            })?
            else {
                return Ok(read);
            };
            self.claim(
                Extent {
                    start: page,
                    len: 1,
                },
                number,
                word_at,
            )?;
            let mut image = [0; PAGE];
            // SAFETY: M8.
            unsafe { self.pmem.read(page_at(page), &mut image) };
            let Some((id, next)) = PageId::from_tail(&image, log, page) else {
                let tail_at = page_at(page) + TAIL_AT as u64;
                return Err(Error::corrupt(
                    "a log page with a wrong tail",
                    number,
                    tail_at,
                ));
            };
            read.pages.push(ReadPage {
                id,
                tombs: 0,
                is_continued: false,
            });
            read.slots.extend_from_slice(&image[..TAIL_AT]);
            (word, word_at, seed) = (next, page_at(page) + T_NEXT_AT as u64, id.seed());
        }
    }

    /// Visits every slot of a chain. Returns the first slot in the last page after the committed
    /// groups there.
    fn replay_slots(
        &mut self,
        read: &mut ReadChain,
        each: &mut EachRecord<'_>,
    ) -> Result<u32, Error> {
        let total = (read.slots.len() / SLOT_BYTES) as u32;
        let (mut index, mut next) = (0, 0);
        while index < total {
            let at = index as usize * SLOT_BYTES;
            let slot = &read.slots[at..at + SLOT_BYTES];
            let mark = get_u64(slot, 0);
            if mark == 0 {
                if injected_bug!(
                    "ends-at-gap",
                    "recovery takes the first slot without a mark for the end of the log",
                    killed_by = "file-core/patch-second, file-core/patch-append"
                ) {
                    break;
                }
                self.report.uncommitted_slots += slot.iter().any(|&b| b != 0) as u64;
                index += 1;
                continue;
            }
            let place = read.place(index);
            let corrupt = |what| Error::corrupt(what, read.log.inode, place.at());
            let count = slots_of_mark(mark).ok_or_else(|| corrupt("an invalid commit mark"))?;
            if count > total - index {
                return Err(corrupt("a committed group longer than its log"));
            }
            let crosses = place.slot + count > PAGE_SLOTS;
            if crosses && (place.slot > 0 || count <= PAGE_SLOTS) {
                return Err(corrupt("a committed group that crosses a page"));
            }
            let first = (index / PAGE_SLOTS) as usize;
            let mut group = read.slots[at..at + count as usize * SLOT_BYTES].to_vec();
            group[..WORD_BYTES].fill(0);
            if mark_of(read.pages[first].id.seed(), place.slot, &group) != mark {
                return Err(corrupt("a committed group whose checksum is wrong"));
            }
            let record = Record::decode(&group).map_err(corrupt)?;
            let last = ((index + count - 1) / PAGE_SLOTS) as usize;
            read.pages[first].tombs += record.takes_away() as u32;
            for page in &mut read.pages[first..last] {
                page.is_continued = true;
            }
            each(record, place)?;
            self.report.committed_groups += 1;
            index += count;
            next = index;
            if injected_bug!(
                "reuses-last-slot",
                "recovery continues the log at the last committed group",
                killed_by = "file-core/patch-patch, file-core/sequences-of-1"
            ) {
                next = index - count;
            }
        }
        if total == 0 {
            return Ok(PAGE_SLOTS);
        }
        Ok(next.saturating_sub(total - PAGE_SLOTS))
    }

    /// Replays the log of the directory.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub(crate) fn directory(&mut self) -> Result<(Log, LiveFiles), Error> {
        let root = self.live_inode(ROOT, ROOT_GENERATION)?;
        let inodes = ROOT + 1..self.geometry.inodes;
        let mut live = LiveFiles {
            names: BTreeMap::new(),
            last_generation: ROOT_GENERATION,
        };
        let log = self.replay(&root, &mut |record, place| {
            let corrupt = |what| Err(Error::corrupt(what, ROOT, place.at()));
            let Record::Add {
                inode,
                generation,
                name,
            } = record
            else {
                return corrupt("a file's record in the log of the directory");
            };
            if !inodes.contains(&inode) || check_name(&name).is_err() {
                return corrupt("an impossible name or inode in the directory");
            }
            live.last_generation = live.last_generation.max(generation);
            let file = LiveFile {
                generation,
                name,
                place,
            };
            match live.names.insert(inode, file) {
                None => Ok(()),
                Some(_) => corrupt("an inode that the directory names twice"),
            }
        })?;
        for file in live.names.values() {
            self.log_pages.add_live(file.place.page, 1);
        }
        // Readable free inodes count as well; see "Generations" in `directory.rs`.
        for inode in inodes.filter_map(|number| self.inode(number)) {
            live.last_generation = live.last_generation.max(inode.generation);
        }
        Ok((log, live))
    }

    /// Replays the log of a file.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub(crate) fn file(&mut self, inode: &RawInode) -> Result<Content, Error> {
        let mut runs = Runs::default();
        let (mut size, mut size_page) = (0, 0);
        let geometry = self.geometry;
        let log = self.replay(inode, &mut |record, place| {
            let corrupt = |what| Error::corrupt(what, inode.number, place.at());
            let Record::Write {
                header,
                extents,
                checksums,
            } = record
            else {
                return Err(corrupt("a directory's record in the log of a file"));
            };
            check_write(geometry, &header, &extents).map_err(corrupt)?;
            if header.sets_size {
                runs.remove(header.end.div_ceil(PAGE_BYTES), u64::MAX);
            }
            runs.replace(header.file_page, &extents, checksums, place.page);
            // A write takes its pages before its slots, and a page becomes free only when the group
            // that replaces it is committed. So no data page is ever in two places of a file.
            if runs.pages() > u64::from(geometry.data_pages()) {
                return Err(corrupt("a file with more pages than the volume"));
            }
            if header.sets_size || header.end > size {
                (size, size_page) = (header.end, place.page);
            }
            Ok(())
        })?;
        let index = Index::new();
        let at = geometry.inode_at(inode.number);
        runs.each(|file_page, mapping, log_page| {
            let page = Extent {
                start: mapping.page,
                len: 1,
            };
            self.claim(page, inode.number, at)?;
            index.replace(file_page, mapping, log_page);
            self.log_pages.add_live(log_page, 1);
            Ok::<_, Error>(())
        })?;
        if size_page != 0 {
            self.log_pages.add_live(size_page, 1);
        }
        Ok(Content {
            index,
            size,
            size_page,
            log,
        })
    }

    /// Claims pages for `inode`. The pointer to them lies at byte `at`.
    fn claim(&mut self, extent: Extent, inode: u32, at: u64) -> Result<(), Error> {
        if !in_data_area(self.geometry, extent) {
            return Err(Error::corrupt("a pointer outside the data area", inode, at));
        }
        for page in extent.start..extent.start + extent.len {
            let bit = page - self.geometry.data_start();
            let word = &mut self.claimed[bit as usize / 64];
            if *word & 1 << (bit % 64) != 0 {
                return Err(Error::corrupt("a page that is in use twice", inode, at));
            }
            *word |= 1 << (bit % 64);
            self.report.pages_used += 1;
        }
        Ok(())
    }

    /// Calls `each` with every run of unclaimed pages.
    pub(crate) fn free_extents(&self, each: &mut dyn FnMut(Extent)) {
        let start = self.geometry.data_start();
        let is_free = |bit: u32| self.claimed[bit as usize / 64] & 1 << (bit % 64) == 0;
        let mut bit = 0;
        while bit < self.geometry.data_pages() {
            let first = bit;
            while bit < self.geometry.data_pages() && is_free(bit) {
                bit += 1;
            }
            if bit > first {
                each(Extent {
                    start: start + first,
                    len: bit - first,
                });
            }
            bit += 1;
        }
    }
}

fn in_data_area(geometry: &Geometry, extent: Extent) -> bool {
    let end = extent.start as u64 + extent.len as u64;
    extent.start >= geometry.data_start() && end <= geometry.data_end() as u64
}

/// Checks whether a write record is possible in this volume.
fn check_write(
    geometry: &Geometry,
    header: &WriteHeader,
    extents: &[Extent],
) -> Result<(), &'static str> {
    let covered: u64 = extents.iter().map(|e| u64::from(e.len)).sum();
    let end_page = header.file_page as u64 + covered;
    if end_page * PAGE_BYTES > geometry.max_file_size || header.end > geometry.max_file_size {
        return Err("a write record past the largest file size");
    }
    let last_page = (
        end_page.saturating_sub(1) * PAGE_BYTES,
        end_page * PAGE_BYTES,
    );
    let ends_in_last = last_page.0 < header.end && header.end <= last_page.1;
    let grows_nothing = header.end == 0 && extents.iter().any(|e| e.is_hole());
    if covered > 0 && !ends_in_last && !grows_nothing {
        return Err("a write record that does not end in its last page");
    }
    // A record without pages needs no checksums.
    if header.checksums != geometry.data_checksums && header.pages > 0 {
        return Err("a write record with data checksums in a volume without them, or the reverse");
    }
    let mut data = extents.iter().filter(|e| !e.is_hole());
    if header.pages > geometry.data_pages() || !data.all(|e| in_data_area(geometry, *e)) {
        return Err("a pointer outside the data area");
    }
    Ok(())
}
