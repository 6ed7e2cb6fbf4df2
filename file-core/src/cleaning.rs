//! Cleaning on demand: of one file's log, and of all logs of a volume.

use std::collections::BTreeSet;

use spanlock_pmem::Pmem;
use spanlock_range_lock::RawRangeLock;
use spanlock_sync::injected_bug;

use crate::clean;
use crate::directory::Directory;
use crate::error::Error;
use crate::file::File;
use crate::file_core::FileCore;
use crate::options::CleanReport;
use crate::volume::Volume;

/// A cleaning that was asked for copies groups if that frees a single page.
pub(crate) const ANY: u64 = u64::MAX;

impl<P: Pmem, L: RawRangeLock> FileCore<P, L> {
    /// Cleans the logs of all directories and files, so that each takes as few pages as possible: a
    /// directory without names, and a file as it was created, take none. So a volume of which
    /// everything was removed has as many free pages as when it was formatted.
    ///
    /// Readers and writers of files go on, except that writers of a file with at most 4,096 pages
    /// may wait while these are visited. Changes of a directory wait while its log is cleaned.
    /// Copies take free pages, including the reserve. If too few pages are free for the copies of a
    /// log, the log stays longer than necessary. Poisoned logs stay as they are, and so do the logs
    /// of files that have no name any more: see [`File::clean`].
    ///
    /// Reads the logs of files that are not in memory, as [`open_file`](Self::open_file) does. If
    /// the volume [groups](crate::Durability::AtSync) changes, first makes durable those that have
    /// returned.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]. [`Error::NoLock`] and [`Error::Corrupt`], as for
    /// [`open_file`](Self::open_file); some logs may have been cleaned before the error.
    pub fn clean(&self) -> Result<CleanReport, Error> {
        self.volume().check_writable()?;
        // Pending changes keep pages that they have replaced.
        self.volume().settle();
        let mut report = self.volume().clean_directories();
        let mut cleaned = BTreeSet::new();
        for (path, id) in self.volume().files() {
            if !cleaned.insert(id) {
                // It has several names.
                continue;
            }
            match self.open_file(&path).and_then(|file| file.clean()) {
                Ok(cleaned) => report.add(cleaned),
                // It, or a directory on its path, was removed or renamed meanwhile, or is poisoned.
                Err(
                    Error::NotFound { .. }
                    | Error::IsADirectory { .. }
                    | Error::NotADirectory { .. }
                    | Error::Poisoned { .. },
                ) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(report)
    }
}

impl<P: Pmem, L: RawRangeLock> File<P, L> {
    /// Cleans the file's log, so that it takes as few pages as possible: none if the file is empty,
    /// and was not changed since it was created.
    ///
    /// Readers and writers go on, as [`FileCore::clean`] says. Takes none of the file's ranges. If
    /// the volume [groups](crate::Durability::AtSync) changes, makes those durable that returned
    /// before, of all files.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::Poisoned`].
    pub fn clean(&self) -> Result<CleanReport, Error> {
        self.volume().check_writable()?;
        self.clean_for(ANY)
    }

    /// See [`clean::on_demand`].
    pub(crate) fn clean_for(&self, share: u64) -> Result<CleanReport, Error> {
        clean::on_demand(&self.inode().log, &self.volume().medium, self, share)
    }
}

impl<P: Pmem, L> Volume<P, L> {
    /// Cleans the logs of all directories, except poisoned ones.
    fn clean_directories(&self) -> CleanReport {
        let mut report = CleanReport::default();
        for directory in self.tree.all() {
            if let Some(Ok(cleaned)) = self.clean_directory(&directory, ANY) {
                report.add(cleaned);
            }
        }
        report
    }

    /// Cleans the log of a directory. Returns `None` if it was removed. For `share`, see
    /// [`clean::on_demand`].
    pub(crate) fn clean_directory(
        &self,
        directory: &Directory,
        share: u64,
    ) -> Option<Result<CleanReport, Error>> {
        let state = directory.lock()?;
        let is_unlocked = injected_bug!(
            "cleans-unlocked-directory",
            "a directory's log is cleaned while names change",
            killed_by = "file-core-beside-cleaning/names-remove"
        );
        let _state = (!is_unlocked).then_some(state);
        let names = &directory.names;
        Some(clean::on_demand(&directory.log, &self.medium, names, share))
    }
}
