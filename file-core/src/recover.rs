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
//! counts. Groups may cross a page boundary, so the slots of a chain are read as one sequence.
//!
//! # What is trusted
//! Recovery trusts no metadata. Each pointer is sealed, lies in range, and claims its page, so no
//! chain can meet another or itself. Each group's checksum covers its position. Each record must be
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
use crate::directory::check_name;
use crate::error::Error;
use crate::index::Index;
use crate::layout::{
    Chain, Geometry, HEAD_SEQUENCE, INODE_USED_BYTES, PAGE, PAGE_BYTES, PAGE_SLOTS, ROOT,
    ROOT_GENERATION, RawInode, SLOT_BYTES, T_NEXT_AT, TAIL_AT, WORD_BYTES, get_u64, mark_of,
    page_at, slots_of_mark,
};
use crate::log::Log;
use crate::options::RecoveryReport;
use crate::record::{Record, WriteHeader};

/// The position of a group.
#[derive(Clone, Copy)]
pub(crate) struct GroupPlace {
    /// Number of the lead slot in the chain.
    pub(crate) slot: u32,
    /// Byte offset of the lead slot in the region.
    pub(crate) at: u64,
}

/// A file that the directory names.
pub(crate) struct LiveFile {
    pub(crate) generation: u64,
    pub(crate) name: String,
    /// The lead slot of its group.
    pub(crate) slot: u32,
}

/// The live files.
pub(crate) struct LiveFiles {
    /// The files by inode number.
    pub(crate) names: BTreeMap<u32, LiveFile>,
    /// The largest generation found in the directory's log or in any readable inode.
    pub(crate) last_generation: u64,
}

/// Receives the records of a log.
type EachRecord<'a> = dyn FnMut(Record, GroupPlace) -> Result<(), Error> + 'a;

/// A chain of log pages, read into memory.
struct ReadChain {
    chain: Chain,
    pages: Vec<u32>,
    /// All slots, in order.
    slots: Vec<u8>,
}

impl ReadChain {
    /// Returns the byte offset of slot `index`.
    fn at(&self, index: u32) -> u64 {
        let page = self.pages[(index / PAGE_SLOTS) as usize];
        page_at(page) + (index % PAGE_SLOTS) as u64 * SLOT_BYTES as u64
    }
}

/// The state of a recovery.
pub(crate) struct Recovery<'a, P> {
    pmem: &'a P,
    geometry: &'a Geometry,
    /// One bit for each page of the data area, set once the page is claimed.
    claimed: Vec<u64>,
    pub(crate) report: RecoveryReport,
}

