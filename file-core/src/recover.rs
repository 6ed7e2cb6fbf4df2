//! Recovery: rebuilds the volume's state in memory from the bytes of a region.
//!
//! # Method
//! 1. Walk the directory's chain from inode 0 and replay its committed groups. This yields the live
//!    files.
//! 2. For each live file, walk its chain and replay its committed groups, on all threads of rayon's
//!    pool. The volume keeps the file's size and nothing else of it: a file's index and log enter
//!    memory when the file is opened, see `inodes.rs`.
//! 3. Let every log and every file *claim* its pages. Unclaimed pages are free.
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

mod chain;
mod claims;
mod file;
#[cfg(test)]
mod forged;
mod runs;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use rayon::prelude::*;
use spanlock_pmem::Pmem;

pub(crate) use self::chain::LogReader;
use self::claims::Claims;
use crate::alloc::Extent;
use crate::directory::{Entry, check_name};
use crate::error::Error;
use crate::layout::{Geometry, ROOT, ROOT_GENERATION, RawInode};
use crate::log::Log;
use crate::log_page::LogPages;
use crate::options::RecoveryReport;
use crate::record::Record;

/// With fewer files than this, starting threads takes longer than it saves.
const PARALLEL_FROM: usize = 64;

/// What the directory's log says.
pub(crate) struct LiveFiles {
    pub(crate) log: Log,
    pub(crate) names: BTreeMap<Box<str>, Entry>,
    /// The largest generation found in the directory's log or in any readable inode.
    pub(crate) last_generation: u64,
}

/// What the scan of one or more files found.
#[derive(Default)]
struct Counts {
    committed_groups: u64,
    uncommitted_slots: u64,
    log_pages: u64,
    pages_used: u64,
}

impl Counts {
    fn and(self, other: Counts) -> Counts {
        Counts {
            committed_groups: self.committed_groups + other.committed_groups,
            uncommitted_slots: self.uncommitted_slots + other.uncommitted_slots,
            log_pages: self.log_pages + other.log_pages,
            pages_used: self.pages_used + other.pages_used,
        }
    }

    fn add_to(&self, report: &mut RecoveryReport) {
        report.committed_groups += self.committed_groups;
        report.uncommitted_slots += self.uncommitted_slots;
        report.log_pages += self.log_pages;
        report.pages_used += self.pages_used;
    }
}

/// The state of a recovery.
pub(crate) struct Recovery<'a, P> {
    reader: LogReader<'a, P>,
    geometry: &'a Geometry,
    log_pages: &'a LogPages,
    claims: Claims<'a>,
    pub(crate) report: RecoveryReport,
}

impl<'a, P: Pmem> Recovery<'a, P> {
    pub(crate) fn new(pmem: &'a P, geometry: &'a Geometry, log_pages: &'a LogPages) -> Self {
        Recovery {
            reader: LogReader::new(pmem, geometry),
            geometry,
            log_pages,
            claims: Claims::new(geometry),
            report: RecoveryReport {
                inodes: geometry.inodes as u64,
                ..Default::default()
            },
        }
    }

    /// Replays the log of the directory.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub(crate) fn directory(&mut self) -> Result<LiveFiles, Error> {
        let root = self.reader.live_inode(ROOT, ROOT_GENERATION)?;
        let inodes = ROOT + 1..self.geometry.inodes;
        let mut names: BTreeMap<Box<str>, Entry> = BTreeMap::new();
        let mut is_named = vec![false; self.geometry.inodes as usize];
        let mut last_generation = ROOT_GENERATION;
        let claims = &self.claims;
        let mut visit = |page, at| claims.claim(page_of(page), ROOT, at);
        let replayed = self
            .reader
            .replay(&root, &mut visit, &mut |record, place| {
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
                last_generation = last_generation.max(generation);
                if core::mem::replace(&mut is_named[inode as usize], true) {
                    return corrupt("an inode that the directory names twice");
                }
                let entry = Entry::new(inode, generation, place);
                match names.insert(name.into_boxed_str(), entry) {
                    None => Ok(()),
                    Some(_) => corrupt("two files of one name"),
                }
            })?;
        let counts = Counts {
            committed_groups: replayed.committed_groups,
            uncommitted_slots: replayed.uncommitted_slots,
            log_pages: replayed.pages(),
            pages_used: replayed.pages(),
        };
        counts.add_to(&mut self.report);
        let log = replayed.into_log(self.log_pages);
        for entry in names.values() {
            self.log_pages.add_live(entry.place.get().page, 1);
        }
        // Readable free inodes count as well; see "Generations" in `directory.rs`.
        for inode in inodes.filter_map(|number| self.reader.inode(number)) {
            last_generation = last_generation.max(inode.generation);
        }
        self.report.files = names.len() as u64;
        Ok(LiveFiles {
            log,
            names,
            last_generation,
        })
    }

    /// Replays the logs of all files, each given by its number and generation, in the order of
    /// their numbers. Claims their pages, and calls `sized` with each file's number and size. Uses
    /// the threads of rayon's current pool.
    ///
    /// # Errors
    /// [`Error::Corrupt`], for the file with the lowest number among those that are damaged. Of two
    /// files that have one page, that is the later one.
    pub(crate) fn files(
        &mut self,
        files: &[(u32, u64)],
        sized: &(dyn Fn(u32, u64) + Sync),
    ) -> Result<(), Error> {
        let scan = |&(number, generation): &(u32, u64)| {
            let inode = self.reader.live_inode(number, generation)?;
            self.file(&inode, sized)
        };
        let counts = if files.len() < PARALLEL_FROM {
            serially(files, scan)?
        } else {
            let each = files.par_iter().map(scan);
            match each.try_reduce(Counts::default, |one, other| Ok(one.and(other))) {
                Ok(counts) => counts,
                Err(_) => {
                    // Which damage the threads meet first depends on their schedule.
                    let mut again = Recovery::new(self.reader.pmem, self.geometry, self.log_pages);
                    again.directory()?;
                    let scan = |&(number, generation): &(u32, u64)| {
                        let inode = again.reader.live_inode(number, generation)?;
                        again.file(&inode, sized)
                    };
                    serially(files, scan)?
                }
            }
        };
        counts.add_to(&mut self.report);
        Ok(())
    }

    /// Replays the log of a file, and claims its pages.
    fn file(&self, inode: &RawInode, sized: &(dyn Fn(u32, u64) + Sync)) -> Result<Counts, Error> {
        let number = inode.number;
        let mut visit = |page, at| self.claims.claim(page_of(page), number, at);
        let scan = self.reader.scan_file(inode, &mut visit)?;
        let at = self.geometry.inode_at(number);
        scan.runs
            .each_extent(|extent| self.claims.claim(extent, number, at))?;
        sized(number, scan.size);
        Ok(Counts {
            committed_groups: scan.replayed.committed_groups,
            uncommitted_slots: scan.replayed.uncommitted_slots,
            log_pages: scan.replayed.pages(),
            pages_used: scan.replayed.pages() + scan.runs.pages(),
        })
    }

    /// Calls `each` with every run of pages that no log and no file has.
    pub(crate) fn free_extents(&self, each: &mut dyn FnMut(Extent)) {
        self.claims.free_extents(each);
    }
}

fn serially(
    files: &[(u32, u64)],
    scan: impl Fn(&(u32, u64)) -> Result<Counts, Error>,
) -> Result<Counts, Error> {
    files.iter().try_fold(
        Counts::default(),
        |counts, file| Ok(counts.and(scan(file)?)),
    )
}

fn page_of(page: u32) -> Extent {
    Extent {
        start: page,
        len: 1,
    }
}
