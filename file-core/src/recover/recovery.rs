//! Recovery: rebuilds the volume's state in memory from the bytes of a region.
//!
//! # Method
//! Before recovery, [`Volume`](crate::Volume) repairs a damaged superblock and redoes the
//! journal.
//! 1. Walk the chain of the root directory from inode 0 and replay its committed groups, then those
//!    of the directories that it names, and so on, breadth-first. This yields the live files. No
//!    directory may have two names, so each is reached once and none contains itself.
//! 2. For each live file, walk its chain and replay its committed groups, on all threads of rayon's
//!    pool. Long logs come last, one at a time; all threads decode their pages, see `replay.rs`.
//!    The volume keeps only the file's size: its index and log enter memory when the file is
//!    opened, see `inode_table.rs`.
//! 3. Let every log and every file *claim* its pages. Unclaimed pages are free. So a file that was
//!    removed while it was open needs no further care.
//! 4. Once all of this has succeeded, erase the marks that interrupted renames have left. If a
//!    crash interrupts this step, the next recovery erases the rest.
//!
//! The volume stores no tail pointers, so recovery visits every slot of every page. A slot whose
//! first word is zero is skipped. A slot with a mark is the lead of as many slots as the mark
//! counts. A group of more slots than a page has begins a page, and continues in the next ones.
//!
//! # What is trusted
//! Recovery trusts no metadata. Each pointer is sealed, lies in range, and claims its page, so no
//! chain can meet another or itself. Each group's checksum covers its place. Each record must be
//! valid. The first violation ends the recovery with [`Error::Corrupt`]. Except for step 4,
//! recovery writes nothing. So the metadata of a volume that opens is as this crate wrote it, or
//! differs only in meaningless bytes. `docs/format.md` lists the damage that checksums miss.
//! Recovery does not read data pages.
//!
//! # Damage
//! A volume that is opened read-only, checked or repaired is recovered although it is damaged: see
//! `survey.rs`. The methods here then *note* all damage and go on. A damaged group is
//! skipped, and a chain ends before a damaged page. `mend.rs` repairs what was noted.
//!
//! # Cost
//! Time: every log is read once (in a survey, the logs of files twice), and each
//! extent in it takes a step in a tree of the file's extents. All threads take part, but the
//! extents of one file are applied by one thread. Memory, besides the rebuilt state: two batches of
//! a long log, or one page of a log for each thread; the list of pages of each long log; the
//! extents of one file for each thread; and one bit per page. A repair lists the free pages, in
//! 4 bytes each.
//! Even forged counts in the volume do not change that: a replay keeps at most twice as many pages
//! of a file as the volume has, and `runs.rs` does not visit pages that a later group replaces.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rayon::prelude::*;
use spanlock_pmem::{Durable, Flushed, Pmem};
use spanlock_sync::{Arc, injected_bug};

use crate::log::record::Record;
use crate::log::tail::SlotAddress;
use crate::medium::error::Error;
use crate::medium::extent::Extent;
use crate::medium::layout::{Geometry, InodeId, Kind, ROOT, ROOT_GENERATION, RawInode};
use crate::medium::reports::{RecoveryReport, Repair};
use crate::medium::space::Space;
use crate::object::directory::{Directory, check_name};
use crate::object::names::{Entry, Names};
use crate::recover::claims::Claims;
use crate::recover::damage::{Damages, Fix};
use crate::recover::file_scan::FileScan;
use crate::recover::reader::{Chain, LogReader};

/// Receives the number of each file, and its size in bytes.
type Keep<'a> = dyn Fn(u32, u64) + Sync + 'a;

/// With fewer files or inodes than this, starting threads takes longer than it saves.
const PARALLEL_FROM: usize = 64;

/// A log of fewer pages is decoded by one thread: two batches of `replay.rs` would take more memory
/// than the log has bytes.
const LONG_FROM: usize = 2048;

/// The tree of directories and files, according to the directories' logs.
pub(crate) struct LiveTree {
    /// All directories, breadth-first from the root.
    pub(crate) directories: Vec<Directory>,
    /// All files, in the order of their numbers.
    pub(crate) files: Vec<InodeId>,
    /// How many names each inode has, by its number. The root counts as named.
    pub(crate) links: Vec<u32>,
    /// The largest generation found in a directory's log or in any readable inode.
    pub(crate) last_generation: u64,
    /// The groups that renames have superseded.
    pub(super) superseded: Vec<SlotAddress>,
}

