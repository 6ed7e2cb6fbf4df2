//! A file as persistent memory: [`MappedFile`].
//!
//! # The problem
//!
//! A file mapped shared is memory that outlives the process. How much it outlives is the file
//! system's choice, and a program cannot see it in the mapping. So the file is asked (MAP_SYNC),
//! and answers are kept: [`MappedFile::durability`].
//!
//! | file system | asked with | a [`Durable`](crate::Durable) survives | because |
//! |---|---|---|---|
//! | DAX, MAP_SYNC granted, x86-64 | default | a power cut | the mapping is the medium; block metadata is written before a page becomes writable |
//! | any other | default | a killed process | the mapping is the page cache, which is the kernel's |
//! | on a disk | `msync(true)` | a power cut | the page is written, and waited for, within the flush |
//! | tmpfs, ramfs | either | a killed process | there is no medium; msync succeeds and means nothing |
//!
//! In the second row the flush instructions are issued and change nothing about survival: a killed
//! process's stores are in the cache, and caches are coherent. They are issued all the same, so
//! that a program costs in a test what it costs on the medium.
//!
//! AArch64 is never in the first row: `dc cvac` is not known to reach a point of persistence.
//!
//! # Invariants
//!
//! I1…I5 are the contract's, in `region.rs`; I6 is the mapping's, in `mapped/mapping.rs`.
//!
//! - **I7** The mapping's length is above zero, a multiple of [`PAGE_BYTES`], at most `isize::MAX`,
//!   and at most the file's.
//! - **I8** A flush instruction is kept only if this processor has it.
//! - **I9** The file is locked exclusively from before its length is read until after the mapping
//!   is gone (`LockedFile`, dropped after the mapping).
//! - **I10** Once a write-back has failed none succeeds: the failure is recorded before the next
//!   write-back begins.
//! - **I11** No reference into the mapping exists, ever: bytes are copied through raw pointers,
//!   words go through [`spanlock_sync::mapped`].
//!
//! # Why write-backs take turns (I10)
//!
//! Linux reports a failed write-back *once* for each open file, to whichever `msync` asks first,
//! and marks the pages clean. A second thread, whose own page was the one lost, would then be told
//! that all is well. One write-back at a time, the failure recorded before the next begins: then
//! whoever is told "well" was told before anything had failed.
//!
//! # What is not promised
//!
//! Threads are not kept apart here; the contracts of [`Pmem::read`] and [`Pmem::write`] ask that of
//! a lock.

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
use self::opening::{LockedFile, io_failed};
pub use self::options::{Durability, Options};
use crate::error::PmemError;
use crate::flush::{self, FlushInstruction};
use crate::region::Pmem;
use crate::tokens::{Flushed, RegionId, Written};

/// Bytes in a page: the length of a region is a multiple of it.
pub const PAGE_BYTES: u64 = 4096;

/// A file mapped as persistent memory.
///
/// The crate's documentation says what survives on which file system;
/// [`durability`](MappedFile::durability) says it of this file.
///
/// # Space
/// All of the file is allocated when it is created, opened or grown, so that a store never meets a
/// full disk; a full disk is [`PmemError::NoSpace`]. Copy-on-write file systems (btrfs, or any file
/// that shares blocks with a clone or a snapshot) need new blocks even to overwrite: there a full
/// disk can still raise SIGBUS. On btrfs, mark the folder `chattr +C`.
///
/// # Other openers
/// The file is locked (`flock`) while mapped: another `MappedFile` on it, in any process, is
/// [`PmemError::InUse`]. The lock binds only those who ask for it. If someone else truncates the
/// file, the next access past its new end raises **SIGBUS**, which ends the process; if someone
/// else writes to it, their bytes appear here.
///
/// # When writing back fails
/// Flush instructions cannot fail. A disk can, so with [`Options::msync`] a flush can, and the
/// bytes it stood for may be lost for good: Linux marks pages that it failed to write as clean, so
/// trying again proves nothing. A token must not come out of that:
///
/// - [`try_flush`](MappedFile::try_flush) returns [`PmemError::WriteBack`];
/// - [`Pmem::flush`] and [`Pmem::write_streaming`], which have no way to return it, **panic**;
/// - both go on doing so, on every thread: the failure is sticky ([`check`](MappedFile::check)
///   tells it without trying). Nothing that is published afterwards can rest upon a token of a
///   flush that failed.
///
/// A panic and not an abort, since no promise is broken by unwinding: tokens already given are
/// true, and no new one can be had. Loads and reads go on, so that a program may still show what it
/// has; to go on writing it drops the region, opens it anew and recovers.
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
    // Declared first, so dropped first: the lock outlasts the mapping (I9).
    mapping: Mapping,
    file: LockedFile,
    path: PathBuf,
    id: RegionId,
    write_back: WriteBack,
    durability: Durability,
    /// The first failure to write back (I10). A plain lock in every world: the medium is no
    /// checker's object.
    failure: Mutex<Option<Errno>>,
}

