//! Reading the log of an inode: walking its chain, and replaying its committed groups.
//!
//! Nothing here changes the volume or its state in memory, so several threads may read logs at
//! once, and a file's log can be read again while the volume is in use.

use spanlock_pmem::Pmem;
use spanlock_sync::injected_bug;

use super::damage::Fix;
use crate::alloc::Extent;
use crate::chain::LogState;
use crate::error::Error;
use crate::fsck::Repair;
use crate::journal::Word;
use crate::layout::{
    Geometry, INODE_USED_BYTES, InodeId, LogId, PAGE, PAGE_SLOTS, PageId, RawInode, SLOT_BYTES,
    T_NEXT_AT, TAIL_AT, WORD_BYTES, get_u64, mark_of, page_at, slots_of_mark, unseal,
};
use crate::log::{Log, Place};
use crate::log_page::{LogPages, State};
use crate::record::Record;

/// Receives the records of a log.
pub(super) type EachRecord<'a> = dyn FnMut(Record, Place) -> Result<(), Error> + 'a;

/// Receives each page of a chain, and the byte offset of the pointer to it. An error ends the walk.
pub(super) type EachPage<'a> = dyn FnMut(u32, u64) -> Result<(), Error> + 'a;

/// Receives each piece of damage in a log, and how to repair it in place. An error ends the replay.
/// Otherwise, a chain ends before a damaged page, and a damaged group is skipped.
pub(super) type EachDamage<'a> = dyn FnMut(Error, Fix) -> Result<(), Error> + 'a;

/// The pointer to a page of a chain.
struct Pointer {
    word: u64,
    /// Its byte offset in the region.
    at: u64,
    /// The initial value of its checksum.
    seed: u32,
}

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
    /// Returns the record of the committed group that begins at slot `index` of the chain, and the
    /// number of its slots.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    fn group(&self, index: u32) -> Result<(Record, u32), Error> {
        let total = (self.slots.len() / SLOT_BYTES) as u32;
        let at = index as usize * SLOT_BYTES;
        let mark = get_u64(&self.slots, at);
        let place = self.place(index);
        let corrupt = |what| Error::corrupt(what, self.log.inode, place.at());
        let count = slots_of_mark(mark).ok_or_else(|| corrupt("an invalid commit mark"))?;
        if count > total - index {
            return Err(corrupt("a committed group longer than its log"));
        }
        let crosses = place.slot + count > PAGE_SLOTS;
        if crosses && (place.slot > 0 || count <= PAGE_SLOTS) {
            return Err(corrupt("a committed group that crosses a page"));
        }
        let first = &self.pages[(index / PAGE_SLOTS) as usize];
        let mut group = self.slots[at..at + count as usize * SLOT_BYTES].to_vec();
        group[..WORD_BYTES].fill(0);
        if mark_of(first.id.seed(), place.slot, &group) != mark {
            return Err(corrupt("a committed group whose checksum is wrong"));
        }
        Ok((Record::decode(&group).map_err(corrupt)?, count))
    }

    /// Returns the position of slot `index` of the chain.
    fn place(&self, index: u32) -> Place {
        Place {
            page: self.pages[(index / PAGE_SLOTS) as usize].id.page,
            slot: index % PAGE_SLOTS,
        }
    }
}

/// A log that has been replayed.
pub(super) struct Replayed {
    chain: ReadChain,
    /// The first slot of the last page that is not in use.
    next: u32,
    pub(super) committed_groups: u64,
    pub(super) uncommitted_slots: u64,
}

impl Replayed {
    /// Returns the number of pages in the chain.
    pub(super) fn pages(&self) -> u64 {
        self.chain.pages.len() as u64
    }

    /// Returns a birth that no page of the chain has reached.
    pub(super) fn births(&self) -> u64 {
        let births = self
            .chain
            .pages
            .iter()
            .map(|it| it.id.birth.wrapping_add(1));
        births.fold(0, u64::max)
    }

