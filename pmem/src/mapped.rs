//! A file as persistent memory: [`MappedFile`].
//!
//! # The problem
//!
//! A file mapped shared is memory that outlives the process. The file system determines which other
//! failures it outlives, and the mapping does not show that. Opening therefore asks the file system
//! (MAP_SYNC) and keeps the answer: [`MappedFile::durability`].
//!
//! | file system | asked with | a [`Durable`](crate::Durable) survives | because |
//! |---|---|---|---|
//! | DAX, MAP_SYNC granted, x86-64 | default | a power cut | (1) |
//! | any other | default | a killed process | the mapping is the kernel's page cache |
//! | on a disk | `msync(true)` | a power cut | the flush writes the page and waits (2) |
//! | tmpfs, ramfs | either | a killed process | there is no medium; msync has no effect |
//! | of an unknown kind (3) | either | a killed process | there may be no medium |
//!
//! (1) The mapping is the medium, and block metadata is written before a page becomes writable.
//!
//! (2) Outside Linux, the flush also syncs the file: see `platform.rs`.
//!
//! (3) All of a Unix other than Linux, Android, FreeBSD, macOS and iOS.
//!
//! In the second row the flush instructions do not affect survival: the stores of a killed process
//! are in the cache, and caches are coherent. They are issued nevertheless, so that a test costs
//! what it would cost on persistent memory.
//!
//! AArch64 is never in the first row: `dc cvac` is not known to reach a point of persistence.
//!
//! # Invariants
//!
//! PM-I1…PM-I5 belong to the contract, in `region.rs`; PM-I6 belongs to the mapping, in
//! `mapped/mapping.rs`.
//!
//! - **PM-I7** The mapping's length is above zero, a multiple of [`PAGE_BYTES`], at most
//!   `isize::MAX`, and at most the file's.
//! - **PM-I8** A flush instruction is kept only if this processor has it.
//! - **PM-I9** The file is locked from before its length is read until after the mapping is gone
//!   (`LockedFile`, dropped after the mapping): exclusively, or shared if it was opened read-only.
//! - **PM-I10** Once a write-back has failed, none succeeds: the failure is recorded before the
//!   next write-back begins.
//! - **PM-I11** No reference into the mapping ever exists. Bytes are copied through raw pointers,
//!   and words go through [`spanlock_sync::mapped`].
//! - **PM-I12** No store reaches a mapping that was opened read-only: every store checks
//!   `WriteBack::ReadOnly` first. The mapping is not writable, so a store would raise SIGSEGV.
//!
//! # Why write-backs take turns (PM-I10)
//!
//! Linux reports a failed write-back *once* for each open file, to the first `msync` that asks, and
//! marks the pages clean. A second thread, whose own page was lost, would then be told that its
//! flush succeeded. Write-backs therefore run one at a time, and a failure is recorded before the
//! next one begins. A write-back that reports success thus ended before anything had failed.
//!
//! # Not guaranteed
//!
//! This type does not exclude threads from each other. The contracts of [`Pmem::read`] and
//! [`Pmem::write`] require a lock for that.

mod access;
mod mapping;
mod opening;
mod options;
mod space;
#[cfg(test)]
mod tests;

use core::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use self::mapping::Mapping;
use self::opening::{Access, LockedFile, io_failed};
pub use self::options::{Durability, Options};
#[doc(hidden)]
pub use self::space::fill_holes;
#[cfg(test)]
pub(crate) use self::tests::note_synced;
use crate::error::PmemError;
use crate::flush::{self, FlushInstruction};
use crate::platform;
use crate::region::Pmem;
use crate::tokens::{Flushed, RegionId, Written};

/// The number of bytes in a page. A region's length is a multiple of it.
pub const PAGE_BYTES: u64 = 4096;