/// How a flush is done.
#[derive(Clone, Copy, Debug)]
enum WriteBack {
    /// I8: one that this processor has.
    Instruction(FlushInstruction),
    /// Page by page, through the kernel.
    Msync,
    /// Not at all: this architecture has no flush we know, and what survives is what the page cache
    /// keeps.
    PageCache,
}

impl MappedFile {
    /// Creates the file at `path`, of `len` bytes, all zero, and maps it.
    ///
    /// `len` is a multiple of [`PAGE_BYTES`] above zero; it is not rounded. Returns once the file,
    /// its length and its name are written back.
    ///
    /// Blocks on the disk. A process killed meanwhile can leave an empty, short or zero-filled
    /// file.
    ///
    /// # Errors
    /// After an error, nothing is left at `path` that was not there before.
    /// - [`BadLength`](PmemError::BadLength), [`NoSuchInstruction`](PmemError::NoSuchInstruction):
    ///   nothing was tried.
    /// - [`AlreadyExists`](PmemError::AlreadyExists), [`NotAFile`](PmemError::NotAFile): what is
    ///   there stays as it is.
    /// - [`NotFound`](PmemError::NotFound): the folder;
    ///   [`PermissionDenied`](PmemError::PermissionDenied).
    /// - [`NoSpace`](PmemError::NoSpace): the disk, a quota, or the file system's limit on a file.
    /// - [`InUse`](PmemError::InUse): another opener took the new file before it was locked.
    /// - [`Io`](PmemError::Io): anything else.
    pub fn create(path: impl AsRef<Path>, len: u64, options: Options) -> Result<Self, PmemError> {
        let path = path.as_ref();
        let mappable = opening::check_len(path, len)?;
        let write_back = WriteBack::choose(options)?;
        let file = opening::create_new(path)?;
        let mapped = fill(&file, path, len).and_then(|()| map(&file, path, mappable, write_back));
        if mapped.is_err() {
            // While it is locked, so that nobody opens it meanwhile.
            opening::remove(path);
        }
        Ok(Self::new(mapped?, file, path, write_back))
    }

    /// Opens and maps the file at `path`, whole.
    ///
    /// Fills holes, if the file has any, so that no later store meets a full disk. Where
    /// [`durability`](MappedFile::durability) is `PowerFail`, it first writes back what the last
    /// process left unwritten, so that recovery builds on durable ground
    /// ([`Durable::at_rest`](crate::Durable::at_rest)).
    ///
    /// Blocks on the disk.
    ///
    /// # Errors
    /// [`NotFound`](PmemError::NotFound), [`PermissionDenied`](PmemError::PermissionDenied),
    /// [`NotAFile`](PmemError::NotAFile), [`Empty`](PmemError::Empty),
    /// [`BadLength`](PmemError::BadLength) (no multiple of [`PAGE_BYTES`]),
    /// [`InUse`](PmemError::InUse), [`NoSpace`](PmemError::NoSpace),
    /// [`NoSuchInstruction`](PmemError::NoSuchInstruction), [`WriteBack`](PmemError::WriteBack),
    /// [`Io`](PmemError::Io).
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self, PmemError> {
        let path = path.as_ref();
        let write_back = WriteBack::choose(options)?;
        let (file, len) = opening::open_existing(path)?;
        let mappable = opening::check_len(path, len)?;
        space::fill_holes(&file, path, len)?;
        let mapped = map(&file, path, mappable, write_back)?;
        let region = Self::new(mapped, file, path, write_back);
        if region.durability >= Durability::PowerFail {
            region.sync()?;
        }
        Ok(region)
    }

