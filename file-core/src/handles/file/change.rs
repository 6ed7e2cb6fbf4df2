//! A change to a file: what one group of its log commits.
//!
//! # Steps
//! ```text
//!   lock whole pages of the file                 released at the end
//!     take pages from the allocator               may fail
//!       reserve slots in the log                    may fail
//!         stream data ┐
//!         store slots ┴─ fence ── mark ── fence
//!         update index, size and time
//!       the reservation ends
//!     replaced pages become free
//! ```
//! Every step that can fail precedes the first store (F-M2). The write becomes durable with the
//! second fence and visible after it. So no reader sees data that a crash could still discard.
//!
//! A write, a truncation, a hole or an allocation is a [`Change`], whose parts are new pages,
//! holes, or pages that the file keeps.
//!
//! # Cost
//! Overwriting one page streams that page and writes one log slot, and takes two fences. It takes a
//! page and frees one, each by one atomic exchange if the allocator has a
//! [spare](crate::medium::alloc), or else in a short critical section. It allocates no heap memory,
//! unless the allocator's map of free extents needs a node, or the log needs a page. A write to a
//! part of a page also copies the page, and allocates memory for the copy.

use core::mem::replace;
use core::ops::Range;
use core::slice;

use spanlock_pmem::{Flushed, Pmem};
use spanlock_range_lock::RawRangeLock;
use spanlock_sync::injected_bug;

use crate::handles::file::File;
use crate::handles::file::pages::NewPages;
use crate::handles::file::replaced_pages::ReplacedPages;
use crate::log::lanes::Order;
use crate::log::record::{GroupWriter, WriteHeader, slots_for};
use crate::log::reservation::Reservation;
use crate::medium::alloc::Class;
use crate::medium::error::Error;
use crate::medium::extent::{Extent, ExtentList};
use crate::medium::layout::{MAX_GROUP_SLOTS, MAX_WRITE_BYTES, PAGE_BYTES, SLOT_BYTES};
use crate::medium::log_page::Rank;
use crate::object::index::node::Mapping;
use crate::object::inode::Inode;

/// What becomes of consecutive pages of the file. No part is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// This many new pages.
    New(u32),
    /// The data pages that the file has there.
    Kept(Extent),
    /// This many pages become holes.
    Hole(u32),
}

impl Part {
    fn len(self) -> u32 {
        match self {
            Part::New(len) | Part::Hole(len) => len,
            Part::Kept(extent) => extent.len,
        }
    }
}

/// A change to a file. The caller holds exclusively everything that it changes.
pub(super) struct Change<'c> {
    /// The first page of the file that it replaces.
    pub(super) first: u32,
    /// What becomes of the pages from there on.
    pub(super) parts: &'c [Part],
    /// See [`WriteHeader::end`].
    pub(super) end: u64,
    /// See [`WriteHeader::sets_size`].
    pub(super) sets_size: bool,
    /// The time, if the change sets it.
    pub(super) sets_modified: Option<u64>,
    pub(super) class: Class,
}

impl Change<'_> {
    fn header(&self, new: &ExtentList, checksums: bool, now: u64) -> WriteHeader {
        let (pages, extents) = match self.parts {
            // Every write: quicker than the general case.
            [Part::New(pages)] => (*pages, new.count()),
            parts => {
                let data = parts.iter().filter(|it| !matches!(it, Part::Hole(_)));
                let extents = Extents::of(parts, new.iter()).count() as u32;
                (data.map(|part| part.len()).sum(), extents)
            }
        };
        WriteHeader {
            file_page: self.first,
            pages,
            extents,
            end: self.end,
            sets_size: self.sets_size,
            checksums,
            modified: self.sets_modified.unwrap_or(now),
            sets_modified: self.sets_modified.is_some(),
        }
    }

    /// Returns the parts with the file pages at which they begin.
    fn placed(&self) -> impl Iterator<Item = (u64, Part)> {
        self.parts.iter().scan(u64::from(self.first), |at, part| {
            let from = *at;
            *at += u64::from(part.len());
            Some((from, *part))
        })
    }

    /// Returns the file pages that it changes, without those that a truncation removes.
    fn file_pages(&self) -> Range<u64> {
        let first = u64::from(self.first);
        let pages = self.parts.iter().map(|part| u64::from(part.len()));
        first..first + pages.sum::<u64>()
    }

    /// Returns whether later writes may replace its group although the index does not lead them to
    /// it (F-L9).
    fn is_barrier(&self) -> bool {
        self.takes_away() || self.sets_modified.is_some()
    }

    fn takes_away(&self) -> bool {
        self.sets_size || self.parts.iter().any(|part| matches!(part, Part::Hole(_)))
    }
}

/// The extents of a list of parts. The new pages lie in the extents `new`.
struct Extents<'a, I> {
    parts: slice::Iter<'a, Part>,
    new: I,
    /// What is left of the current extent of `new`.
    rest: Extent,
    /// What is left of the current part of new pages.
    wanted: u32,
}