/// A file mapped as persistent memory.
///
/// The crate's documentation says what survives on which file system;
/// [`durability`](MappedFile::durability) says it for this file.
///
/// # Space
/// The whole file is allocated when it is created, opened to write, or grown, so that a store never
/// meets a full disk; a full disk is [`PmemError::NoSpace`]. Copy-on-write file systems (btrfs, or
/// any file that shares blocks with a clone or a snapshot) need new blocks even to overwrite. There
/// a full disk can still raise SIGBUS. On btrfs, mark the folder `chattr +C`.
///
/// # Other openers
/// The file is locked (`flock`) while mapped. Another `MappedFile` on it, in any process, gets
/// [`PmemError::InUse`], unless both were opened with
/// [`open_read_only`](MappedFile::open_read_only). The lock binds only programs that ask for it. If
/// another program truncates the file, the next access past its new end raises **SIGBUS**, which
/// ends the process. If another program writes to it, the bytes appear here.
///
/// # Bad blocks
/// An access to a block that the medium cannot read raises **SIGBUS**, too. Copy the file with a
/// tool that skips bad blocks, and open the copy.
///
/// # When writing back fails
/// Flush instructions cannot fail, but a disk can. With [`Options::msync`] a flush can therefore
/// fail, and the bytes it stood for may be lost for good: Linux marks pages that it failed to write
/// as clean, so a second attempt proves nothing. No token may result from such a flush:
///
/// - [`try_flush`](MappedFile::try_flush) returns [`PmemError::WriteBack`];
/// - [`Pmem::flush`] and [`Pmem::write_streaming`], which cannot return it, **panic**;
/// - both continue to do so on every thread, because the failure is sticky;
///   [`check`](MappedFile::check) returns it without another attempt. No later publication can rest
///   on the token of a failed flush.
///
/// It panics rather than aborts because unwinding breaks no promise: all existing tokens are true,
/// and no new ones can be created. Loads and reads still work, so a program can show its data. To
/// write again, drop the region, open it again and recover.
///
/// # Examples
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("counter");
/// use spanlock_pmem::{Durable, MappedFile, Options, Pmem};
///
/// let region = MappedFile::create(&path, 4096, Options::new())?;
/// let mark = region.publish(0, 7, Durable::at_rest());
/// region.persist(mark);
/// drop(region);
///
/// let region = MappedFile::open(&path, Options::new())?;
/// assert_eq!(region.load(0), 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct MappedFile {
    // Declared first and so dropped first: the lock outlives the mapping (PM-I9).
    mapping: Mapping,
    file: LockedFile,
    path: PathBuf,
    id: RegionId,
    write_back: WriteBack,
    durability: Durability,
    /// The first failure to write back (PM-I10). This is a std mutex even under a checker, because
    /// no checker models the medium.
    failure: Mutex<Option<Errno>>,
}

/// How a flush is done.
#[derive(Clone, Copy, Debug)]
enum WriteBack {
    /// PM-I8: an instruction that this processor has.
    Instruction(FlushInstruction),
    /// Page by page, through the kernel.
    Msync,
    /// Not at all: this crate knows no flush for this architecture, and the page cache determines
    /// what survives.
    PageCache,
    /// PM-I12: there are no stores to write back, because the mapping is read-only.
    ReadOnly,
}