/// What the scan of one or more files found.
#[derive(Default)]
pub(super) struct Counts {
    committed_groups: u64,
    uncommitted_slots: u64,
    log_pages: u64,
    pages_used: u64,
}

impl Counts {
    pub(super) fn of(scan: &FileScan) -> Counts {
        let replayed = &scan.replayed;
        Counts {
            committed_groups: replayed.committed_groups(),
            uncommitted_slots: replayed.uncommitted_slots(),
            log_pages: replayed.pages(),
            pages_used: replayed.pages() + scan.runs.pages(),
        }
    }

    fn and(self, other: Counts) -> Counts {
        Counts {
            committed_groups: self.committed_groups + other.committed_groups,
            uncommitted_slots: self.uncommitted_slots + other.uncommitted_slots,
            log_pages: self.log_pages + other.log_pages,
            pages_used: self.pages_used + other.pages_used,
        }
    }

    pub(super) fn add_to(&self, report: &mut RecoveryReport) {
        report.committed_groups += self.committed_groups;
        report.uncommitted_slots += self.uncommitted_slots;
        report.log_pages += self.log_pages;
        report.pages_used += self.pages_used;
    }
}

/// A file that has been surveyed. If it is damaged, its log must be rewritten.
pub(super) struct SurveyedFile {
    pub(super) inode: RawInode,
    /// The pages of its chain before the first damaged one.
    pub(super) pages: u32,
    /// The pages of the file that are lost, in order.
    pub(super) lost: Vec<u32>,
    /// The page at which its chain was cut off, as far as the pointer to it can be read.
    pub(super) cut_at: Option<u32>,
    /// The first damage that keeps the file from being opened.
    pub(super) error: Option<Error>,
}

/// The state of a recovery.
pub(crate) struct Recovery<'a, P> {
    pub(super) reader: LogReader<'a, P>,
    pub(super) geometry: &'a Geometry,
    pub(super) space: &'a Arc<Space>,
    pub(super) claims: Claims<'a>,
    pub(crate) damages: Damages,
    /// The inodes whose lines must be rewritten, by their numbers.
    pub(super) restored: BTreeMap<u32, RawInode>,
    /// The inodes that cannot be opened, and why.
    pub(crate) unopenable: BTreeMap<InodeId, Error>,
    /// The inodes that names stand for although they do not exist.
    pub(super) missing: BTreeSet<InodeId>,
    /// The files whose logs must be rewritten.
    pub(super) damaged_files: Vec<SurveyedFile>,
    pub(crate) report: RecoveryReport,
}

impl<'a, P: Pmem> Recovery<'a, P> {
    pub(crate) fn new(
        pmem: &'a P,
        geometry: &'a Geometry,
        space: &'a Arc<Space>,
        damages: Damages,
    ) -> Self {
        Recovery {
            reader: LogReader {
                long_from: LONG_FROM,
                ..LogReader::new(pmem, geometry)
            },
            geometry,
            space,
            claims: Claims::new(geometry),
            damages,
            restored: BTreeMap::new(),
            unopenable: BTreeMap::new(),
            missing: BTreeSet::new(),
            damaged_files: Vec::new(),
            report: RecoveryReport {
                inodes: geometry.inodes as u64,
                ..Default::default()
            },
        }
    }

    /// Replays the logs of all directories.
    ///
    /// # Errors
    /// [`Error::Corrupt`], for the first damage breadth-first from the root, unless damage is
    /// noted.
    pub(crate) fn tree(&mut self) -> Result<LiveTree, Error> {
        let mut live = LiveTree {
            directories: Vec::new(),
            files: Vec::new(),
            links: vec![0; self.geometry.inodes as usize],
            last_generation: ROOT_GENERATION,
            superseded: Vec::new(),
        };
        live.links[ROOT as usize] = 1;
        let mut left = VecDeque::from([InodeId::ROOT]);
        let mut named_directories = BTreeSet::new();
        while let Some(id) = left.pop_front() {
            let Some(inode) = self.find_inode(id)? else {
                continue;
            };
            let mut directory = self.directory(&inode, &mut live)?;
            let mut twice = Vec::new();
            directory.names.for_each(|name, entry| {
                let named = entry.id;
                if named.kind == Kind::File {
                    live.files.push(named);
                } else if named_directories.insert(named) {
                    left.push_back(named);
                } else {
                    twice.push((name.to_owned(), entry.place));
                    return;
                }
                live.links[named.number as usize] += 1;
            });
            for (name, place) in twice {
                let error =
                    Error::corrupt("a directory that is named twice", id.number, place.at());
                directory.damage.get_or_insert_with(|| error.clone());
                let fix = Fix::Erase(place.at(), Repair::EraseName);
                self.damages.meet(error, fix)?;
                directory.names.remove(&name);
            }
            live.directories.push(directory);
        }
        live.files.sort_unstable();
        live.files.dedup();
        // Readable free inodes count as well; see "Generations" in `directory.rs`.
        live.last_generation = live.last_generation.max(self.largest_generation());
        self.report.directories = live.directories.len() as u64 - 1;
        self.report.files = live.files.len() as u64;
        Ok(live)
    }