impl<'a, P: Pmem> Recovery<'a, P> {
    pub(crate) fn new(pmem: &'a P, geometry: &'a Geometry) -> Self {
        let words = geometry.data_pages().div_ceil(64) as usize;
        Recovery {
            pmem,
            geometry,
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
        let read = self.read_chain(inode)?;
        let next = self.replay_slots(&read, each)?;
        self.report.log_pages += read.pages.len() as u64;
        Ok(Log::new(read.chain, read.pages, next))
    }

    /// Reads the chain of `inode`, claiming its pages.
    fn read_chain(&mut self, inode: &RawInode) -> Result<ReadChain, Error> {
        let number = inode.number;
        let mut chain = Chain {
            inode: number,
            generation: inode.generation,
            epoch: 0,
        };
        let mut read = ReadChain {
            chain,
            pages: Vec::new(),
            slots: Vec::new(),
        };
        let mut word = inode.head;
        let mut word_at = self.geometry.inode_at(number);
        let mut position = HEAD_SEQUENCE;
        loop {
            let pointer = chain.unseal(position, word);
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
            let sequence = read.pages.len() as u32;
            let tail_at = page_at(page) + TAIL_AT as u64;
            let bad_tail = Error::corrupt("a log page with a wrong tail", number, tail_at);
            match Chain::from_tail(&image, number, inode.generation, sequence) {
                Some((found, next)) if sequence == 0 || found == chain => {
                    chain = found;
                    word = next;
                }
                _ => return Err(bad_tail),
            }
            read.chain = chain;
            read.pages.push(page);
            read.slots.extend_from_slice(&image[..TAIL_AT]);
            (word_at, position) = (page_at(page) + T_NEXT_AT as u64, sequence);
        }
    }

    /// Visits every slot of a chain. Returns the number of the first slot after the last committed
    /// group.
    fn replay_slots(&mut self, read: &ReadChain, each: &mut EachRecord<'_>) -> Result<u32, Error> {
        let seed = read.chain.seed();
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
            let corrupt = |what| Error::corrupt(what, read.chain.inode, read.at(index));
            let count = slots_of_mark(mark).ok_or_else(|| corrupt("an invalid commit mark"))?;
            if count > total - index {
                return Err(corrupt("a committed group longer than its log"));
            }
            let mut group = read.slots[at..at + count as usize * SLOT_BYTES].to_vec();
            group[..WORD_BYTES].fill(0);
            if mark_of(seed, index, &group) != mark {
                return Err(corrupt("a committed group whose checksum is wrong"));
            }
            let place = GroupPlace {
                slot: index,
                at: read.at(index),
            };
            each(Record::decode(&group).map_err(corrupt)?, place)?;
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
        Ok(next)
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
            let corrupt = |what| Err(Error::corrupt(what, ROOT, place.at));
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
                slot: place.slot,
            };
            match live.names.insert(inode, file) {
                None => Ok(()),
                Some(_) => corrupt("an inode that the directory names twice"),
            }
        })?;
        // Readable free inodes count as well; see "Generations" in `directory.rs`.
        for inode in inodes.filter_map(|number| self.inode(number)) {
            live.last_generation = live.last_generation.max(inode.generation);
        }
        Ok((log, live))
    }

    /// Replays the log of a file. Returns its index, its size, and its log.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub(crate) fn file(&mut self, inode: &RawInode) -> Result<(Index, u64, Log), Error> {
        let (mut runs, mut size) = (Runs::default(), 0);
        let geometry = self.geometry;
        let log = self.replay(inode, &mut |record, place| {
            let corrupt = |what| Error::corrupt(what, inode.number, place.at);
            let Record::Write {
                header,
                extents,
                checksums,
            } = record
            else {
                return Err(corrupt("a directory's record in the log of a file"));
            };
            check_write(geometry, &header, &extents).map_err(corrupt)?;
            runs.replace(header.file_page, &extents, checksums);
            // A write takes its pages before its slots, and a page becomes free only when the group
            // that replaces it is committed. So no data page is ever in two places of a file.
            if runs.pages() > u64::from(geometry.data_pages()) {
                return Err(corrupt("a file with more pages than the volume"));
            }
            size = size.max(header.end);
            Ok(())
        })?;
        let index = Index::new();
        let at = geometry.inode_at(inode.number);
        runs.each(|file_page, mapping| {
            let page = Extent {
                start: mapping.page,
                len: 1,
            };
            self.claim(page, inode.number, at)?;
            index.replace(file_page, mapping);
            Ok::<_, Error>(())
        })?;
        Ok((index, size, log))
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
    let end_page = header.file_page as u64 + header.pages as u64;
    if end_page * PAGE_BYTES > geometry.max_file_size {
        return Err("a write record past the largest file size");
    }
    if header.end > end_page * PAGE_BYTES || header.end <= (end_page - 1) * PAGE_BYTES {
        return Err("a write record that does not end in its last page");
    }
    if header.checksums != geometry.data_checksums {
        return Err("a write record with data checksums in a volume without them, or the reverse");
    }
    if header.pages > geometry.data_pages() || !extents.iter().all(|e| in_data_area(geometry, *e)) {
        return Err("a pointer outside the data area");
    }
    Ok(())
}
