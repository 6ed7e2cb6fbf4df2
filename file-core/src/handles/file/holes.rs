//! Changing the size of a file, and adding and removing its pages.

use core::ops::Range;
use std::time::SystemTime;

use spanlock_pmem::Pmem;
use spanlock_range_lock::{RangeLockExt, RawRangeLock};
use spanlock_sync::injected_bug;

use crate::handles::file::File;
use crate::handles::file::change::{Change, Part};
use crate::handles::file::pages::{NewPages, blank};
use crate::medium::alloc::Class;
use crate::medium::error::Error;
use crate::medium::extent::Extent;
use crate::medium::layout::{PAGE, PAGE_BYTES};
use crate::medium::reports::Metadata;
use crate::medium::time::{nanoseconds, time_of};

impl<P: Pmem, L: RawRangeLock> File<P, L> {
    /// Sets the size in bytes, atomically and durably. A smaller size cuts off the bytes past it
    /// and frees their pages. A larger size adds zeros, which take no space. In both cases, pages
    /// past the new size that [`allocate_keeping_size`] has added become free.
    ///
    /// On a full volume, takes its pages from the [reserve](crate::Stats::pages_reserved). Blocks
    /// while other threads use the page of the new size or any later one, and otherwise like
    /// [`write_at`](Self::write_at).
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::FileTooLarge`], [`Error::NoSpace`] if the reserve is used up,
    /// [`Error::Lock`], [`Error::Poisoned`], and [`Error::Corrupt`] if the volume has data
    /// checksums and the new size lies in a damaged page. The file is unchanged.
    ///
    /// [`allocate_keeping_size`]: Self::allocate_keeping_size
    pub fn truncate(&self, size: u64) -> Result<(), Error> {
        self.shared.check_writable()?;
        let max = self.shared.medium.geometry.max_file_size;
        if size > max {
            return Err(Error::FileTooLarge {
                offset: 0,
                len: size,
                max,
            });
        }
        let (first, within) = (size / PAGE_BYTES, (size % PAGE_BYTES) as usize);
        // Truncations exclude each other: even one to the largest size holds a page.
        let start = (first * PAGE_BYTES).min(max - PAGE_BYTES);
        let _hold = self.inode.lock.write(start..max)?;
        let mut new = NewPages::zeros(0);
        // The bytes past the size are zero already.
        if within > 0 && size < self.inode.size() {
            let image = new.head.insert(blank());
            if self.load_page(first as u32, image)? {
                let keeps_tail = injected_bug!(
                    "tail-not-zeroed",
                    "a truncation keeps the bytes of the last page past the size",
                    killed_by = "file-core/sequences-of-2"
                );
                if !keeps_tail {
                    image[within..].fill(0);
                }
                new.count = 1;
            }
        }
        let parts = [Part::New(1)];
        let change = Change {
            first: if new.count > 0 { first as u32 } else { 0 },
            parts: &parts[..new.count as usize],
            end: size,
            sets_size: !injected_bug!(
                "size-not-set",
                "a truncation is logged as a write, which never makes a file shorter",
                killed_by = "file-core/sequences-of-1"
            ),
            sets_modified: None,
            class: Class::Overwrite,
        };
        self.apply(&change, &mut new)
    }

    /// Makes the bytes in `range` zero, atomically and durably. Pages that lie in the range as a
    /// whole become free. The size does not change. Bytes past the largest file size are ignored.
    ///
    /// On a full volume, takes its pages from the [reserve](crate::Stats::pages_reserved). Blocks
    /// while other threads use any of the same 4 KiB pages, and otherwise like
    /// [`write_at`](Self::write_at).
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::NoSpace`] if the reserve is used up, [`Error::Lock`] (also if
    /// the range is reversed), [`Error::Poisoned`], and [`Error::Corrupt`] if the range covers a
    /// part of a damaged page. The file is unchanged.
    pub fn punch_hole(&self, range: Range<u64>) -> Result<(), Error> {
        if range.start >= range.end {
            // The lock tells what is wrong with a reversed range.
            drop(self.inode.lock.write(range)?);
            return Ok(());
        }
        let max = self.shared.medium.geometry.max_file_size;
        let (start, end) = (range.start, range.end.min(max));
        if start >= end {
            return Ok(());
        }
        self.shared.check_writable()?;
        let (first, last) = (start / PAGE_BYTES, end.div_ceil(PAGE_BYTES));
        let _hold = self
            .inode
            .lock
            .write(first * PAGE_BYTES..last * PAGE_BYTES)?;
        let mut new = NewPages::zeros(0);
        let parts = self.hole_in(start, end, &mut new)?;
        let grows = injected_bug!(
            "hole-grows",
            "a punched hole past the end makes the file longer",
            killed_by = "file-core/sequences-of-1"
        );
        let change = Change {
            first: first as u32,
            parts: &parts,
            end: if grows { end } else { 0 },
            sets_size: false,
            sets_modified: None,
            class: Class::Overwrite,
        };
        self.apply(&change, &mut new)
    }

    /// Returns what becomes of the pages of a hole that is not empty, and fills `new` with the
    /// pages that the hole covers only in part.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if such a page is damaged.
    fn hole_in(&self, start: u64, end: u64, new: &mut NewPages<'_>) -> Result<Vec<Part>, Error> {
        let (first, last) = (start / PAGE_BYTES, end.div_ceil(PAGE_BYTES));
        let (from, to) = ((start % PAGE_BYTES) as usize, (end % PAGE_BYTES) as usize);
        let keeps_edges = injected_bug!(
            "edge-not-zeroed",
            "a punched hole keeps the bytes of the pages of which it has only a part",
            killed_by = "file-core/sequences-of-2"
        );
        // Pages that the file does not have need no copy.
        let edge = |file_page: u64, zeros: Range<usize>| {
            let mut image = blank();
            let is_mapped = self.load_page(file_page as u32, &mut image)?;
            if !keeps_edges {
                image[zeros].fill(0);
            }
            Ok::<_, Error>(is_mapped.then_some(image))
        };
        let ends_inside = to > 0 && last - first == 1;
        if from > 0 || ends_inside {
            new.head = edge(first, from..if ends_inside { to } else { PAGE })?;
        }
        if to > 0 && !ends_inside {
            new.tail = edge(last - 1, 0..to)?;
        }
        let (head, tail) = (new.head.is_some() as u32, new.tail.is_some() as u32);
        new.count = head + tail;
        let mut parts = vec![Part::New(1); head as usize];
        push_hole(&mut parts, last - first - u64::from(new.count));
        parts.extend(new.tail.is_some().then_some(Part::New(1)));
        Ok(parts)
    }

    /// Makes sure that the bytes in `range` have pages, and that the file reaches at least to the
    /// end of `range`, atomically and durably. New pages are zero, and other bytes do not change.
    /// Afterwards, overwriting these bytes fails for lack of space only if the reserve does not
    /// suffice: see [`write_at`](Self::write_at).
    ///
    /// Blocks like [`write_at`](Self::write_at).
    ///
    /// # Errors
    /// Those of [`write_at`](Self::write_at), except [`Error::Corrupt`]. The file is unchanged.
    pub fn allocate(&self, range: Range<u64>) -> Result<(), Error> {
        self.allocate_pages(range, true)
    }

    /// Like [`allocate`](Self::allocate), but does not change the size. Pages past the size become
    /// free when the file is [truncated](Self::truncate).
    ///
    /// # Errors
    /// Same as [`allocate`](Self::allocate).
    pub fn allocate_keeping_size(&self, range: Range<u64>) -> Result<(), Error> {
        self.allocate_pages(range, false)
    }

    fn allocate_pages(&self, range: Range<u64>, grows: bool) -> Result<(), Error> {
        let max = self.shared.medium.geometry.max_file_size;
        if range.start >= range.end {
            // The lock tells what is wrong with a reversed range.
            drop(self.inode.lock.write(range)?);
            return Ok(());
        }
        self.shared.check_writable()?;
        if range.end > max {
            let (offset, len) = (range.start, range.end - range.start);
            return Err(Error::FileTooLarge { offset, len, max });
        }
        let (first, last) = (range.start / PAGE_BYTES, range.end.div_ceil(PAGE_BYTES));
        self.check_pages(first..last)?;
        let _hold = self
            .inode
            .lock
            .write(first * PAGE_BYTES..last * PAGE_BYTES)?;
        let grows = grows && range.end > self.inode.size();
        // SAFETY: the pages are held.
        let is_hole = |page: &u64| unsafe { self.inode.index.get(*page as u32) }.is_none();
        let Some(first) = (first..last).find(is_hole).or(grows.then_some(last - 1)) else {
            // An operation that has panicked may have freed the pages.
            return self.inode.log.check();
        };
        // If the file grows, the record must have its last page.
        let last = match grows {
            true => last,
            false => (first..last).rfind(is_hole).map_or(last, |page| page + 1),
        };
        let (parts, count) = self.with_holes_filled(first, last);
        let is_lost = injected_bug!(
            "allocation-keeps-size",
            "an allocation past the end is logged without the new size",
            killed_by = "file-core/sequences-of-1"
        );
        let change = Change {
            first: first as u32,
            parts: &parts,
            end: if grows && !is_lost { range.end } else { 0 },
            sets_size: false,
            sets_modified: None,
            class: Class::Growth,
        };
        self.apply(&change, &mut NewPages::zeros(count))
    }

    /// Returns the pages from `first` to `last` with new ones in the holes, and their number. The
    /// caller holds these pages.
    fn with_holes_filled(&self, first: u64, last: u64) -> (Vec<Part>, u32) {
        let (mut parts, mut count) = (Vec::new(), 0);
        for file_page in first..last {
            // SAFETY: the caller holds the pages.
            let mapping = unsafe { self.inode.index.get(file_page as u32) };
            count += mapping.is_none() as u32;
            match (mapping.map(|it| it.page), parts.last_mut()) {
                (None, Some(Part::New(len))) => *len += 1,
                (None, _) => parts.push(Part::New(1)),
                (Some(page), Some(Part::Kept(last))) if last.start + last.len == page => {
                    last.len += 1;
                }
                (Some(start), _) => parts.push(Part::Kept(Extent { start, len: 1 })),
            }
        }
        if injected_bug!(
            "kept-as-hole",
            "an allocation is logged without the pages that the file has already",
            killed_by = "file-core/sequences-of-2"
        ) {
            for part in &mut parts {
                if let Part::Kept(extent) = part {
                    *part = Part::Hole(extent.len);
                }
            }
        }
        (parts, count)
    }

    /// Returns the size and the times of the file. A change that is in progress may show in the
    /// size and not yet in the time.
    pub fn metadata(&self) -> Metadata {
        Metadata {
            size: self.inode.size(),
            created: time_of(self.inode.created),
            modified: time_of(self.inode.modified()),
        }
    }

    /// Sets the time of the last change, durably. If it lies in the future, later changes leave it
    /// as it is until the clock has passed it. A time before 1970 or past the year 2554 becomes the
    /// nearest time that the volume can store.
    ///
    /// On a full volume, takes its pages from the [reserve](crate::Stats::pages_reserved). Blocks
    /// while other threads use the file, and otherwise like [`write_at`](Self::write_at).
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::NoSpace`] if the reserve is used up, [`Error::Lock`],
    /// [`Error::Poisoned`]. The time is unchanged.
    pub fn set_modified(&self, time: SystemTime) -> Result<(), Error> {
        self.shared.check_writable()?;
        let all = 0..self.shared.medium.geometry.max_file_size;
        let _hold = self.inode.lock.write(all)?;
        let change = Change {
            first: 0,
            parts: &[],
            end: 0,
            sets_size: false,
            sets_modified: Some(nanoseconds(time)),
            class: Class::Overwrite,
        };
        self.apply(&change, &mut NewPages::zeros(0))
    }
}

/// Appends a hole of `pages` pages, which may be none.
fn push_hole(parts: &mut Vec<Part>, mut pages: u64) {
    while pages > 0 {
        let here = u32::try_from(pages).unwrap_or(u32::MAX);
        parts.push(Part::Hole(here));
        pages -= u64::from(here);
    }
}
