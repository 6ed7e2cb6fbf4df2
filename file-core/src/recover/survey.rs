//! Reading the files of a volume that may be damaged, and listing all damage.
//!
//! # Which of two files owns a page
//! If a group of a file is damaged, older groups of the same file pages are in force again. But
//! their data pages may belong to another file by now. So pages are claimed in this order: first
//! the pages of all chains, whose tails name their log; then the data pages of files without
//! damage; then the data pages of damaged files. A file that comes later loses a page that is
//! claimed already. Files without damage claim in the order of their numbers.
//!
//! The older groups may also name a page that a later group of the same file maps elsewhere. A
//! sound log never maps a page at two places of its file at a time, so the later group is right.
//! Hence each file claims the pages of its later groups first.
//!
//! No file claims a page that it would not keep, because another file would lose that page in vain:
//! - With data checksums, a file does not claim a page that does not match its checksum. An opening
//!   does not read data, so in a volume with data checksums, two files may claim one page there.
//!   Reads show which of them has it.
//! - A repair drops the pages past the size of a damaged file, so these are not claimed. Files
//!   without damage claim their pages past the size after the other pages of such files. If a file
//!   loses one of these, it is damaged, and loses them all.
//!
//! If the volume was closed, a file is also damaged if its summary is not that in the checkpoint.
//! The checks of a log's words do not see words that have become zero, and such a file could take
//! the pages of an intact one.
//!
//! A file's log is read twice, so that the extents of only one file are in memory at a time; and
//! once more if it has pages past the size.

use std::collections::{BTreeMap, BTreeSet};

use spanlock_pmem::Pmem;

use super::damage::{Damage, Damages, Fix};
use super::file::FileScan;
use super::{Counts, LiveTree, Recovery, page_of};
use crate::close::{self, Checkpoint};
use crate::digest::{self, Summary};
use crate::directory::Directory;
use crate::error::{Error, Place};
use crate::fsck::{Finding, Repair};
use crate::index::Mapping;
use crate::layout::{
    INODE_USED_BYTES, Kind, PAGE, PAGE_BYTES, ROOT, RawInode, T_NEXT_AT, WORD_BYTES, page_at,
};

/// A file whose log must be rewritten.
pub(super) struct DamagedFile {
    pub(super) inode: RawInode,
    /// The pages of its chain before the first damaged one.
    pages: u32,
    /// The pages of the file that are lost, in order.
    pub(super) lost: Vec<u32>,
    /// The page at which its chain was cut off, as far as the pointer to it can be read.
    pub(super) cut_at: Option<u32>,
    /// The byte offset of the pointer that ends its log, if only the digest shows that it is
    /// damaged.
    pub(super) end_at: Option<u64>,
}

/// A file that is being surveyed.
struct Surveyed {
    file: DamagedFile,
    /// The first damage that keeps the file from being opened.
    error: Option<Error>,
    has_pages_past_size: bool,
}

impl Surveyed {
    fn is_damaged(&self) -> bool {
        self.error.is_some() || !self.file.lost.is_empty()
    }
}

/// The pages of a file up to its size, or those past it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    UpToSize,
    PastSize,
}