    /// Returns the largest generation of a readable inode, free ones included; zero if there is
    /// none.
    fn largest_generation(&self) -> u64 {
        let others = ROOT + 1..self.geometry.inodes;
        let generation = |number| self.reader.inode(number).map_or(0, |it| it.id.generation);
        let largest = match others.len() < PARALLEL_FROM {
            true => others.map(generation).max(),
            false => others.into_par_iter().map(generation).max(),
        };
        largest.unwrap_or(0)
    }

    /// Returns the inode that a directory names. If its line is unreadable but damage is noted,
    /// restores the inode from its name, or returns `None` if that is impossible.
    ///
    /// # Errors
    /// [`Error::Corrupt`], unless damage is noted.
    pub(super) fn find_inode(&mut self, id: InodeId) -> Result<Option<RawInode>, Error> {
        let error = match self.reader.live_inode(id) {
            Ok(inode) => return Ok(Some(inode)),
            Err(error) => error,
        };
        if !self.damages.are_noted() {
            return Err(error);
        }
        self.unopenable.insert(id, error.clone());
        let restored = self.reader.restored_inode(id);
        match restored.filter(|_| !self.restored.contains_key(&id.number)) {
            Some(inode) => {
                self.restored.insert(id.number, inode);
                self.damages.meet(error, Fix::Inode(inode))?;
                Ok(Some(inode))
            }
            None => {
                self.missing.insert(id);
                Ok(None)
            }
        }
    }

    /// Replays the log of a directory.
    fn directory(&mut self, inode: &RawInode, live: &mut LiveTree) -> Result<Directory, Error> {
        let id = inode.id;
        let names = Names::new();
        let inodes = ROOT + 1..self.geometry.inodes;
        let mut visit = |page, at| self.claims.claim(page_of(page), id.number, at);
        let mut each = |record, place: SlotAddress| {
            let corrupt = |what| Err(Error::corrupt(what, id.number, place.at()));
            let (named, name, old) = match record {
                Record::Add { id, name } => (id, name, None),
                Record::Rename { id, name, old } => (id, name, Some(old)),
                Record::Write { .. } => {
                    return corrupt("a file's record in the log of a directory");
                }
            };
            if !inodes.contains(&named.number) || check_name(&name, &name).is_err() {
                return corrupt("an impossible name or inode in a directory");
            }
            live.last_generation = live.last_generation.max(named.generation);
            if let Some(old) = old {
                // A crash has kept any of the marks that the rename was about to erase.
                if names.get(&old).is_some_and(|it| it.id != named) {
                    return corrupt("a rename whose old name has another inode");
                }
                let superseded = names.remove(&old).into_iter().chain(names.remove(&name));
                live.superseded.extend(superseded.map(|it| it.place));
            }
            match names.add(name.into(), Entry::new(named, place)) {
                true => Ok(()),
                false => corrupt("a name that occurs twice in a directory"),
            }
        };
        let (damages, mut first) = (&mut self.damages, None);
        let mut damaged = |error: Error, fix: Fix| {
            if !fix.clears_word() {
                first.get_or_insert_with(|| error.clone());
            }
            damages.meet(error, fix)
        };
        let chain = self.reader.walk(inode, &mut visit, &mut damaged)?;
        let replayed = self.reader.replay(chain, &mut each, &mut damaged)?;
        let counts = Counts {
            committed_groups: replayed.committed_groups(),
            uncommitted_slots: replayed.uncommitted_slots(),
            log_pages: replayed.pages(),
            pages_used: replayed.pages(),
        };
        counts.add_to(&mut self.report);
        let log_pages = &self.space.log_pages;
        let log = replayed.into_log(log_pages);
        names.for_each(|_, entry| log_pages.add_live(entry.place.page, 1));
        let mut directory = Directory::new(id, log, names);
        directory.damage = first;
        Ok(directory)
    }