    /// Returns the log, ready to append after the last committed group, and sets the states of its
    /// pages. They have no live references yet.
    pub(super) fn into_log(self, log_pages: &LogPages) -> Log {
        let (pages, births) = (&self.chain.pages, self.births());
        for (nth, page) in pages.iter().enumerate() {
            let is_last = nth + 1 == pages.len();
            let open = if is_last { PAGE_SLOTS - self.next } else { 0 };
            let state = State::recovered(open, page.tombs, page.is_continued);
            log_pages.start(page.id.page, page.id.seed(), state);
        }
        let pages = pages.iter().map(|it| it.id.page).collect();
        Log::new(LogState::new(self.chain.log, pages, births), self.next)
    }
}

/// Reads inodes and their logs.
pub(crate) struct LogReader<'a, P> {
    pub(super) pmem: &'a P,
    pub(super) geometry: &'a Geometry,
    /// The words of the journal's record, which may not be stored in the log pages yet.
    pub(super) journaled: Vec<Word>,
}

impl<'a, P: Pmem> LogReader<'a, P> {
    pub(crate) fn new(pmem: &'a P, geometry: &'a Geometry) -> Self {
        LogReader {
            pmem,
            geometry,
            journaled: Vec::new(),
        }
    }

    /// Returns the inode in slot `number`, if a complete one was written there.
    pub(crate) fn inode(&self, number: u32) -> Option<RawInode> {
        let mut bytes = [0; INODE_USED_BYTES];
        // SAFETY: M8.
        unsafe { self.pmem.read(self.geometry.inode_at(number), &mut bytes) };
        RawInode::decode(&bytes, number)
    }

    /// Returns the inode that a directory names.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if its slot does not hold an inode of this generation and kind.
    pub(crate) fn live_inode(&self, id: InodeId) -> Result<RawInode, Error> {
        let what = match self.inode(id.number) {
            Some(inode) if inode.id == id => return Ok(inode),
            Some(inode) if inode.id.generation != id.generation => "an inode of another generation",
            Some(_) => "an inode of another kind",
            None => "an unreadable inode",
        };
        let at = self.geometry.inode_at(id.number);
        Err(Error::corrupt(what, id.number, at))
    }

    /// Returns an inode that a directory names but whose line is unreadable, if the head pointer in
    /// the line is that of this inode. Its creation time is lost. The root is always returned,
    /// because nothing else can be in its place.
    pub(super) fn restored_inode(&self, id: InodeId) -> Option<RawInode> {
        let is_root = id == InodeId::ROOT;
        if self.inode(id.number).is_some() && !is_root {
            // The line belongs to another inode.
            return None;
        }
        let head = self.pmem.load(self.geometry.inode_at(id.number));
        let is_sealed = unseal(id.log().head_seed(), head).is_ok();
        let head = if is_sealed { head } else { 0 };
        let created = 0;
        (is_sealed || is_root).then_some(RawInode { id, head, created })
    }

    /// Replays the log of `inode`. Calls `visit` with each page, and `each` with the records of its
    /// committed groups and their positions, in order. Calls `damaged` with all damage.
    ///
    /// # Errors
    /// Those of `damaged`, which also receives those of `visit` and `each`.
    pub(super) fn replay(
        &self,
        inode: &RawInode,
        visit: &mut EachPage<'_>,
        each: &mut EachRecord<'_>,
        damaged: &mut EachDamage<'_>,
    ) -> Result<Replayed, Error> {
        let mut replayed = Replayed {
            chain: self.read_chain(inode, visit, damaged)?,
            next: 0,
            committed_groups: 0,
            uncommitted_slots: 0,
        };
        replayed.replay_slots(each, damaged)?;
        Ok(replayed)
    }

    /// Reads the chain of `inode`, to its end or to the first page that is damaged.
    fn read_chain(
        &self,
        inode: &RawInode,
        visit: &mut EachPage<'_>,
        damaged: &mut EachDamage<'_>,
    ) -> Result<ReadChain, Error> {
        let log = inode.id.log();
        let mut read = ReadChain {
            log,
            pages: Vec::new(),
            slots: Vec::new(),
        };
        let mut pointer = Pointer {
            word: inode.head,
            at: self.geometry.inode_at(inode.id.number),
            seed: log.head_seed(),
        };
        loop {
            let (id, image) = match self.follow(log, &pointer, visit) {
                Ok(Some(page)) => page,
                Ok(None) => return Ok(read),
                Err(error) => {
                    damaged(error, Fix::Erase(pointer.at, Repair::CutLog))?;
                    return Ok(read);
                }
            };
            read.pages.push(ReadPage {
                id,
                tombs: 0,
                is_continued: false,
            });
            read.slots.extend_from_slice(&image[..TAIL_AT]);
            pointer = Pointer {
                word: get_u64(&image, T_NEXT_AT),
                at: page_at(id.page) + T_NEXT_AT as u64,
                seed: id.seed(),
            };
        }
    }

