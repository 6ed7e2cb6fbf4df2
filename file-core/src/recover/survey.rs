//! Reading the files of a volume that may be damaged, and listing all damage.
//!
//! # Which of two files owns a page
//! If a group of a file is damaged, older groups of the same file pages are in force again. But
//! their data pages may belong to another file by now. So pages are claimed in this order: first
//! the pages of all chains, whose tails name their log; then the data pages of files without
//! damage; then the data pages of damaged files. A file that comes later loses a page that is
//! claimed already.
//!
//! The older groups may also name a page that a later group of the same file maps elsewhere. A
//! sound log never maps a page at two places of its file at a time, so the later group is right.
//! Hence each file claims the pages of its later groups first.
//!
//! With data checksums, a file does not claim a page that does not match its checksum. An opening
//! does not read data, so in a volume with data checksums, two files may claim one page there.
//! Reads show which of them has it. The pages past the size of a damaged file are not claimed,
//! because a repair drops them.
//!
//! A file's log is read twice, so that the extents of only one file are in memory at a time.

use std::collections::{BTreeMap, BTreeSet};

use spanlock_pmem::Pmem;

use crate::medium::error::{Error, Place};
use crate::medium::layout::{
    INODE_USED_BYTES, Kind, PAGE, PAGE_BYTES, ROOT, RawInode, WORD_BYTES, page_at,
};
use crate::medium::reports::{Finding, Repair};
use crate::object::directory::Directory;
use crate::object::index::node::Mapping;
use crate::recover::damage::{Damage, Damages, Fix};
use crate::recover::file_scan::FileScan;
use crate::recover::recovery::{Counts, LiveTree, Recovery, SurveyedFile, page_of};

impl<P: Pmem> Recovery<'_, P> {
    /// Notes the superblock that is damaged, if one is.
    pub(crate) fn note_superblock(&mut self, damaged_at: Option<u64>) -> Result<(), Error> {
        let Some(at) = damaged_at else {
            return Ok(());
        };
        let error = Error::corrupt_at("a damaged superblock", at);
        self.damages.meet(error, Fix::Superblock(at))
    }

    /// From here on, logs are read as if the change in the journal were complete. Notes a damaged
    /// journal.
    pub(crate) fn note_journal(&mut self) -> Result<(), Error> {
        let read = self.reader.read_journal();
        read.or_else(|error| self.damages.meet(error, Fix::Journal))
    }

    /// Reads the logs of all files, notes all damage, and claims their pages. Calls `keep` with
    /// each file's number and size. If `reads_data`, compares the data with its checksums.
    ///
    /// # Errors
    /// None, if damage is noted.
    pub(crate) fn survey(
        &mut self,
        live: &LiveTree,
        keep: &dyn Fn(u32, u64),
        reads_data: bool,
    ) -> Result<(), Error> {
        let mut files = Vec::new();
        for id in &live.files {
            if let Some(inode) = self.find_inode(*id)? {
                files.push(self.survey_log(inode, keep)?);
            }
        }
        files.sort_by_key(|it| it.error.is_some());
        for mut file in files {
            self.survey_data(&mut file, reads_data)?;
            if let Some(error) = &file.error {
                self.unopenable.insert(file.inode.id, error.clone());
            }
            if file.error.is_some() || !file.lost.is_empty() {
                self.damaged_files.push(file);
            }
        }
        self.note_missing(&live.directories)
    }

    /// Reads the log of a file, and claims the pages of its chain.
    fn survey_log(
        &mut self,
        inode: RawInode,
        keep: &dyn Fn(u32, u64),
    ) -> Result<SurveyedFile, Error> {
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
        let scan = (self.reader).scan_file(&inode, &mut visit, &mut damaged)?;
        keep(number, scan.size);
        Counts::of(&scan).add_to(&mut self.report);
        Ok(SurveyedFile {
            inode,
            pages,
            lost: Vec::new(),
            cut_at,
            error: first,
        })
    }

    /// Reads the log of a file once more, as far as it was readable.
    pub(super) fn scan_again(&self, file: &SurveyedFile) -> Result<FileScan, Error> {
        let mut left = file.pages;
        let mut visit = |_, at| {
            let end = || Error::corrupt("the end of what is readable", file.inode.id.number, at);
            left = left.checked_sub(1).ok_or_else(end)?;
            Ok(())
        };
        (self.reader).scan_file(&file.inode, &mut visit, &mut |_, _| Ok(()))
    }

    /// Claims the data pages of a file, except those that it loses.
    fn survey_data(&mut self, file: &mut SurveyedFile, reads_data: bool) -> Result<(), Error> {
        let number = file.inode.id.number;
        let mut scan = self.scan_again(file)?;
        if file.error.is_some() {
            scan.remove_pages_past_size();
        }
        let has_checksums = self.geometry.data_checksums;
        let (claims, pmem, damages) = (&self.claims, self.reader.pmem, &mut self.damages);
        let mut content = [0; PAGE];
        let mut is_intact = |mapping: &Mapping| {
            // SAFETY: F-M8.
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
                        file.error.get_or_insert_with(|| damage.clone());
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
            // SAFETY: F-M8.
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
