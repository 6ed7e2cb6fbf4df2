//! A file in memory: its range lock, index, size and log.

use spanlock_sync::Arc;
use spanlock_sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::alloc::Extent;
use crate::compact::{EmitGroup, Live};
use crate::index::Index;
use crate::layout::PAGE_BYTES;
use crate::log::Log;
use crate::medium::Space;
use crate::record::WriteHeader;

/// The most pages in a group that a compaction writes.
const GROUP_PAGES: usize = 1 << 15;

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
        (index, size, log): (Index, u64, Log),
        checksums: bool,
        space: Arc<Space>,
    ) -> Self {
        Inode {
            number,
            generation,
            lock,
            index,
            size: AtomicU64::new(size),
            log,
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

    /// Raises the size to at least `end`. The caller holds the range that ends there.
    #[inline]
    pub(crate) fn grow(&self, end: u64) {
        // Relaxed: a check that saves the read-modify-write; the size never shrinks.
        if self.size.load(Ordering::Relaxed) < end {
            // Relaxed: see the type's documentation.
            self.size.fetch_max(end, Ordering::Relaxed);
        }
    }

    /// Marks the file as removed, once its removal is durable. Its pages and its number become free
    /// with the last reference.
    pub(crate) fn mark_removed(&self) {
        // Relaxed: see the type's documentation.
        self.removed.store(true, Ordering::Relaxed);
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
            let end = (self.file_page as u64 + pages as u64) * PAGE_BYTES;
            let header = WriteHeader {
                file_page: self.file_page,
                pages,
                extents: self.extents.len() as u32,
                end: end.min(size),
                checksums,
            };
            emit(header.record_bytes(), &|group| {
                header.put(group, self.extents.iter().copied());
                if checksums {
                    for checksum in &self.checksums {
                        group.put(&checksum.to_le_bytes());
                    }
                }
            });
        }
        self.file_page = file_page;
        self.extents.clear();
        self.checksums.clear();
    }
}

impl<L> Live for Inode<L> {
    fn each(&self, emit: &mut EmitGroup<'_>) -> u64 {
        let size = self.size();
        let mut run = Run::default();
        let mut pages = 0;
        self.index.for_each(&mut |file_page, mapping| {
            pages += 1;
            let next = run.file_page as u64 + run.checksums.len() as u64;
            if file_page as u64 != next || run.checksums.len() == GROUP_PAGES {
                run.emit(file_page, size, self.checksums, emit);
            }
            run.push(mapping.page, mapping.checksum);
        });
        run.emit(0, size, self.checksums, emit);
        pages
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
        self.index.for_each(&mut |_, mapping| {
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
        self.space.release_log_pages(&self.log.take_pages());
        self.space.release_inode(self.number);
    }
}
