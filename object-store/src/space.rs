//! A sparse address space with atomic batches: many vectors, all or nothing, without writing data
//! twice.
//!
//! # Properties
//! - **Sparse**: an address has no place until it is written, and reads as zeros. A trim takes the
//!   place away again; in a sparse file, it becomes a hole.
//! - **Atomic**: a batch of up to 128 vectors, writes, trims and relocations, happens as a whole or
//!   not at all, for readers and in a crash.
//! - **Durable**: a batch is durable when the call returns, and no reader sees it before it is.
//! - **Written once**: new data goes to free places, and one record of a log commits all the new
//!   addresses. One flush makes both durable, and threads share it.
//! - **Parallel**: requests for disjoint blocks wait for each other only to share a flush, at short
//!   mutexes, and while a ring is full, until a checkpoint has emptied it.
//! - **Bounded**: a checkpoint moves what the records say into a table, when a ring is half full.
//!   One thread makes it, after its own batch is durable, and other threads go on meanwhile.
//!   [`Space::checkpoint`] makes one at another time.
//!
//! `docs/format.md` shows the format, the steps of a commit and of a checkpoint, and what a crash
//! leaves at each.
//!
//! # Not guaranteed
//! - A partly written block is read, changed and written whole. Two threads that write different
//!   parts of a block wait for each other.
//! - If the file system is full, a write fails although the space has free places. Nothing is lost.
//! - Whether a batch that returned [`Error::Failed`] is there is known only after the next opening.

mod batch;
mod check;
mod commits;
mod error;
mod format;
mod free;
mod held;
mod map;
mod medium;
mod options;
mod recent;
mod recovery;
mod runs;

use std::fmt;
use std::ops::Range;

use spanlock_range_lock::{Access, RangeLockExt, RawRangeLockBatch};

pub use batch::Vector;
pub use check::Finding;
pub use error::Error;
pub use held::Held;
pub use medium::{Disk, Medium, Persistent};
pub use options::Options;

use batch::{Batch, blocks, check_count, check_range};
use recovery::Parts;
pub(crate) use runs::{Run, Runs};

/// The most vectors that a batch may have.
pub const MAX_VECTORS: usize = 128;

/// A sparse address space. See the [module](self).
///
/// The range lock `L` decides which requests wait for each other. It locks blocks, so its capacity
/// must be at least [`size`](Space::size) divided by [`block`](Space::block).
///
/// ```
/// use spanlock_interval_lock::IntervalLock;
/// use spanlock_journal_commit::storage::FileMode;
/// use spanlock_object_store::space::{Disk, Options, Space, Vector};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("space");
/// let file = Disk::create_file(&path, Some(64 << 20), FileMode::Buffered)?;
/// let space = Space::create(file, &Options::new(), IntervalLock::new())?;
/// // Two addresses, far apart, in one atomic step.
/// space.write_batch(&[Vector::write(0, b"here"), Vector::write(1 << 50, b"and there")])?;
/// space.trim(0..4096)?;
/// drop(space);
///
/// let file = Disk::open_file(&path, FileMode::Buffered)?;
/// let space = Space::open(file, IntervalLock::new())?;
/// let mut found = [1; 9];
/// space.read(1 << 50, &mut found)?;
/// assert_eq!(&found, b"and there");
/// space.read(0, &mut found)?;
/// assert_eq!(found, [0; 9]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Space<M: Medium, L> {
    parts: Parts<M>,
    lock: L,
    block: u32,
    /// Bytes of the address space.
    size: u64,
    places: u64,
    /// Where place 0 lies.
    first_place: u64,
    max_record: u64,
}

/// Counters of a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Commits so far, since the space was created. Interrupted ones may count.
    pub commits: u64,
    /// Checkpoints since the space was opened.
    pub checkpoints: u64,
    /// Blocks that the medium can hold.
    pub places: u64,
    /// Blocks of the medium that are free.
    pub free: u64,
}

impl<M: Medium, L: RawRangeLockBatch> Space<M, L> {
    /// Creates an empty space on a medium that has none. With [`Options::id`], the medium must be
    /// zero.
    ///
    /// If a crash interrupts this, the medium has no space, and another call can create one.
    ///
    /// # Errors
    /// [`Error::BadOption`], [`Error::Occupied`]; nothing was written. [`Error::Io`],
    /// [`Error::Ring`].
    pub fn create(medium: M, options: &Options, lock: L) -> Result<Self, Error> {
        let superblock = options.superblock(medium.len())?;
        Ok(Self::of(
            recovery::create(medium, superblock, options.id)?,
            lock,
        ))
    }