impl<'a, I: Iterator<Item = Extent>> Extents<'a, I> {
    fn of(parts: &'a [Part], new: I) -> Self {
        Extents {
            parts: parts.iter(),
            new,
            rest: Extent { start: 0, len: 0 },
            wanted: 0,
        }
    }
}

impl<I: Iterator<Item = Extent>> Iterator for Extents<'_, I> {
    type Item = Extent;

    fn next(&mut self) -> Option<Extent> {
        if self.wanted == 0 {
            match *self.parts.next()? {
                Part::New(len) => self.wanted = len,
                Part::Kept(extent) => return Some(extent),
                Part::Hole(len) => return Some(Extent { start: 0, len }),
            }
        }
        if self.rest.len == 0 {
            self.rest = self.new.next()?;
        }
        let Extent { start, len } = self.rest;
        let here = len.min(self.wanted);
        self.wanted -= here;
        self.rest = Extent {
            start: start + here,
            len: len - here,
        };
        Some(Extent { start, len: here })
    }
}

impl<P: Pmem, L: RawRangeLock> File<P, L> {
    /// Performs a change whose new pages are `new`, atomically and durably.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Poisoned`], [`Error::WriteTooLong`]. Nothing has changed.
    pub(super) fn apply(&self, change: &Change<'_>, new: &mut NewPages<'_>) -> Result<(), Error> {
        let (medium, inode) = (&self.shared.medium, &*self.inode);
        let alloc = &medium.space.alloc;
        // Foreign code, which may panic: before anything is taken.
        let now = (medium.clock)();
        // The group of an earlier change, which this one may replace, can have a later time.
        let now = now.max(inode.modified());
        let hint = (inode.number as u64) << 32 | change.first as u64;
        let mut extents = ExtentList::default();
        if new.count > 0 {
            alloc.take_into(&mut extents, hint, new.count, change.class)?;
        }
        let header = change.header(&extents, medium.geometry.data_checksums, now);
        let slots = slots_for(header.record_bytes());
        let error = if slots > MAX_GROUP_SLOTS {
            Error::WriteTooLong {
                len: u64::from(header.pages) * PAGE_BYTES,
                max: MAX_WRITE_BYTES,
            }
        } else {
            let order = self.order(change);
            let reserved = (inode.log).reserve(medium, slots as u32, order, change.class, self);
            match reserved {
                Ok(reservation) => {
                    self.commit(change, new, &extents, &header, slots, reservation);
                    return Ok(());
                }
                Err(error) => error,
            }
        };
        // F-M2: nothing has been stored to these pages.
        extents.iter().for_each(|extent| alloc.release(extent));
        Err(error)
    }

    /// Returns after which groups of the log the group of this change must come (F-L8, F-L9).
    fn order(&self, change: &Change<'_>) -> Order {
        let Inode { log, index, .. } = &*self.inode;
        if change.is_barrier() {
            let is_early = injected_bug!(
                "early-barrier",
                "a truncation, hole or time may come before the changes that it replaces",
                killed_by = "file-core-lanes/hole-write, file-core-lanes/truncate-write"
            );
            return match is_early {
                true => Order::After(Rank::LOWEST),
                false => Order::Last,
            };
        }
        // Without lanes, there is no choice.
        if !log.has_lanes() {
            return Order::Last;
        }
        let ranks = &self.shared.medium.space.log_pages;
        let mut most = Rank::LOWEST;
        let each = |log_page| most = most.max(ranks.rank(log_page));
        // SAFETY: the caller holds the pages of the change.
        unsafe { index.each_log_page(change.file_pages(), each) };
        if injected_bug!(
            "early-write",
            "a write may come before the groups that it replaces",
            killed_by = "file-core-lanes/write-write, file-core-lanes/write-allocate"
        ) {
            most = Rank::LOWEST;
        }
        Order::After(most)
    }

    /// Performs the part that cannot fail, from the first store to freeing the old pages. The
    /// group has `slots` slots.
    fn commit(
        &self,
        change: &Change<'_>,
        new: &mut NewPages<'_>,
        extents: &ExtentList,
        header: &WriteHeader,
        slots: usize,
        mut reservation: Reservation<'_>,
    ) {
        let medium = &self.shared.medium;
        let group_bytes = slots * SLOT_BYTES;
        let (mut few_slots, mut many_slots) = ([0; 4 * SLOT_BYTES], Vec::new());
        let group = scratch(&mut few_slots, &mut many_slots, group_bytes);
        let (mut few, mut many) = ([0; 16], Vec::new());
        let count = if header.checksums { new.count } else { 0 };
        let checksums = scratch(&mut few, &mut many, count as usize);
        let tombs = change.takes_away() as u32;
        let log_page = reservation.place().page;
        let is_left_out = injected_bug!(
            "no-barrier",
            "a write may come before a truncation, hole or time that it replaces",
            killed_by = "file-core-lanes/write-hole, file-core-lanes/write-time"
        );
        if change.is_barrier() && !is_left_out {
            (self.inode.log).raise_barrier(&medium.space, log_page);
        }

        let mut flushed = Flushed::nothing();
        new.each(extents, checksums, |page, content| {
            let so_far = replace(&mut flushed, Flushed::nothing());
            flushed = so_far.and(medium.store_pages(page, content));
        });
        self.put_record(change, extents, header, checksums, group);
        let mut old = ReplacedPages::new(log_page);
        let frees_early = injected_bug!(
            "freed-before-commit",
            "an overwrite frees the old pages before the new ones are committed",
            killed_by = "file-core-holes/reused"
        );
        if frees_early {
            self.update(change, extents, header, checksums, log_page, &mut old);
            old.flush(medium);
        }
        reservation.commit(medium, group, flushed);
        if !frees_early {
            self.update(change, extents, header, checksums, log_page, &mut old);
        }
        reservation.end(old.page_use(header.pages, tombs));
        old.flush(medium);
    }