    /// Extends the file to `new_len` bytes, the new ones zero, and maps it again, perhaps at
    /// another address. Offsets and contents stay. To grow to the present length does nothing.
    ///
    /// Returns once the new length is written back. Blocks on the disk. `&mut` because no other
    /// thread may be inside.
    ///
    /// # Errors
    /// After an error the region is as it was. [`Shrink`](PmemError::Shrink),
    /// [`BadLength`](PmemError::BadLength), [`NoSpace`](PmemError::NoSpace),
    /// [`WriteBack`](PmemError::WriteBack) (sticky), [`Io`](PmemError::Io).
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
        self.check()?;
        let grown = space::extend(&self.file, &self.path, len..new_len)
            .and_then(|()| self.write_back_with(|| rustix::fs::fsync(&*self.file)))
            .and_then(|()| {
                let mapped = self.mapping.grow(mappable);
                mapped.map_err(|error| io_failed(&self.path, "mapping", error.into()))
            });
        if grown.is_err() {
            // A file that stays too long does no harm (I7): only its space is missed.
            let _ = self.file.set_len(len);
        }
        grown
    }

    /// Writes the whole region back to the disk and waits, whatever
    /// [`durability`](MappedFile::durability) is: a checkpoint against power cuts for a region that
    /// otherwise survives a killed process. It covers what this thread, or one that synchronised
    /// with it, has written; writes of others meanwhile may be in it or not.
    ///
    /// # Errors
    /// [`WriteBack`](PmemError::WriteBack), sticky: a second try after a failure proves nothing.
    pub fn sync(&self) -> Result<(), PmemError> {
        // Non-temporal stores of this thread, if any are under way, are to be part of it.
        flush::fence();
        self.write_back_with(|| self.mapping.sync(0..self.mapping.len()))
    }

    /// As [`Pmem::flush`], with the error as a value. Without [`Options::msync`] it never fails.
    ///
    /// # Errors
    /// [`WriteBack`](PmemError::WriteBack), sticky.
    ///
    /// # Panics
    /// When `written` was made by another region.
    #[inline]
    #[track_caller]
    pub fn try_flush(&self, written: Written) -> Result<Flushed, PmemError> {
        let range = written.into_range(self.id);
        // I1: the range is inside the region, and regions never shrink; it fits, by I7.
        let range = range.start as usize..range.end as usize;
        match self.write_back {
            WriteBack::Instruction(instruction) => {
                let base = self.mapping.base();
                // SAFETY: the range is mapped, by I1 and I6; the processor has the instruction, by
                // I8.
                unsafe { instruction.flush(base.add(range.start)..base.add(range.end)) };
            }
            WriteBack::Msync if range.is_empty() => {}
            WriteBack::Msync => self.write_back_with(|| self.mapping.sync(range))?,
            WriteBack::PageCache => {}
        }
        // SAFETY: I2: every line's write-back has begun just now, on this thread; or has ended.
        Ok(unsafe { Flushed::new() })
    }

    /// Whether every write-back so far has succeeded. Does not block beyond the write-back in
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

    /// What a [`Durable`](crate::Durable) token's bytes survive in this file.
    #[inline]
    pub fn durability(&self) -> Durability {
        self.durability
    }

    /// The instruction that flushes use. `None` with [`Options::msync`], and on architectures where
    /// this crate knows none.
    #[inline]
    pub fn flush_instruction(&self) -> Option<FlushInstruction> {
        match self.write_back {
            WriteBack::Instruction(instruction) => Some(instruction),
            WriteBack::Msync | WriteBack::PageCache => None,
        }
    }

    /// The path it was opened by.
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

    /// One write-back, alone, unless one has failed before (I10).
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

/// Makes `len` bytes of a new, empty file, and writes back its length and its name.
fn fill(file: &File, path: &Path, len: u64) -> Result<(), PmemError> {
    space::extend(file, path, 0..len)?;
    file.sync_all()
        .map_err(|error| io_failed(path, "writing back", error))?;
    opening::sync_folder(path)
}

/// Maps the first `len` bytes of `file`, and finds out what survives there.
fn map(
    file: &File,
    path: &Path,
    len: usize,
    write_back: WriteBack,
) -> Result<(Mapping, Durability), PmemError> {
    // Asked for only where flushes reach the point that MAP_SYNC's promise speaks of, and where
    // they are what is used.
    let ask = cfg!(target_arch = "x86_64") && matches!(write_back, WriteBack::Instruction(_));
    let (mapping, map_sync) =
        Mapping::new(file, len, ask).map_err(|error| io_failed(path, "mapping", error.into()))?;
    let in_memory = space::is_in_memory(file)
        .map_err(|error| io_failed(path, "asking for its file system", error.into()))?;
    let on_medium = map_sync || matches!(write_back, WriteBack::Msync);
    if on_medium && !in_memory {
        Ok((mapping, Durability::PowerFail))
    } else {
        Ok((mapping, Durability::ProcessKill))
    }
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
