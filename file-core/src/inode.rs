//! A file in memory: its range lock, index, size and log.

use core::mem::replace;

use spanlock_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use spanlock_sync::{Arc, Mutex};

use crate::alloc::Extent;
use crate::clean::{EmitGroup, IsOld, Live, LiveGroup};
use crate::index::Index;
use crate::layout::{EXTENT_BYTES, PAGE_BYTES, PAGE_SLOTS, PAYLOAD_BYTES, WRITE_HEADER_BYTES};
use crate::log::{Log, Place};
use crate::medium::Space;
use crate::record::WriteHeader;

/// The tag of the group that sets the size.
const SIZE: u64 = u64::MAX;
/// The most bytes in a record that a cleaning writes: those of a page's slots.
const MOST_BYTES: usize = PAGE_SLOTS as usize * PAYLOAD_BYTES;

/// A file in memory, kept as long as the directory or a handle refers to it.
///
/// # Orderings
///
/// The size is Relaxed, and yet an observed size is reliable: a thread that sees it and then locks
/// bytes below it reads what the writer wrote that raised it. The two holds exclude each other, so
/// one comes first. Suppose it were the reader's. Its release would synchronize with the writer's
/// acquisition, so the reader's load of the size would happen before the writer's store, and could
/// not return its value.
///
/// `removed` is Relaxed. A thread that holds a reference sets it under the directory's mutex. Only
/// `drop` reads it, after every reference has been released.
pub(crate) struct Inode<L> {
    pub(crate) number: u32,
    pub(crate) generation: u64,
    pub(crate) lock: L,
    pub(crate) index: Index,
    size: AtomicU64,
    /// The log page with the group that the size comes from; 0 if none. It has a live reference for
    /// that. Locked while the size changes.
    size_page: Mutex<u32>,
    pub(crate) log: Log,
    removed: AtomicBool,
    checksums: bool,
    space: Arc<Space>,
}

impl<L> Inode<L> {
    /// Creates a file with this content. `checksums` tells whether its write records carry data
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
            size_page: Mutex::new(content.size_page),
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
    /// ends there, and its reservation has not ended.
    #[inline]
    pub(crate) fn grow(&self, end: u64, log_page: u32) {
        // Relaxed: a check that saves taking the mutex. A size that shrinks meanwhile is not lower
        // than `end`: its holder's range and the caller's would overlap.
        if self.size.load(Ordering::Relaxed) < end {
            self.grow_slowly(end, log_page);
        }
    }

    #[cold]
    fn grow_slowly(&self, end: u64, log_page: u32) {
        let mut size_page = self.size_page.lock();
        // Relaxed, both: see the type's documentation.
        if self.size.load(Ordering::Relaxed) < end {
            self.size.store(end, Ordering::Relaxed);
            self.space.log_pages.add_live(log_page, 1);
            let before = replace(&mut *size_page, log_page);
            if before != 0 {
                self.space.take_live(before, 1);
            }
        }
    }

    /// Marks the file as removed, once its removal is durable. Its pages and its number become free
    /// with the last reference.
    pub(crate) fn mark_removed(&self) {
        // Relaxed: see the type's documentation.
        self.removed.store(true, Ordering::Relaxed);
    }
}

/// What a file contains.
pub(crate) struct Content {
    pub(crate) index: Index,
    pub(crate) size: u64,
    /// See [`Inode`].
    pub(crate) size_page: u32,
    pub(crate) log: Log,
}

impl Content {
    /// Returns the content of a new file.
    pub(crate) fn empty(log: Log) -> Self {
        Content {
            index: Index::new(),
            size: 0,
            size_page: 0,
            log,
        }
    }
}

/// A run of mapped pages, collected for one group.
#[derive(Default)]
struct Run {
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

    fn push(&mut self, page: u32, checksum: u32) {
        match self.extents.last_mut() {
            Some(last) if last.start + last.len == page => last.len += 1,
            _ => self.extents.push(Extent {
                start: page,
                len: 1,
            }),
        }
        self.checksums.push(checksum);
    }

    /// Emits the run unless it is empty, and starts the next one at `file_page`.
    fn emit(&mut self, file_page: u32, size: u64, checksums: bool, emit: &mut EmitGroup<'_>) {
        if !self.extents.is_empty() {
            let pages = self.checksums.len() as u32;
            let header = WriteHeader {
                file_page: self.file_page,
                pages,
                extents: self.extents.len() as u32,
                end: (self.next() * PAGE_BYTES).min(size),
                sets_size: false,
                checksums,
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

/// The tag of a group that maps pages is the first page of the file, and how many pages it maps.
impl<L> Live for Inode<L> {
    fn each(&self, is_old: &IsOld<'_>, emit: &mut EmitGroup<'_>) -> u64 {
        // Read before the index: no page that the walk finds in an old log page lies past it.
        let (size, sets_size) = {
            let size_page = self.size_page.lock();
            (self.size(), is_old(*size_page))
        };
        let mut run = Run::default();
        let mut pages = 0;
        self.index.for_each(&mut |file_page, mapping, log_page| {
            pages += 1;
            if !is_old(log_page) {
                return;
            }
            if file_page as u64 != run.next() || !run.has_room(self.checksums) {
                run.emit(file_page, size, self.checksums, emit);
            }
            run.push(mapping.page, mapping.checksum);
        });
        run.emit(0, size, self.checksums, emit);
        // The groups that mapped the file's end may be dead, so their ends do not give the size.
        if sets_size {
            let header = WriteHeader::of_size(size);
            emit(LiveGroup {
                tag: SIZE,
                live: 1,
                bytes: header.record_bytes(),
                put: &|group| header.put(group, core::iter::empty()),
            });
        }
        pages
    }

    fn moved(&self, is_old: &IsOld<'_>, groups: &[(u64, Place)]) {
        for &(tag, place) in groups {
            if tag == SIZE {
                let mut size_page = self.size_page.lock();
                let from = is_old(*size_page).then(|| replace(&mut *size_page, place.page));
                // P1, as below.
                self.space.take_live(from.unwrap_or(place.page), 1);
                continue;
            }
            let (first, pages) = ((tag >> 32) as u32, tag as u32);
            for file_page in (0..pages).map(|it| first + it) {
                // P1: a reference to the old page, or a writer has replaced the copied one.
                let from = self.index.relocate(file_page, is_old, place.page);
                self.space.take_live(from.unwrap_or(place.page), 1);
            }
        }
    }
}

impl<L> Drop for Inode<L> {
    fn drop(&mut self) {
        // Relaxed: see the type's documentation.
        if !self.removed.load(Ordering::Relaxed) {
            return;
        }
        // M7: the removal is durable, and no other reference to this file exists.
        let mut run = Extent { start: 0, len: 0 };
        self.index.for_each(&mut |_, mapping, _| {
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