impl MappedFile {
    /// Creates the file at `path`, of `len` bytes, all zero, and maps it.
    ///
    /// `len` must be a multiple of [`PAGE_BYTES`] above zero; it is not rounded. Returns once the
    /// file, its length and its name are written back.
    ///
    /// Blocks on the disk. The file gets its name last. A crash meanwhile leaves either all of it,
    /// or nothing at `path` and perhaps a file `path.spanlock-new`, which the next creation takes
    /// over.
    ///
    /// # Errors
    /// After an error, nothing is left at `path` that was not there before.
    /// - [`BadLength`](PmemError::BadLength), [`NoSuchInstruction`](PmemError::NoSuchInstruction):
    ///   nothing was tried.
    /// - [`AlreadyExists`](PmemError::AlreadyExists), [`NotAFile`](PmemError::NotAFile): the
    ///   existing file stays as it is.
    /// - [`NotFound`](PmemError::NotFound): the folder does not exist.
    /// - [`PermissionDenied`](PmemError::PermissionDenied).
    /// - [`NoSpace`](PmemError::NoSpace): of the disk, a quota, or the file system's limit on a
    ///   file.
    /// - [`InUse`](PmemError::InUse): another call is just creating this file.
    /// - [`Io`](PmemError::Io): any other error.
    pub fn create(path: impl AsRef<Path>, len: u64, options: Options) -> Result<Self, PmemError> {
        let path = path.as_ref();
        let mappable = opening::check_len(path, len)?;
        let write_back = WriteBack::choose(options)?;
        let new = opening::create_new(path)?;
        space::extend(new.file(), path, 0..len)?;
        let mapped = map(new.file(), path, mappable, write_back)?;
        let file = new.publish().map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => opening::open_failed(path, source),
            _ => io_failed(path, "writing back", source),
        })?;
        let file = LockedFile::new(file, path, Access::Write)?;
        Ok(Self::new(mapped, file, path, write_back))
    }

    /// Opens the file at `path` and maps all of it.
    ///
    /// Fills holes in the file, so that no later store meets a full disk. If
    /// [`durability`](MappedFile::durability) is `PowerFail`, it first writes back what the last
    /// process left unwritten, so that recovery reads only durable bytes
    /// ([`Durable::at_rest`](crate::Durable::at_rest)).
    ///
    /// Blocks on the disk.
    ///
    /// # Errors
    /// [`NotFound`](PmemError::NotFound), [`PermissionDenied`](PmemError::PermissionDenied),
    /// [`NotAFile`](PmemError::NotAFile), [`Empty`](PmemError::Empty),
    /// [`BadLength`](PmemError::BadLength) (not a multiple of [`PAGE_BYTES`]),
    /// [`InUse`](PmemError::InUse), [`NoSpace`](PmemError::NoSpace),
    /// [`NoSuchInstruction`](PmemError::NoSuchInstruction), [`WriteBack`](PmemError::WriteBack),
    /// [`Io`](PmemError::Io).
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self, PmemError> {
        let path = path.as_ref();
        let write_back = WriteBack::choose(options)?;
        let (file, len) = opening::open_existing(path, Access::Write)?;
        let mappable = opening::check_len(path, len)?;
        space::fill_holes(&file, path, len)?;
        let mapped = map(&file, path, mappable, write_back)?;
        let region = Self::new(mapped, file, path, write_back);
        if region.durability >= Durability::PowerFail {
            region.sync()?;
        }
        Ok(region)
    }

    /// Opens the file at `path` and maps all of it, to be read only.
    ///
    /// The file needs no write permission and may be on a read-only file system. Its bytes and its
    /// time of modification stay as they are, and its holes stay holes, which read as zeros even if
    /// the disk is full. A store to the region
    /// **panics** (see [`Pmem::is_read_only`]), and [`grow`](MappedFile::grow) returns an error.
    ///
    /// Any number of read-only openers share the file, in any process. Together they exclude
    /// writers, and a writer excludes them: [`InUse`](PmemError::InUse).
    ///
    /// Since nothing is written back, recent writes of the last process may not be on the medium
    /// yet: [`durability`](MappedFile::durability) is `ProcessKill`.
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("region");
    /// use spanlock_pmem::{MappedFile, Options, Pmem};
    ///
    /// drop(MappedFile::create(&path, 4096, Options::new())?);
    /// let region = MappedFile::open_read_only(&path)?;
    /// assert!(region.is_read_only());
    /// assert_eq!(region.load(0), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`NotFound`](PmemError::NotFound), [`PermissionDenied`](PmemError::PermissionDenied),
    /// [`NotAFile`](PmemError::NotAFile), [`Empty`](PmemError::Empty),
    /// [`BadLength`](PmemError::BadLength) (not a multiple of [`PAGE_BYTES`]),
    /// [`InUse`](PmemError::InUse), [`Io`](PmemError::Io).
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self, PmemError> {
        let path = path.as_ref();
        let (file, len) = opening::open_existing(path, Access::ReadOnly)?;
        let mappable = opening::check_len(path, len)?;
        let mapping = Mapping::read_only(&file, mappable);
        let mapping = mapping.map_err(|error| io_failed(path, "mapping", error.into()))?;
        let mapped = (mapping, Durability::ProcessKill);
        Ok(Self::new(mapped, file, path, WriteBack::ReadOnly))
    }

    /// Extends the file to `new_len` bytes, the new ones zero, and maps it again, perhaps at
    /// another address. Offsets and contents stay. Growing to the current length has no effect.
    ///
    /// Returns once the new length is written back. Blocks on the disk. It takes `&mut self`
    /// because no other thread may be inside.
    ///
    /// # Errors
    /// After an error the region is as it was. [`Shrink`](PmemError::Shrink),
    /// [`BadLength`](PmemError::BadLength), [`ReadOnly`](PmemError::ReadOnly),
    /// [`NoSpace`](PmemError::NoSpace), [`WriteBack`](PmemError::WriteBack) (sticky),
    /// [`Io`](PmemError::Io).
    pub fn grow(&mut self, new_len: u64) -> Result<(), PmemError> {
        let len = self.len();
        let mappable = opening::check_len(&self.path, new_len)?;
        if new_len < len {
            return Err(PmemError::Shrink {
                path: self.path.clone(),
                len,
                new_len,
            });
        }
        if new_len == len {
            return Ok(());
        }
        if self.is_read_only() {
            return Err(PmemError::ReadOnly {
                path: self.path.clone(),
            });
        }
        self.check()?;
        let grown = space::extend(&self.file, &self.path, len..new_len)
            .and_then(|()| self.write_back_with(|| sync_all(&self.file)))
            .and_then(|()| {
                let mapped = self.mapping.grow(&self.file, mappable);
                mapped.map_err(|error| io_failed(&self.path, "mapping", error.into()))
            });
        if grown.is_err() {
            // A file that stays too long only wastes space (PM-I7).
            let _ = self.file.set_len(len);
        }
        grown
    }

    /// Writes the whole region back to the disk and waits, whatever
    /// [`durability`](MappedFile::durability) is. It is a checkpoint against power cuts for a
    /// region that otherwise survives only a killed process. A region that was opened read-only has
    /// nothing to write back.
    ///
    /// It covers the writes of this thread, and of threads that synchronized with it. Concurrent
    /// writes of other threads may or may not be included.
    ///
    /// # Errors
    /// [`WriteBack`](PmemError::WriteBack), sticky: a second attempt after a failure proves
    /// nothing.
    pub fn sync(&self) -> Result<(), PmemError> {
        if self.is_read_only() {
            return Ok(());
        }
        // Include this thread's non-temporal stores that are under way.
        flush::fence();
        self.write_back_with(|| self.mapping.sync(&self.file, 0..self.mapping.len()))
    }

    /// Does what [`Pmem::flush`] does, and returns the error as a value. Never fails without
    /// [`Options::msync`].
    ///
    /// # Errors
    /// [`WriteBack`](PmemError::WriteBack), sticky.
    ///
    /// # Panics
    /// If another region made `written`.
    #[inline]
    #[track_caller]
    pub fn try_flush(&self, written: Written) -> Result<Flushed, PmemError> {
        let range = written.into_range(self.id);
        // PM-I1: the range is inside the region, and regions never shrink; it fits, by PM-I7.
        let range = range.start as usize..range.end as usize;
        match self.write_back {
            WriteBack::Instruction(instruction) => {
                let base = self.mapping.base();
                // SAFETY: the range is mapped, by PM-I1 and PM-I6; the processor has the
                // instruction, by PM-I8.
                unsafe { instruction.flush(base.add(range.start)..base.add(range.end)) };
            }
            WriteBack::Msync if range.is_empty() => {}
            WriteBack::Msync => self.write_back_with(|| self.mapping.sync(&self.file, range))?,
            WriteBack::PageCache | WriteBack::ReadOnly => {}
        }
        // SAFETY: PM-I2: this thread has just begun, or ended, the write-back of every line. With
        // `PageCache` there is none, and `durability` claims no more than the page cache keeps.
        // With `ReadOnly` there are no stores.
        Ok(unsafe { Flushed::new() })
    }

    /// Returns an error if a write-back has failed. Blocks no longer than the write-back in
    /// progress.
    ///
    /// # Errors
    /// [`WriteBack`](PmemError::WriteBack): the first failure. It is never forgotten.
    pub fn check(&self) -> Result<(), PmemError> {
        match *self.failure() {
            None => Ok(()),
            Some(errno) => Err(self.write_back_failed(errno)),
        }
    }

    /// Returns what the bytes of a [`Durable`](crate::Durable) token survive in this file.
    #[inline]
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// Returns the instruction that flushes use. `None` with [`Options::msync`], on architectures
    /// where this crate knows none, and if the region was opened read-only.
    #[inline]
    pub fn flush_instruction(&self) -> Option<FlushInstruction> {
        match self.write_back {
            WriteBack::Instruction(instruction) => Some(instruction),
            WriteBack::Msync | WriteBack::PageCache | WriteBack::ReadOnly => None,
        }
    }

    /// Returns the path by which the file was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn new(
        (mapping, durability): (Mapping, Durability),
        file: LockedFile,
        path: &Path,
        write_back: WriteBack,
    ) -> Self {
        Self {
            mapping,
            file,
            path: path.to_owned(),
            id: RegionId::new(),
            write_back,
            durability,
            failure: Mutex::new(None),
        }
    }

    /// Performs one write-back at a time, unless an earlier one has failed (PM-I10).
    fn write_back_with(
        &self,
        write_back: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<(), PmemError> {
        let mut failure = self.failure();
        if failure.is_none() {
            *failure = write_back().err();
        }
        match *failure {
            None => Ok(()),
            Some(errno) => Err(self.write_back_failed(errno)),
        }
    }

    fn failure(&self) -> MutexGuard<'_, Option<Errno>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cold]
    fn write_back_failed(&self, errno: Errno) -> PmemError {
        PmemError::WriteBack {
            path: self.path.clone(),
            source: io::Error::from(errno),
        }
    }
}