    /// Applies a change to the index, the size and the time. Its group is in `log_page`. Puts into
    /// `old` what the change has replaced.
    fn update(
        &self,
        change: &Change<'_>,
        extents: &ExtentList,
        header: &WriteHeader,
        checksums: &[u32],
        log_page: u32,
        old: &mut ReplacedPages,
    ) {
        let (medium, inode) = (&self.shared.medium, &*self.inode);
        let mut checksums = checksums.iter().copied();
        let mut added = extents.pages();
        for (at, part) in change.placed() {
            let end = at + u64::from(part.len());
            match part {
                Part::New(_) => {
                    let next = || Mapping {
                        page: added.next().expect("the parts have as many new pages"),
                        checksum: checksums.next().unwrap_or(0),
                    };
                    let each = |before: Mapping, from| {
                        old.push(before.page, medium);
                        old.push_reference(from, medium);
                    };
                    // SAFETY: the caller holds the pages of the change exclusively.
                    unsafe { inode.index.replace_run(at..end, next, log_page, each) };
                }
                Part::Kept(_) => self.keep(at, end, log_page, old),
                Part::Hole(_) => {
                    let mut gone = |_, mapping: Mapping, from| {
                        old.push(mapping.page, medium);
                        old.push_reference(from, medium);
                    };
                    // SAFETY: as above.
                    unsafe { inode.index.remove(at, end, &mut gone) };
                }
            }
        }
        let source = if change.sets_size {
            let first = change.end.div_ceil(PAGE_BYTES);
            let mut gone = |_, mapping: Mapping, from| {
                old.push(mapping.page, medium);
                old.push_reference(from, medium);
            };
            // SAFETY: the caller holds the file exclusively from there to the lock's capacity.
            unsafe { inode.index.remove(first, u64::MAX, &mut gone) };
            inode.set_size(change.end, log_page)
        } else {
            inode.grow(change.end, log_page)
        };
        let time = match change.sets_modified {
            Some(time) => inode.set_modified(time, log_page),
            None => {
                inode.note_modified(header.modified);
                None
            }
        };
        for before in source.into_iter().chain(time) {
            old.push_reference(before, medium);
        }
    }

    /// Writes the record into its group. `checksums` are those of the new pages.
    fn put_record(
        &self,
        change: &Change<'_>,
        extents: &ExtentList,
        header: &WriteHeader,
        checksums: &[u32],
        group: &mut [u8],
    ) {
        let mut writer = GroupWriter::new(group);
        header.put(&mut writer, Extents::of(change.parts, extents.iter()));
        if !header.checksums {
            return;
        }
        let mut new = checksums.iter();
        for (at, part) in change.placed() {
            for file_page in at..at + u64::from(part.len()) {
                let checksum = match part {
                    Part::New(_) => new.next().copied(),
                    Part::Kept(_) => {
                        // SAFETY: the caller holds the pages of the change.
                        let mapping = unsafe { self.inode.index.get(file_page as u32) };
                        let is_lost = injected_bug!(
                            "kept-checksum-lost",
                            "an allocation logs no checksums of the pages that the file has",
                            killed_by = "file-core/sequences-of-2"
                        );
                        mapping.filter(|_| !is_lost).map(|it| it.checksum)
                    }
                    Part::Hole(_) => break,
                };
                writer.put(&checksum.unwrap_or(0).to_le_bytes());
            }
        }
    }

    /// Records that the pages from `at` to `end`, which keep their data, belong to a group in
    /// `log_page`. The caller holds these pages exclusively.
    fn keep(&self, at: u64, end: u64, log_page: u32, old: &mut ReplacedPages) {
        for file_page in at..end {
            let file_page = file_page as u32;
            // SAFETY: the caller holds the pages exclusively.
            let Some(mapping) = (unsafe { self.inode.index.get(file_page) }) else {
                continue;
            };
            // SAFETY: as above.
            let before = unsafe { self.inode.index.replace(file_page, mapping, log_page) };
            if let Some((_, from)) = before {
                old.push_reference(from, &self.shared.medium);
            }
        }
    }
}

/// Returns the first `len` elements of `few`, or of `many` if `few` is too short. All elements of
/// `few` must have their default value.
fn scratch<'a, T: Copy + Default>(
    few: &'a mut [T],
    many: &'a mut Vec<T>,
    len: usize,
) -> &'a mut [T] {
    if len <= few.len() {
        &mut few[..len]
    } else {
        many.resize(len, T::default());
        many
    }
}