    /// Erases the marks of the groups that renames have superseded, durably. Writes nothing if
    /// there are none. The caller has completed all other steps of the recovery.
    pub(crate) fn finish_renames(&self, live: &LiveTree) {
        let is_left_out = injected_bug!(
            "recovery-leaves-renames",
            "recovery does not erase the marks that an interrupted rename has left",
            killed_by = "file-core-names/recovered, file-core-names/sequences-of-1"
        );
        if live.superseded.is_empty() || is_left_out {
            return;
        }
        let pmem = self.reader.pmem;
        let mut erased = Flushed::nothing();
        for place in &live.superseded {
            // F-M8. The mark of the rename is durable: it was read from the medium.
            let written = pmem.publish(place.at(), 0, Durable::at_rest());
            erased = erased.and(pmem.flush(written));
        }
        // F-M7: what was replaced is free now.
        pmem.fence(erased);
    }

    /// Replays the logs of all files, given in the order of their numbers. Claims their pages, and
    /// calls `keep` with each file's number and size. Uses the threads of rayon's current pool.
    ///
    /// # Errors
    /// [`Error::Corrupt`], for the damaged file with the lowest number. If two files claim one
    /// page, the one with the higher number counts as damaged.
    pub(crate) fn files(&mut self, files: &[InodeId], keep: &Keep<'_>) -> Result<(), Error> {
        let counts = if files.len() < PARALLEL_FROM {
            self.serially(files, keep)?
        } else {
            match self.concurrently(files, keep) {
                Ok(counts) => counts,
                Err(first) => {
                    // Which damage the threads meet first depends on their schedule.
                    let mut again = Recovery::new(
                        self.reader.pmem,
                        self.geometry,
                        self.space,
                        Damages::Refused,
                    );
                    again.tree()?;
                    again.serially(files, keep)?;
                    // The second pass found no damage, so the medium is not to be trusted.
                    return Err(first);
                }
            }
        };
        counts.add_to(&mut self.report);
        Ok(())
    }

    fn serially(&self, files: &[InodeId], keep: &Keep<'_>) -> Result<Counts, Error> {
        files.iter().try_fold(Counts::default(), |counts, id| {
            Ok(counts.and(self.file(self.walk(*id)?, keep)?))
        })
    }

    /// Scans several files at a time, except those with long logs. They follow one after the other,
    /// because each of them uses all threads, and takes more memory.
    fn concurrently(&self, files: &[InodeId], keep: &Keep<'_>) -> Result<Counts, Error> {
        let scan = |id: &InodeId| -> Result<_, Error> {
            let chain = self.walk(*id)?;
            if self.reader.is_long(&chain) {
                return Ok((Counts::default(), vec![chain]));
            }
            Ok((self.file(chain, keep)?, Vec::new()))
        };
        let scanned = files.par_iter().map(scan).try_reduce(
            Default::default,
            |(counts, mut long), (more, others)| {
                long.extend(others);
                Ok((counts.and(more), long))
            },
        );
        let (counts, long) = scanned?;
        long.into_iter().try_fold(counts, |counts, chain| {
            Ok(counts.and(self.file(chain, keep)?))
        })
    }

    /// Walks the chain of a file, and claims its pages.
    fn walk(&self, id: InodeId) -> Result<Chain, Error> {
        let inode = self.reader.live_inode(id)?;
        let mut visit = |page, at| self.claims.claim(page_of(page), id.number, at);
        (self.reader).walk(&inode, &mut visit, &mut |error, _| Err(error))
    }

    /// Replays the log of the file with this chain, and claims its data pages.
    fn file(&self, chain: Chain, keep: &Keep<'_>) -> Result<Counts, Error> {
        let number = chain.inode.id.number;
        let scan = (self.reader).scan_chain(chain, &mut |error, _| Err(error))?;
        let at = self.geometry.inode_at(number);
        scan.runs
            .each_extent(|_, extent| self.claims.claim(extent, number, at))?;
        keep(number, scan.size);
        Ok(Counts::of(&scan))
    }

    /// Calls `each` with every run of pages that belong to no log and no file.
    pub(crate) fn free_extents(&self, each: &mut dyn FnMut(Extent)) {
        self.claims.free_extents(each);
    }
}

pub(super) fn page_of(page: u32) -> Extent {
    Extent {
        start: page,
        len: 1,
    }
}
