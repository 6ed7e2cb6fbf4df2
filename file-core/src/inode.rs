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

/// A compaction makes groups of at most this many pages.
const GROUP_PAGES: usize = 1 << 15;

/// A file, as long as the directory or a handle refers to it.
///
/// # Orderings
///
/// | letter | where | pairs with | carries |
/// |---|---|---|---|
/// | S | [`Inode::grow`]: maximum, Release | T | that the grower holds, or has held, its range |
/// | T | [`Inode::size`], Acquire | S | |
///
/// S and T make a size that somebody saw a promise: whoever then locks the bytes below it comes after the
/// writer that made it so large, and reads what it wrote. No model covers this pair yet: the file core is
/// tested, not modelled.
///
/// `removed` is Relaxed: it is set under the directory's mutex by a thread that holds a reference,
/// and read by `drop`, which comes after the release of every reference.
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
    /// A file with this content; `checksums` says whether its write records carry data checksums.
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

    /// The size in bytes.
    #[inline]
    pub(crate) fn size(&self) -> u64 {
        // Acquire [T←S]: the hold of who wrote up to here.
        self.size.load(Ordering::Acquire)
    }

    /// The size is at least `end`. Called with the range that ends there held.
    #[inline]
    pub(crate) fn grow(&self, end: u64) {
        // Relaxed: a look that saves the read-modify-write. The size never shrinks.
        if self.size.load(Ordering::Relaxed) < end {
            // Release [S→T]: the hold of who calls.
            self.size.fetch_max(end, Ordering::Release);
        }
    }

    /// The file is in no directory any more, durably: its pages and its number become free with the
    /// last reference.
    pub(crate) fn mark_removed(&self) {
        // Relaxed: see the type.
        self.removed.store(true, Ordering::Relaxed);
    }
}

/// A run of mapped pages, on its way into one group.
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

    /// Emits the run, if there is one, and starts the next at `file_page`.
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
        // Relaxed: see the type.
        if !self.removed.load(Ordering::Relaxed) {
            return;
        }
        // M7: the removal is durable, and nobody else refers to this file.
        let mut run = Extent { start: 0, len: 0 };
        self.index.for_each(&mut |_, mapping| {
            if run.len > 0 && run.start + run.len == mapping.page {
                run.len += 1;
                return;
            }
            if run.len > 0 {
                self.space.alloc.give(run);
            }
            run = Extent {
                start: mapping.page,
                len: 1,
            };
        });
        if run.len > 0 {
            self.space.alloc.give(run);
        }
        self.space.give_log_pages(&self.log.take_pages());
        self.space.give_inode(self.number);
    }
}
