//! Cleaning on request: of one file's log, and of all logs of a volume.

use std::collections::BTreeSet;

use spanlock_pmem::Pmem;
use spanlock_range_lock::RawRangeLock;
use spanlock_sync::injected_bug;

use crate::handles::file::File;
use crate::handles::volume::Volume;
use crate::log::clean;
use crate::medium::error::Error;
use crate::medium::reports::CleanReport;
use crate::object::directory::Directory;
use crate::volume::shared::Shared;

impl<P: Pmem, L: RawRangeLock> Volume<P, L> {
    /// Cleans the logs of all directories and files, so that each takes as few pages as possible.
    /// An empty directory, and a file that was never changed, need none. So if everything in a
    /// volume was removed, it has as many free pages afterwards as when it was formatted.
    ///
    /// Readers are not blocked. Writers of a file with at most 4,096 pages may be blocked while the
    /// cleaning visits these pages; other writers are not blocked. Changes of a directory are
    /// blocked while its log is cleaned.
    ///
    /// The live content of a log is copied to free pages, which may come from the reserve. If there
    /// are too few free pages, the log remains longer than necessary. Poisoned logs are not
    /// cleaned, and neither are the logs of files without a name, for which there is
    /// [`File::clean`]. A file may be left out if another thread meanwhile renames it, or a
    /// directory on its path.
    ///
    /// Reads the logs of files that are not in memory, as [`open_file`](Self::open_file) does.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], and [`Error::NoLock`] and [`Error::Corrupt`] as for
    /// [`open_file`](Self::open_file). The logs of all other files have been cleaned nevertheless.
    pub fn clean(&self) -> Result<CleanReport, Error> {
        self.shared().check_writable()?;
        let mut report = self.shared().clean_directories();
        let mut cleaned = BTreeSet::new();
        let mut first = None;
        for (path, _) in self.shared().files() {
            let opened = File::open_listed(self.shared(), &path, &mut cleaned);
            match opened.and_then(|file| file.map(|it| it.clean()).transpose()) {
                Ok(cleaned) => report.add(cleaned.unwrap_or_default()),
                // The file's own operations report this error.
                Err(Error::Poisoned { .. }) => {}
                Err(error) => first = first.or(Some(error)),
            }
        }
        first.map_or(Ok(report), Err)
    }
}

impl<P: Pmem, L: RawRangeLock> File<P, L> {
    /// Cleans the file's log, so that it takes as few pages as possible: none if the file is empty,
    /// and its time of last change is that of its creation.
    ///
    /// Blocks readers and writers only where [`Volume::clean`] does. Locks no range of the file.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::Poisoned`].
    pub fn clean(&self) -> Result<CleanReport, Error> {
        self.shared().check_writable()?;
        clean::on_request(&self.inode().log, &self.shared().medium, self)
    }
}

impl<P: Pmem, L> Shared<P, L> {
    /// Cleans the logs of all directories, except poisoned ones.
    fn clean_directories(&self) -> CleanReport {
        let mut report = CleanReport::default();
        for directory in self.tree.all() {
            if let Some(Ok(cleaned)) = self.clean_directory(&directory) {
                report.add(cleaned);
            }
        }
        report
    }

    /// Cleans the log of a directory. Returns `None` if it was removed.
    pub(crate) fn clean_directory(
        &self,
        directory: &Directory,
    ) -> Option<Result<CleanReport, Error>> {
        let state = directory.lock()?;
        let is_unlocked = injected_bug!(
            "cleans-unlocked-directory",
            "a directory's log is cleaned while names change",
            killed_by = "file-core-beside-cleaning/names-remove"
        );
        let _state = (!is_unlocked).then_some(state);
        let names = &directory.names;
        Some(clean::on_request(&directory.log, &self.medium, names))
    }
}
