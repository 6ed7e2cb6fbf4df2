//! A file in memory: its range lock, index, size and log.

use core::mem::replace;

use spanlock_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use spanlock_sync::{Arc, Mutex, injected_bug};

use crate::log::live::{EmitGroup, IsOld, LiveGroup};
use crate::log::record::WriteHeader;
use crate::log::tail::{Log, SlotAddress};
use crate::medium::extent::Extent;
use crate::medium::layout::{
    EXTENT_BYTES, PAGE_BYTES, PAGE_SLOTS, PAYLOAD_BYTES, WRITE_HEADER_BYTES,
};
use crate::medium::space::Space;
use crate::object::index::Index;
use crate::object::index::node::Mapping;

/// The tag of the group that sets the size. The tag of a group that maps pages holds the first of
/// these pages and their number.
const SIZE: u64 = u64::MAX;
/// The tag of the group that sets the time of the last change.
const TIME: u64 = u64::MAX - 1;
/// The most bytes in a record that a cleaning writes: as many as the slots of a page hold.
const MOST_BYTES: usize = PAGE_SLOTS as usize * PAYLOAD_BYTES;

/// A file in memory, kept as long as the directory or a handle refers to it.
///
/// # Orderings
///
/// The size is Relaxed, and yet an observed size is reliable. A thread that sees a size and then
/// locks bytes below it reads what the writer that raised the size wrote, unless a truncation has
/// cut that off since. The two holds exclude each other, so one comes first. Suppose the reader's
/// came first. Its release would synchronize with the writer's acquisition, so the reader's load of
/// the size would happen before the writer's store, and could not return its value.
///
/// A size that is read under a hold is not outdated for the bytes held. An operation that moves the
/// end into these bytes, or back from there, holds some of them, so the lock orders it with the
/// load of the size. An operation that moves the end from these bytes to a place beyond them may
/// not have to wait. It changes none of these bytes, so it can count as the later of the two.
///
/// The time of the last change is Relaxed. It says nothing about other memory.
///
/// `removed` is Relaxed. It is set by a thread that has a reference, and read only by `drop`, after
/// every other reference has been released.
pub(crate) struct Inode<L> {
    pub(crate) number: u32,
    pub(crate) generation: u64,
    pub(crate) lock: L,
    pub(crate) index: Index,
    size: AtomicU64,
    /// The time of the last change. Never earlier than the one that recovery would find.
    modified: AtomicU64,
    /// Locked while the size changes, or the time is set.
    sources: Mutex<Sources>,
    /// The time at which the file was created.
    pub(crate) created: u64,
    pub(crate) log: Log,
    removed: AtomicBool,
    checksums: bool,
    space: Arc<Space>,
}

impl<L> Inode<L> {
    /// Creates a file with this content. `checksums` says whether its write records carry data
    /// checksums.
    pub(crate) fn new(
        (number, generation): (u32, u64),
        lock: L,
        content: Content,
        checksums: bool,
        space: Arc<Space>,
    ) -> Self {
        Inode {
            number,
            generation,
            lock,
            index: content.index,
            size: AtomicU64::new(content.size),
            modified: AtomicU64::new(content.modified),
            sources: Mutex::new(content.sources),
            created: content.created,
            log: content.log,
            removed: AtomicBool::new(false),
            checksums,
            space,
        }
    }

    /// Returns the size in bytes.
    #[inline]
    pub(crate) fn size(&self) -> u64 {
        // Relaxed: see the type's documentation.
        self.size.load(Ordering::Relaxed)
    }

    /// Raises the size to at least `end`, by a group in `log_page`. The caller holds the range that
    /// ends there, and its reservation has not ended. Returns the log page to which this takes away
    /// a reference, as the caller must (F-P1).
    #[inline]
    pub(crate) fn grow(&self, end: u64, log_page: u32) -> Option<u32> {
        // Relaxed: a check that saves taking the mutex. A size that shrinks meanwhile is not lower
        // than `end`: its holder's range and the caller's would overlap.
        match self.size.load(Ordering::Relaxed) < end {
            true => self.grow_slowly(end, log_page),
            false => None,
        }
    }

    #[cold]
    fn grow_slowly(&self, end: u64, log_page: u32) -> Option<u32> {
        let mut sources = self.sources.lock();
        // Relaxed: see the type's documentation.
        match self.size.load(Ordering::Relaxed) < end {
            true => self.store_size(&mut sources, end, log_page),
            false => None,
        }
    }

    /// Sets the size, by a group in `log_page`. The caller holds everything from there on, and its
    /// reservation has not ended. Returns what [`grow`](Self::grow) does.
    pub(crate) fn set_size(&self, size: u64, log_page: u32) -> Option<u32> {
        self.store_size(&mut self.sources.lock(), size, log_page)
    }

    fn store_size(&self, sources: &mut Sources, size: u64, log_page: u32) -> Option<u32> {
        // Relaxed: see the type's documentation.
        self.size.store(size, Ordering::Relaxed);
        self.refer(&mut sources.size, log_page)
    }