impl WriteBack {
    fn choose(options: Options) -> Result<Self, PmemError> {
        if let Some(asked) = options.instruction
            && !asked.is_available()
        {
            let available = FlushInstruction::available();
            return Err(PmemError::NoSuchInstruction { asked, available });
        }
        if options.msync {
            return Ok(Self::Msync);
        }
        let instruction = options.instruction.or_else(FlushInstruction::detect);
        Ok(instruction.map_or(Self::PageCache, Self::Instruction))
    }
}

/// Maps the first `len` bytes of `file`, and determines what survives there.
fn map(
    file: &File,
    path: &Path,
    len: usize,
    write_back: WriteBack,
) -> Result<(Mapping, Durability), PmemError> {
    // Ask only if flush instructions are used, and reach the point to which MAP_SYNC's promise
    // refers.
    let ask = cfg!(target_arch = "x86_64") && matches!(write_back, WriteBack::Instruction(_));
    let (mapping, map_sync) =
        Mapping::new(file, len, ask).map_err(|error| io_failed(path, "mapping", error.into()))?;
    let in_memory = platform::is_in_memory(file)
        .map_err(|error| io_failed(path, "asking for its file system", error.into()))?;
    let on_medium = map_sync || matches!(write_back, WriteBack::Msync);
    if on_medium && !in_memory {
        Ok((mapping, Durability::PowerFail))
    } else {
        Ok((mapping, Durability::ProcessKill))
    }
}

/// Writes the file back, with its length.
fn sync_all(file: &File) -> Result<(), Errno> {
    let synced = file.sync_all();
    synced.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

impl fmt::Debug for MappedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MappedFile")
            .field("path", &self.path)
            .field("len", &self.len())
            .field("durability", &self.durability)
            .field("write_back", &self.write_back)
            .finish_non_exhaustive()
    }
}