    /// Opens a space, with all batches that have returned, and none in part.
    ///
    /// # Errors
    /// [`Error::NotASpace`], [`Error::Version`], [`Error::Corrupt`], [`Error::Ring`],
    /// [`Error::Io`]. No acknowledged batch is lost, and opening can be repeated.
    pub fn open(medium: M, lock: L) -> Result<Self, Error> {
        Ok(Self::of(recovery::open(medium)?, lock))
    }

    fn of(parts: Parts<M>, lock: L) -> Self {
        let superblock = parts.commits.superblock();
        Space {
            parts,
            lock,
            block: superblock.block,
            size: superblock.size * u64::from(superblock.block),
            places: superblock.places,
            first_place: superblock.place_at(0),
            max_record: superblock.max_record(),
        }
    }

    /// Returns the size of a block in bytes.
    pub fn block(&self) -> u32 {
        self.block
    }

    /// Returns the size of the address space in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the medium.
    pub fn medium(&self) -> &M {
        &self.parts.medium
    }

    /// Fills `into` with the bytes at `at`. Bytes that were never written, or were trimmed, are
    /// zero. Waits while another thread writes to a block of the range.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Io`], [`Error::Lock`]. The content
    /// of `into` is then unspecified.
    pub fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Error> {
        let range = at..at.saturating_add(into.len() as u64);
        self.hold([(range, Access::Read)])?.read(at, into)
    }

    /// Writes, trims and relocates, all or nothing: durable when this returns. Waits until no other
    /// thread uses any of these blocks, for a flush that others may share, and for a checkpoint if
    /// a ring is full.
    ///
    /// # Errors
    /// [`Error::TooManyVectors`], [`Error::OutOfRange`], [`Error::Unaligned`], [`Error::Overlap`],
    /// [`Error::NoSpace`], [`Error::TooLong`], [`Error::Io`], [`Error::Lock`]: nothing has changed.
    /// [`Error::Failed`]: the next opening finds the whole batch or none of it.
    pub fn write_batch(&self, vectors: &[Vector<'_>]) -> Result<(), Error> {
        check_count(vectors)?;
        let batch = Batch::new(vectors, self.block, self.size)?;
        self.hold_blocks(batch.blocks().map(|it| (it, Access::Write)))?
            .commit(&batch)
    }

    /// Trims a range, which begins and ends at a block. It reads as zeros then, and takes no room.
    ///
    /// # Errors
    /// As for [`write_batch`](Self::write_batch).
    pub fn trim(&self, range: Range<u64>) -> Result<(), Error> {
        self.write_batch(&[Vector::trim(range)])
    }

    /// Holds the blocks of several ranges, for several reads and batches. Each block is held with
    /// the strongest access requested for it. Blocks until all of them can be held at once.
    ///
    /// A thread that holds something must not make another request of the space, except through the
    /// [`Held`]: it could wait for itself.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Lock`].
    pub fn hold(
        &self,
        ranges: impl IntoIterator<Item = (Range<u64>, Access)>,
    ) -> Result<Held<'_, M, L>, Error> {
        let mut held = Vec::new();
        for (range, access) in ranges {
            check_range(&range, self.size)?;
            if !range.is_empty() {
                held.push((blocks(&range, self.block.into()), access));
            }
        }
        self.hold_blocks(held)
    }

    fn hold_blocks(
        &self,
        blocks: impl IntoIterator<Item = (Range<u64>, Access)>,
    ) -> Result<Held<'_, M, L>, Error> {
        Ok(Held::new(self, self.lock.lock_all(blocks)?))
    }

    /// Makes a checkpoint: writes what the records say into the table, and empties the rings.
    /// Batches of other threads go on meanwhile. The space makes checkpoints when it needs them; a
    /// program that calls this regularly, in a thread of its own, rarely waits for one.
    ///
    /// # Errors
    /// [`Error::Io`]: nothing is lost. [`Error::Failed`].
    pub fn checkpoint(&self) -> Result<(), Error> {
        self.parts
            .commits
            .checkpoint_if(&self.parts.medium, || true)
    }

    /// Returns counters.
    pub fn stats(&self) -> Stats {
        let (commits, checkpoints) = self.parts.commits.counts();
        Stats {
            commits,
            checkpoints,
            places: self.places,
            free: self.parts.free.count(),
        }
    }
}

impl<M: Medium, L> fmt::Debug for Space<M, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Space")
            .field("block", &self.block)
            .field("size", &self.size)
            .field("places", &self.places)
            .finish_non_exhaustive()
    }
}
