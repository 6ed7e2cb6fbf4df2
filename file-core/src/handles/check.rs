//! The check of a volume's data against its checksums.

use std::collections::BTreeSet;

use spanlock_pmem::Pmem;
use spanlock_range_lock::{RangeLockExt, RawRangeLock};

use crate::handles::file::File;
use crate::handles::volume::Volume;
use crate::medium::error::Error;
use crate::medium::layout::{PAGE, PAGE_BYTES, page_at};
use crate::medium::reports::{CheckReport, DamagedPage};
use crate::object::inode::Inode;

impl<P: Pmem, L: RawRangeLock> Volume<P, L> {
    /// Reads every data page of every file and compares it with its checksum. Metadata needs no
    /// such pass: it is checked when the volume is opened.
    ///
    /// The check runs concurrently with readers and writers and locks one page at a time. In a
    /// volume without data checksums it reads nothing. It may miss files that are created, renamed
    /// or removed meanwhile.
    ///
    /// # Errors
    /// [`Error::Lock`] if a file's range lock is too small, and [`Error::NoLock`],
    /// [`Error::Poisoned`] and [`Error::Corrupt`] as for [`open_file`](Self::open_file). Damaged
    /// pages are not an error: the report lists them. The check ends at the first error;
    /// [`fsck::check`](crate::fsck::check) lists all damage of a volume that is not open.
    pub fn check(&self) -> Result<CheckReport, Error> {
        let mut report = CheckReport::default();
        if !self.shared.medium.geometry.data_checksums {
            return Ok(report);
        }
        let mut checked = BTreeSet::new();
        for (path, _) in self.shared.files() {
            if let Some(file) = File::open_listed(&self.shared, &path, &mut checked)? {
                self.check_file(&path, file.inode(), &mut report)?;
                report.files += 1;
            }
        }
        Ok(report)
    }

    fn check_file(
        &self,
        name: &str,
        inode: &Inode<L>,
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        // Nothing is locked yet, so the list of pages is only a hint. Collecting it first avoids
        // visiting the holes of a sparse file.
        let mut pages = Vec::new();
        inode
            .index
            .for_each(&mut |file_page, _, _| pages.push(file_page));
        let mut content = [0; PAGE];
        for file_page in pages {
            let offset = page_at(file_page);
            let _hold = inode.lock.read(offset..offset + PAGE_BYTES)?;
            // SAFETY: the page is held.
            let Some(mapping) = (unsafe { inode.index.get(file_page) }) else {
                continue;
            };
            self.shared.medium.load_data(mapping.page, 0, &mut content);
            report.pages += 1;
            if crc32c::crc32c(&content) != mapping.checksum {
                let at = page_at(mapping.page);
                report.damaged.push(DamagedPage {
                    name: name.to_owned(),
                    offset,
                    at,
                });
            }
        }
        Ok(())
    }
}