impl<P: Pmem> Recovery<'_, P> {
    /// From here on, logs are read as if the change in the journal were complete. Notes a damaged
    /// journal.
    pub(crate) fn note_journal(&mut self) -> Result<(), Error> {
        let read = self.reader.read_journal();
        read.or_else(|error| self.damages.meet(error, Fix::Journal))
    }

    /// Returns the checkpoint, if the volume was closed with one. Notes a damaged one.
    pub(crate) fn checkpoint(&mut self) -> Result<Option<Checkpoint>, Error> {
        match close::read(self.reader.pmem, self.geometry) {
            Ok(checkpoint) => Ok(checkpoint),
            Err(error) => self.damages.meet(error, Fix::Checkpoint).map(|()| None),
        }
    }

    /// Reads the logs of all files, notes all damage, and claims their pages. Calls `keep` with
    /// each file's number and summary. If there is a checkpoint, compares the summaries with it,
    /// unless it contradicts the directories. If `reads_data`, compares the data with its
    /// checksums.
    ///
    /// # Errors
    /// None, if damage is noted.
    pub(crate) fn survey(
        &mut self,
        live: &LiveTree,
        keep: &dyn Fn(u32, Summary),
        checkpoint: Option<&Checkpoint>,
        reads_data: bool,
    ) -> Result<(), Error> {
        let agreed = checkpoint.filter(|it| self.claims.are_in(&it.used));
        if checkpoint.is_some() && agreed.is_none() {
            let error = close::damaged("a checkpoint that contradicts the directories");
            self.damages.meet(error, Fix::Checkpoint)?;
        }
        let checkpoint = agreed;
        let mut files = Vec::new();
        for id in &live.files {
            if let Some(inode) = self.find_inode(*id)? {
                let number = inode.id.number;
                // An inode without its head pointer is noted already, and its log is empty.
                let is_emptied = inode.head == 0 && self.restored.contains_key(&number);
                let expected = checkpoint.filter(|_| !is_emptied);
                let expected = expected.map(|it| it.files[number as usize]);
                files.push(self.survey_log(inode, expected, keep)?);
            }
        }
        files.sort_by_key(|it| it.error.is_some());
        let undamaged = files.partition_point(|it| it.error.is_none());
        let (undamaged, damaged) = files.split_at_mut(undamaged);
        for surveyed in &mut *undamaged {
            self.survey_data(surveyed, Part::UpToSize, reads_data)?;
        }
        for surveyed in undamaged {
            if surveyed.has_pages_past_size && !surveyed.is_damaged() {
                self.survey_data(surveyed, Part::PastSize, reads_data)?;
            }
        }
        for surveyed in damaged {
            self.survey_data(surveyed, Part::UpToSize, reads_data)?;
        }
        for surveyed in files {
            let is_damaged = surveyed.is_damaged();
            let Surveyed { file, error, .. } = surveyed;
            if let Some(error) = error {
                self.unopenable.insert(file.inode.id, error);
            }
            if is_damaged {
                self.damaged_files.push(file);
            }
        }
        self.note_missing(&live.directories)
    }

    /// Reads the log of a file, and claims the pages of its chain. A log that does not yield the
    /// summary that is `expected` is damaged.
    fn survey_log(
        &mut self,
        inode: RawInode,
        expected: Option<Summary>,
        keep: &dyn Fn(u32, Summary),
    ) -> Result<Surveyed, Error> {
        let number = inode.id.number;
        let Recovery {
            claims, damages, ..
        } = self;
        let (mut pages, mut first, mut cut_at) = (0, None, None);
        let mut visit = |page, at| {
            claims.claim(page_of(page), number, at)?;
            pages += 1;
            Ok(())
        };
        let reader = &self.reader;
        let mut damaged = |error: Error, fix: Fix| {
            if fix.clears_word() {
                return damages.meet(error, fix);
            }
            first.get_or_insert_with(|| error.clone());
            if let Fix::Erase(pointer_at, Repair::CutLog) = fix {
                let mut pointer = [0; WORD_BYTES];
                reader.load(pointer_at, &mut pointer);
                cut_at = Some(u64::from_le_bytes(pointer) as u32);
            }
            damages.meet(error, Fix::Rewrite(Repair::RewriteLog))
        };
        let mut scan = (self.reader).scan_file(&inode, &mut visit, &mut damaged)?;
        let summary = scan.summary();
        keep(number, summary);
        let mut end_at = None;
        if first.is_none() && expected.is_some_and(|it| it != summary) {
            let at = match scan.replayed.page_numbers().last() {
                Some(page) => page_at(page) + T_NEXT_AT as u64,
                None => self.geometry.inode_at(number),
            };
            let error = Error::corrupt(digest::CHANGED, number, at);
            damages.meet(error.clone(), Fix::Rewrite(Repair::RewriteLog))?;
            (first, end_at) = (Some(error), Some(at));
        }
        Counts::of(&scan).add_to(&mut self.report);
        let all = scan.runs.pages();
        scan.remove_pages_past_size();
        Ok(Surveyed {
            file: DamagedFile {
                inode,
                pages,
                lost: Vec::new(),
                cut_at,
                end_at,
            },
            error: first,
            has_pages_past_size: scan.runs.pages() < all,
        })
    }

    /// Reads the log of a file once more, as far as it was readable.
    pub(super) fn scan_again(&self, file: &DamagedFile) -> Result<FileScan, Error> {
        let mut left = file.pages;
        let mut visit = |_, at| {
            let end = || Error::corrupt("the end of what is readable", file.inode.id.number, at);
            left = left.checked_sub(1).ok_or_else(end)?;
            Ok(())
        };
        (self.reader).scan_file(&file.inode, &mut visit, &mut |_, _| Ok(()))
    }

    /// Claims the data pages in a part of a file, except those that it loses.
    fn survey_data(
        &mut self,
        surveyed: &mut Surveyed,
        part: Part,
        reads_data: bool,
    ) -> Result<(), Error> {
        let Surveyed { file, error, .. } = surveyed;
        let number = file.inode.id.number;
        let mut scan = self.scan_again(file)?;
        match part {
            Part::UpToSize => scan.remove_pages_past_size(),
            Part::PastSize => scan.runs.remove(0, scan.size.div_ceil(PAGE_BYTES)),
        }
        let has_checksums = self.geometry.data_checksums;
        let (claims, pmem, damages) = (&self.claims, self.reader.pmem, &mut self.damages);
        let mut content = [0; PAGE];
        let mut is_intact = |mapping: &Mapping| {
            // SAFETY: M8.
            unsafe { pmem.read(page_at(mapping.page), &mut content) };
            crc32c::crc32c(&content) == mapping.checksum
        };
        let mut lost = Vec::new();
        scan.runs.each_latest_first(|file_page, mapping| {
            let (at, offset) = (page_at(mapping.page), page_at(file_page));
            let damage = if has_checksums && reads_data && !is_intact(&mapping) {
                Error::damaged_data(number, offset, at)
            } else {
                match claims.claim(page_of(mapping.page), number, at) {
                    Ok(()) => return Ok(()),
                    // Reads compare the page with the checksum.
                    Err(_) if has_checksums && !reads_data => return Ok(()),
                    Err(Error::Corrupt { what, place }) => {
                        let place = Place {
                            offset: Some(offset),
                            ..place
                        };
                        let damage = Error::Corrupt { what, place };
                        error.get_or_insert_with(|| damage.clone());
                        damage
                    }
                    Err(other) => return Err(other),
                }
            };
            lost.push((file_page, damage));
            Ok(())
        })?;
        lost.sort_unstable_by_key(|(file_page, _)| *file_page);
        let mut last: Option<(u32, Error)> = None;
        for (file_page, damage) in lost {
            file.lost.push(file_page);
            let follows = last.as_ref().is_some_and(|(page, before)| {
                page.checked_add(1) == Some(file_page) && is_same(before, &damage)
            });
            if !follows {
                damages.meet(damage.clone(), Fix::Rewrite(Repair::MakeHole))?;
            }
            damages.lengthen_last(PAGE_BYTES);
            last = Some((file_page, damage));
        }
        if part == Part::PastSize && !file.lost.is_empty() {
            scan.runs.each(|file_page, mapping, _| {
                if file.lost.binary_search(&file_page).is_err() {
                    claims.release(mapping.page);
                }
                Ok::<_, Error>(())
            })?;
        }
        Ok(())
    }

    /// Notes the names whose inode is missing.
    fn note_missing(&mut self, directories: &[Directory]) -> Result<(), Error> {
        let mut names = Vec::new();
        for directory in directories {
            directory.names.for_each(|_, entry| {
                if self.missing.contains(&entry.id) {
                    names.push((entry.id, entry.place));
                }
            });
        }
        for (id, place) in names {
            let error = self.unopenable.get(&id).cloned();
            let error = error.unwrap_or_else(|| {
                Error::corrupt("a name without its inode", id.number, place.at())
            });
            let fix = Fix::Erase(place.at(), Repair::EraseName);
            self.damages.meet(error, fix)?;
        }
        Ok(())
    }

    /// Notes the inodes that no name refers to. They are not damage.
    pub(crate) fn note_unnamed(&mut self, live: &LiveTree) -> Result<(), Error> {
        for number in ROOT + 1..self.geometry.inodes {
            if live.links[number as usize] > 0 {
                continue;
            }
            let at = self.geometry.inode_at(number);
            let mut line = [0; INODE_USED_BYTES];
            // SAFETY: M8.
            unsafe { self.reader.pmem.read(at, &mut line) };
            let what = match RawInode::decode(&line, number).map(|it| it.id.kind) {
                Some(Kind::File) => "a file that no name refers to",
                Some(Kind::Directory) => "a directory that no name refers to",
                None if line == [0; INODE_USED_BYTES] => continue,
                None => "an unreadable inode that no name refers to",
            };
            (self.damages).meet(Error::corrupt(what, number, at), Fix::Nothing)?;
        }
        Ok(())
    }

    /// Returns whether no damage was noted.
    pub(crate) fn is_sound(&self) -> bool {
        let mut noted = self.damages.noted().iter();
        noted.all(|it| it.fix == Fix::Nothing)
    }

    /// Returns all that was noted, with the paths of the names that are to be erased, and with a
    /// path of each other inode.
    pub(crate) fn findings(&self, live: &LiveTree) -> Vec<Finding> {
        let noted = self.damages.noted();
        let wanted: BTreeSet<u32> = noted.iter().filter_map(|it| it.place.inode).collect();
        let erased = noted.iter().filter_map(|it| it.fix.erased_name());
        let erased: BTreeSet<u64> = erased.collect();
        // By the places of their marks.
        let mut names = BTreeMap::new();
        let mut paths = BTreeMap::from([(ROOT, "/".to_owned())]);
        // In breadth, so the path of each directory is known before its names.
        let mut prefixes = BTreeMap::from([(ROOT, String::new())]);
        for directory in &live.directories {
            let Some(prefix) = prefixes.remove(&directory.id.number) else {
                continue;
            };
            directory.names.for_each(|name, entry| {
                let number = entry.id.number;
                let path = format!("{prefix}{name}");
                if entry.id.kind == Kind::Directory {
                    prefixes.insert(number, format!("{path}/"));
                }
                if erased.contains(&entry.place.at()) {
                    names.insert(entry.place.at(), path.clone());
                }
                if wanted.contains(&number) {
                    paths.entry(number).or_insert(path);
                }
            });
        }
        let path_of = |it: &Damage| {
            let name = it.fix.erased_name().and_then(|at| names.get(&at));
            name.or_else(|| paths.get(&it.place.inode?)).cloned()
        };
        let finding = |it: &Damage| Finding {
            what: it.what,
            place: it.place,
            path: path_of(it),
            bytes: it.bytes,
            repair: it.fix.repair(),
            is_repaired: false,
        };
        noted.iter().map(finding).collect()
    }
}

impl Damages {
    /// Adds bytes to those that the last piece of damage affects.
    fn lengthen_last(&mut self, bytes: u64) {
        if let Damages::Noted(noted) = self
            && let Some(last) = noted.last_mut()
        {
            last.bytes += bytes;
        }
    }
}

/// Returns whether both are the same kind of damage.
fn is_same(one: &Error, other: &Error) -> bool {
    match (one, other) {
        (Error::Corrupt { what: one, .. }, Error::Corrupt { what: other, .. }) => one == other,
        _ => false,
    }
}