    /// Returns the page that the pointer leads to; `None` if it is the end of the chain.
    fn follow(
        &self,
        log: LogId,
        pointer: &Pointer,
        visit: &mut EachPage<'_>,
    ) -> Result<Option<(PageId, [u8; PAGE])>, Error> {
        let corrupt = |what, at| Error::corrupt(what, log.inode, at);
        let page = unseal(pointer.seed, pointer.word)
            .map_err(|()| corrupt("a log pointer with a wrong checksum", pointer.at))?;
        let Some(page) = page else {
            return Ok(None);
        };
        let extent = Extent {
            start: page,
            len: 1,
        };
        if !in_data_area(self.geometry, extent) {
            return Err(corrupt("a pointer outside the data area", pointer.at));
        }
        let mut image = [0; PAGE];
        // SAFETY: M8.
        unsafe { self.pmem.read(page_at(page), &mut image) };
        let bytes = page_at(page)..page_at(page) + PAGE as u64;
        for word in self.journaled.iter().filter(|it| bytes.contains(&it.at)) {
            let at = (word.at - bytes.start) as usize;
            image[at..at + WORD_BYTES].copy_from_slice(&word.value.to_le_bytes());
        }
        let (id, _) = PageId::from_tail(&image, log, page).ok_or_else(|| {
            let tail_at = page_at(page) + TAIL_AT as u64;
            corrupt("a log page with a wrong tail", tail_at)
        })?;
        // Only now: a page of another log is not this one's to claim.
        visit(page, pointer.at)?;
        Ok(Some((id, image)))
    }
}

impl Replayed {
    /// Visits every slot of the chain.
    fn replay_slots(
        &mut self,
        each: &mut EachRecord<'_>,
        damaged: &mut EachDamage<'_>,
    ) -> Result<(), Error> {
        let read = &mut self.chain;
        let total = (read.slots.len() / SLOT_BYTES) as u32;
        let (mut index, mut next) = (0, 0);
        while index < total {
            let at = index as usize * SLOT_BYTES;
            let slot = &read.slots[at..at + SLOT_BYTES];
            if get_u64(slot, 0) == 0 {
                if injected_bug!(
                    "ends-at-gap",
                    "recovery takes the first slot without a mark for the end of the log",
                    killed_by = "file-core/patch-second, file-core/patch-append"
                ) {
                    break;
                }
                self.uncommitted_slots += slot.iter().any(|&b| b != 0) as u64;
                index += 1;
                continue;
            }
            let place = read.place(index);
            let applied = read.group(index).and_then(|(record, count)| {
                let takes_away = record.takes_away();
                each(record, place)?;
                Ok((takes_away, count))
            });
            let (takes_away, count) = match applied {
                Ok(applied) => applied,
                Err(error) => {
                    damaged(error, Fix::Erase(place.at(), Repair::EraseGroup))?;
                    // The other slots of a group begin with zero, so they are skipped one by one.
                    index += 1;
                    continue;
                }
            };
            let first = (index / PAGE_SLOTS) as usize;
            let last = ((index + count - 1) / PAGE_SLOTS) as usize;
            read.pages[first].tombs += takes_away as u32;
            for page in &mut read.pages[first..last] {
                page.is_continued = true;
            }
            self.committed_groups += 1;
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
        self.next = match total {
            0 => PAGE_SLOTS,
            _ => next.saturating_sub(total - PAGE_SLOTS),
        };
        Ok(())
    }
}

/// Returns whether the volume may hold logs and data in these pages.
pub(super) fn in_data_area(geometry: &Geometry, extent: Extent) -> bool {
    let end = extent.start as u64 + extent.len as u64;
    extent.start >= geometry.data_start() && end <= geometry.data_end() as u64
}