    /// Lets a source refer to `log_page`, whose reservation has not ended. Returns the page to
    /// which it referred before.
    fn refer(&self, source: &mut u32, log_page: u32) -> Option<u32> {
        self.space.log_pages.add_live(log_page, 1);
        Some(replace(source, log_page)).filter(|before| *before != 0)
    }

    /// Returns the time of the last change.
    pub(crate) fn modified(&self) -> u64 {
        // Relaxed: see the type's documentation.
        self.modified.load(Ordering::Relaxed)
    }

    /// Raises the time of the last change to at least `time`. The caller holds some of the file.
    #[inline]
    pub(crate) fn note_modified(&self, time: u64) {
        // Relaxed, both: see the type's documentation. The load saves the exchange if the time is
        // not later.
        if self.modified.load(Ordering::Relaxed) < time {
            self.modified.fetch_max(time, Ordering::Relaxed);
        }
    }

    /// Sets the time of the last change, by a group in `log_page`. The caller holds all of the
    /// file, so that other changes come before or after this in memory as in the log. Its
    /// reservation has not ended. Returns what [`grow`](Self::grow) does.
    pub(crate) fn set_modified(&self, time: u64, log_page: u32) -> Option<u32> {
        let mut sources = self.sources.lock();
        // Relaxed: see the type's documentation.
        self.modified.store(time, Ordering::Relaxed);
        self.refer(&mut sources.time, log_page)
    }

    /// Marks the file as removed, once its removal is durable. Its pages and its number become free
    /// with the last reference.
    pub(crate) fn mark_removed(&self) {
        // Relaxed: see the type's documentation.
        self.removed.store(true, Ordering::Relaxed);
    }
}

/// The log pages with the groups that a file's attributes come from; 0 if there is no such group.
/// Each of these pages has a live reference for that.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sources {
    pub(crate) size: u32,
    /// Only groups that set the time count: any other group that a cleaning may drop was replaced
    /// by a later change, which has a time of its own.
    pub(crate) time: u32,
}

/// What a file contains.
pub(crate) struct Content {
    pub(crate) index: Index,
    pub(crate) size: u64,
    pub(crate) created: u64,
    pub(crate) modified: u64,
    pub(crate) sources: Sources,
    pub(crate) log: Log,
}

impl Content {
    /// Returns the content of a file that is new at the time `created`.
    pub(crate) fn empty(log: Log, created: u64) -> Self {
        Content {
            index: Index::new(),
            size: 0,
            created,
            modified: created,
            sources: Sources::default(),
            log,
        }
    }
}

/// A run of mapped pages, collected for one group.
#[derive(Default)]
pub(crate) struct Run {
    file_page: u32,
    extents: Vec<Extent>,
    checksums: Vec<u32>,
}

impl Run {
    /// Returns the file page after the run.
    fn next(&self) -> u64 {
        self.file_page as u64 + self.checksums.len() as u64
    }

    /// Returns whether the run has room for another page.
    fn has_room(&self, checksums: bool) -> bool {
        let pages = self.checksums.len() + 1;
        let checksums = if checksums { pages * 4 } else { 0 };
        WRITE_HEADER_BYTES + (self.extents.len() + 1) * EXTENT_BYTES + checksums <= MOST_BYTES
    }

    /// Adds a page of the file. If the page does not continue the run, or the run has no room,
    /// emits the run first, as [`emit`](Self::emit) does.
    pub(crate) fn add(
        &mut self,
        file_page: u32,
        mapping: Mapping,
        file: &WriteHeader,
        emit: &mut EmitGroup<'_>,
    ) {
        // A group that has pages up to the size says where the file ends, in case the group that
        // sets the size is damaged later. So pages past the size need a group of their own.
        let is_past = file_page as u64 == file.end.div_ceil(PAGE_BYTES);
        if file_page as u64 != self.next() || is_past || !self.has_room(file.checksums) {
            self.emit(file_page, file, emit);
        }
        let page = mapping.page;
        match self.extents.last_mut() {
            Some(last) if last.start + last.len == page => last.len += 1,
            _ => self.extents.push(Extent {
                start: page,
                len: 1,
            }),
        }
        self.checksums.push(mapping.checksum);
    }

    /// Emits the run unless it is empty, and starts the next run at `file_page`. `file` gives the
    /// file's size, its time, and whether it has checksums.
    pub(crate) fn emit(&mut self, file_page: u32, file: &WriteHeader, emit: &mut EmitGroup<'_>) {
        let checksums = file.checksums;
        if !self.extents.is_empty() {
            let pages = self.checksums.len() as u32;
            let end = (self.next() * PAGE_BYTES).min(file.end);
            // Pages past the size do not make the file longer.
            let is_past = end <= u64::from(self.file_page) * PAGE_BYTES;
            let header = WriteHeader {
                file_page: self.file_page,
                pages,
                extents: self.extents.len() as u32,
                end: if is_past { 0 } else { end },
                ..*file
            };
            emit(LiveGroup {
                tag: (self.file_page as u64) << 32 | pages as u64,
                live: pages,
                bytes: header.record_bytes(),
                put: &|group| {
                    header.put(group, self.extents.iter().copied());
                    if checksums {
                        for checksum in &self.checksums {
                            group.put(&checksum.to_le_bytes());
                        }
                    }
                },
            });
        }
        self.file_page = file_page;
        self.extents.clear();
        self.checksums.clear();
    }
}

