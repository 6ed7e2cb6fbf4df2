//! What the log of one file says: its pages, its size and its time of last change.

use spanlock_pmem::Pmem;

use crate::log::record::{Record, WriteHeader};
use crate::log::tail::SlotAddress;
use crate::medium::error::Error;
use crate::medium::extent::Extent;
use crate::medium::layout::{Geometry, PAGE_BYTES, RawInode};
use crate::medium::log_page::LogPages;
use crate::object::index::Index;
use crate::object::inode::{Content, Sources};
use crate::recover::damage::Fix;
use crate::recover::reader::{Chain, EachDamage, EachPage, LogReader, in_data_area};
use crate::recover::replay::ReplayedLog;
use crate::recover::runs::Runs;

/// The content of a file, according to its log.
pub(crate) struct FileScan {
    pub(super) runs: Runs,
    pub(super) replayed: ReplayedLog,
    pub(super) size: u64,
    created: u64,
    pub(super) modified: u64,
    sources: Sources,
}

impl FileScan {
    /// Removes the pages that were allocated past the size.
    pub(super) fn remove_pages_past_size(&mut self) {
        self.runs.remove(self.size.div_ceil(PAGE_BYTES), u64::MAX);
    }

    /// Returns the file in memory, and sets the states of its log pages.
    pub(crate) fn load(self, log_pages: &LogPages) -> Content {
        let log = self.replayed.into_log(log_pages);
        let index = Index::new();
        let done = self.runs.each(|file_page, mapping, log_page| {
            // SAFETY: no other thread has the index yet.
            unsafe { index.replace(file_page, mapping, log_page) };
            log_pages.add_live(log_page, 1);
            Ok::<_, core::convert::Infallible>(())
        });
        match done {
            Ok(()) => {}
            Err(never) => match never {},
        }
        for source in [self.sources.size, self.sources.time] {
            if source != 0 {
                log_pages.add_live(source, 1);
            }
        }
        Content {
            index,
            size: self.size,
            created: self.created,
            modified: self.modified,
            sources: self.sources,
            log,
        }
    }
}

impl<P: Pmem> LogReader<'_, P> {
    /// Replays the log of a file that no other thread uses. If the volume is read-only, accepts
    /// harmless damage ([`Fix::clears_word`]). In a writable volume, that is an error, too: the
    /// file could then be changed, and a later recovery would refuse it together with those
    /// changes.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub(crate) fn file(&self, inode: &RawInode, is_read_only: bool) -> Result<FileScan, Error> {
        // Sealed pointers can form a loop only if they are forged.
        let mut left = self.geometry.data_pages();
        let mut visit = |_, at| {
            left = left.checked_sub(1).ok_or_else(|| {
                Error::corrupt("a log with more pages than the volume", inode.id.number, at)
            })?;
            Ok(())
        };
        let mut damaged = |error, fix: Fix| match is_read_only && fix.clears_word() {
            true => Ok(()),
            false => Err(error),
        };
        self.scan_file(inode, &mut visit, &mut damaged)
    }

    /// Replays the log of a file. Calls `visit` with each page of the log, and `damaged` with all
    /// damage.
    ///
    /// # Errors
    /// Those of `damaged`, which also receives those of `visit`.
    pub(super) fn scan_file(
        &self,
        inode: &RawInode,
        visit: &mut EachPage<'_>,
        damaged: &mut EachDamage<'_>,
    ) -> Result<FileScan, Error> {
        let chain = self.walk(inode, visit, damaged)?;
        self.scan_chain(chain, damaged)
    }

    /// Replays the log of the file with this chain. Calls `damaged` with all damage.
    ///
    /// # Errors
    /// Those of `damaged`.
    pub(super) fn scan_chain(
        &self,
        chain: Chain,
        damaged: &mut EachDamage<'_>,
    ) -> Result<FileScan, Error> {
        let inode = chain.inode;
        let mut runs = Runs::default();
        let (mut size, mut modified) = (0, inode.created);
        let mut sources = Sources::default();
        let geometry = self.geometry;
        let mut each = |record, place: SlotAddress| {
            let corrupt = |what| Error::corrupt(what, inode.id.number, place.at());
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
            // that replaces it is committed. So no data page is ever in two places of a file. But
            // if a group is lost, the pages that it has replaced may still be here. They must not
            // keep later groups out: see `survey.rs`.
            if runs.pages() > 2 * u64::from(geometry.data_pages()) {
                // If the replay goes on, its memory stays bounded.
                let covered: u64 = extents.iter().map(|it| u64::from(it.len)).sum();
                let first = u64::from(header.file_page);
                runs.remove(first, first + covered);
                return Err(corrupt("a file with more pages than the volume"));
            }
            if header.sets_size || header.end > size {
                (size, sources.size) = (header.end, place.page);
            }
            modified = modified.max(header.modified);
            if header.sets_modified {
                (modified, sources.time) = (header.modified, place.page);
            }
            Ok(())
        };
        let replayed = self.replay(chain, &mut each, damaged)?;
        Ok(FileScan {
            runs,
            replayed,
            size,
            created: inode.created,
            modified,
            sources,
        })
    }
}

/// Checks whether a write record is possible in this volume.
fn check_write(
    geometry: &Geometry,
    header: &WriteHeader,
    extents: &[Extent],
) -> Result<(), &'static str> {
    let covered: u64 = extents.iter().map(|e| u64::from(e.len)).sum();
    let end_page = header.file_page as u64 + covered;
    let largest = geometry.max_file_size;
    // Forged lengths of many extents may add up to more bytes than 64 bits can count.
    if end_page > largest / PAGE_BYTES || header.end > largest {
        return Err("a write record past the largest file size");
    }
    let last_page = (
        end_page.saturating_sub(1) * PAGE_BYTES,
        end_page * PAGE_BYTES,
    );
    let ends_in_last = last_page.0 < header.end && header.end <= last_page.1;
    let grows_nothing = header.end == 0 && !header.sets_size;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_that_add_up_to_more_than_64_bits_are_refused() {
        let geometry = Geometry {
            pages: 1000,
            inodes: 32,
            max_file_size: 1 << 44,
            data_checksums: false,
        };
        let hole = Extent {
            start: 0,
            len: u32::MAX,
        };
        let header = WriteHeader::default();
        let past = Err("a write record past the largest file size");
        assert_eq!(check_write(&geometry, &header, &[hole; 2]), past);
        assert_eq!(
            check_write(&geometry, &header, &vec![hole; (1 << 20) + 1]),
            past
        );
    }
}