/// Emits a group that only sets an attribute.
fn emit_attribute(tag: u64, header: &WriteHeader, emit: &mut EmitGroup<'_>) {
    emit(LiveGroup {
        tag,
        live: 1,
        bytes: header.record_bytes(),
        put: &|group| header.put(group, core::iter::empty()),
    });
}

impl<L> Inode<L> {
    /// See [`Live::each`](crate::log::live::Live::each).
    pub(crate) fn each_live(&self, is_old: &IsOld<'_>, emit: &mut EmitGroup<'_>) -> u64 {
        // A change that is not in the old pages comes after the copied groups in the log, so it
        // does not matter whether they already have its size and time.
        let (size, size_from, sets_time) = {
            let sources = self.sources.lock();
            (self.size(), sources.size, is_old(sources.time))
        };
        let file = WriteHeader {
            end: size,
            checksums: self.checksums,
            modified: self.modified(),
            ..WriteHeader::default()
        };
        // A file begins empty and unchanged, so that needs no group.
        let is_new = size == 0 && file.modified == self.created;
        // The time comes first, so that the other groups do not count before it is set.
        if sets_time && !is_new {
            emit_attribute(TIME, &WriteHeader::of_time(file.modified), emit);
        }
        // The groups that mapped the file's end may be dead, so their ends do not give the size. A
        // file that no group has ever made longer may have been changed by groups that are not
        // copied. The size comes before the pages, because applying it removes the pages past it.
        let is_lost = injected_bug!(
            "clean-drops-size",
            "a cleaning does not copy the size of a file",
            killed_by = "file-core-emptied/sequences-of-2"
        );
        if (is_old(size_from) || size_from == 0) && !is_new && !is_lost {
            let header = WriteHeader {
                modified: file.modified,
                ..WriteHeader::of_size(size)
            };
            emit_attribute(SIZE, &header, emit);
        }
        let mut run = Run::default();
        let mut pages = 0;
        self.index.for_each(&mut |file_page, mapping, log_page| {
            pages += 1;
            if !is_old(log_page) {
                return;
            }
            run.add(file_page, mapping, &file, emit);
        });
        run.emit(0, &file, emit);
        pages
    }

    /// Records where the groups are now: see [`Live::moved`](crate::log::live::Live::moved).
    /// Returns the log pages from which the caller must take references away.
    pub(crate) fn move_to(&self, is_old: &IsOld<'_>, groups: &[(u64, SlotAddress)]) -> Vec<u32> {
        let mut gone = Vec::new();
        for &(tag, place) in groups {
            // F-P1, here and below: the reference that goes is the one to the old page or, if a
            // writer has replaced the group meanwhile, the one to the new page.
            if tag == SIZE || tag == TIME {
                let mut sources = self.sources.lock();
                let source = match tag {
                    SIZE => &mut sources.size,
                    _ => &mut sources.time,
                };
                match *source {
                    0 => *source = place.page,
                    page if is_old(page) => gone.push(replace(source, place.page)),
                    _ => gone.push(place.page),
                }
                continue;
            }
            let (first, pages) = ((tag >> 32) as u32, tag as u32);
            for file_page in (0..pages).map(|it| first + it) {
                let from = self.index.relocate(file_page, is_old, place.page);
                gone.push(from.unwrap_or(place.page));
            }
        }
        let mut sources = self.sources.lock();
        let is_kept = injected_bug!(
            "size-reference-kept",
            "a cleaning that does not copy the size keeps the reference to its page",
            killed_by = "file-core-sparse/sequences-of-2"
        );
        // If the size or the time is still in an old page, it was not copied, because a new file
        // needs no group for it. F-P1, as above.
        if is_old(sources.size) && !is_kept {
            gone.push(replace(&mut sources.size, 0));
        }
        if is_old(sources.time) {
            gone.push(replace(&mut sources.time, 0));
        }
        gone
    }
}

impl<L> Drop for Inode<L> {
    /// Frees the pages and the number of a file that was removed.
    fn drop(&mut self) {
        // Relaxed: see the type's documentation.
        if !self.removed.load(Ordering::Relaxed) {
            return;
        }
        // F-M7: the removal is durable.
        let mut run = Extent { start: 0, len: 0 };
        self.index.for_each_mut(&mut |_, mapping| {
            if run.len > 0 && run.start + run.len == mapping.page {
                run.len += 1;
                return;
            }
            if run.len > 0 {
                self.space.alloc.release(run);
            }
            run = Extent {
                start: mapping.page,
                len: 1,
            };
        });
        if run.len > 0 {
            self.space.alloc.release(run);
        }
        for page in self.log.take_pages() {
            self.space.release_log_page(page);
        }
        self.space.release_inode(self.number);
    }
}
