//! A file or a block device as a storage.
//!
//! # Why flushes take turns
//! Linux reports a failed write-back *once* for each open file, to the first call that asks, and
//! marks the pages clean. If another thread's data was lost too, that thread's flush would succeed
//! nevertheless. Flushes and durable writes of one file therefore run one at a time, and a failure
//! is recorded before the next operation begins. If a flush succeeds, no flush or durable write had
//! failed before it ended.
//!
//! # Why block devices are opened with `O_EXCL`
//! Linux lets any privileged program write to the block device of a mounted file system, whose
//! pages in memory then contradict the medium. A file lock does not help: file systems take none.
//! With `O_EXCL`, opening fails while the device is mounted or has another exclusive user, as in
//! e2fsck; and while this storage is open, mounting fails.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(any(test, not(target_os = "linux")))]
mod other;
#[cfg(all(test, not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))))]
mod tests;

use std::fmt;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Seek, SeekFrom};
use std::path::Path;

#[cfg(unix)]
use spanlock_pmem::PmemError;
use spanlock_pmem::{NewFile, platform};
use spanlock_sync::Mutex;

use super::{Storage, check_bounds};
#[cfg(target_os = "linux")]
use linux as system;
#[cfg(not(target_os = "linux"))]
use other as system;

/// The offset and the length of a direct write are multiples of this, or of the device's sector if
/// that is larger.
const SECTOR: usize = 512;
/// The alignment of direct transfers in memory, and of direct reads in the file. Devices with
/// larger sectors are not supported.
const ALIGN: usize = 4096;
/// The number of bytes zeroed at a time when a file is created.
const ZEROS: usize = 1 << 20;

/// How a file is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileMode {
    /// Through the page cache; `flush` is `fdatasync`, or what other
    /// [platforms](FileStorage#platforms) have instead.
    #[default]
    Buffered,
    /// Linux only. Past the page cache (`O_DIRECT`); `flush` is `fdatasync`. Offsets and lengths of
    /// writes must be multiples of 512 and of the device's sector, so choose blocks no smaller than
    /// the sector.
    Direct,
    /// Linux only. Past the page cache and durable at once (`O_DIRECT | O_DSYNC`), so `flush` does
    /// nothing. Offsets and lengths as for [`Direct`](Self::Direct).
    Dsync,
}

impl FileMode {
    /// Checks that the system has this mode. All have [`Buffered`](Self::Buffered).
    fn check(self, is_linux: bool) -> io::Result<()> {
        match self {
            FileMode::Direct | FileMode::Dsync if !is_linux => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                format!("{self:?} needs Linux: use FileMode::Buffered on this system"),
            )),
            _ => Ok(()),
        }
    }
}

/// A file or a block device as a [`Storage`].
///
/// Creating a file allocates and zeroes its blocks, and opening it fills its holes. A later write
/// therefore cannot fail because the disk is full, and a flush of a file that was not copied has no
/// metadata to write. There are three exceptions. File systems that never write in place (btrfs,
/// ZFS, bcachefs) allocate for each write, which fails if the disk is full. Where the file system
/// does not support `fallocate`, opening leaves the holes. So does
/// [`open_sparse`](Self::open_sparse) everywhere.
///
/// While the file is open, it is locked exclusively (`flock`). A second opener gets an error if it
/// locks the file too. A block device is also claimed (`O_EXCL`), so a device that is mounted, or
/// that another program has claimed, is refused, and no program can mount it meanwhile. A file
/// that is mounted through a loop device is not recognized: open the loop device instead.
///
/// # Platforms
/// Our tests run on Linux only; the code for the others is compiled.
///
/// | | Linux | Apple | other Unix | Windows |
/// |---|---|---|---|---|
/// | `flush` | `fdatasync` | `F_FULLFSYNC` | `fdatasync` or `fsync` | `FlushFileBuffers` |
/// | `write_fua` | `RWF_DSYNC` | write, flush | write, flush | write, flush |
/// | `Direct`, `Dsync` | yes | error | error | error |
/// | block devices | yes | error | error | error |
/// | opening fills holes | yes | if they can be found | if they can be found | no |
/// | a second opener | error, if it locks | error, if it locks | error, if it locks | error |
/// | a new file's name after a power cut | durable | durable | durable | not known |
///
/// The errors are [`Unsupported`](io::ErrorKind::Unsupported) for a mode, and
/// [`InvalidInput`](io::ErrorKind::InvalidInput) for a device. Each comes before the file is
/// touched. `F_FULLFSYNC` empties the device's cache, and `fsync` does not do so there; a file
/// system that has no such call refuses the creation. On other Unix systems, it is up to the file
/// system whether a flush empties the device's cache: ZFS does, FreeBSD's UFS does not. Windows has
/// no call that makes a name durable: the file system does it in its own time.
///
/// # When write-back fails
/// The first failure of a flush or a durable write is final: all later flushes and durable writes
/// return the same error until the file is reopened. Linux marks pages that it failed to write as
/// clean, so a second attempt would prove nothing. [`FileMode::Dsync`] bypasses the page cache, and
/// each of its writes reports its own failure.
pub struct FileStorage {
    file: File,
    len: u64,
    mode: FileMode,
    /// The first failure of a write-back.
    failure: Mutex<Option<(io::ErrorKind, String)>>,
}

impl FileStorage {
    /// Creates a file of `len` bytes, zeroed on the medium. Fails if `path` exists or if the disk
    /// has no room. A failed call leaves no new file behind. The file gets its name last: a crash
    /// leaves either all of it, or nothing at `path` and perhaps a file `path.spanlock-new`, which
    /// the next creation takes over.
    pub fn create(path: impl AsRef<Path>, len: u64, mode: FileMode) -> io::Result<Self> {
        let path = path.as_ref();
        Self::made(path, len, mode).map_err(|error| at(path, error))
    }

    fn made(path: &Path, len: u64, mode: FileMode) -> io::Result<Self> {
        mode.check(cfg!(target_os = "linux"))?;
        let new = NewFile::begin(path, system::flags(mode))?;
        zero(&new, len, mode)?;
        Self::new(new.publish()?, len, mode)
    }

    /// Opens an existing file or block device. Uses the length that it has now. Allocates blocks
    /// for the holes of a file that was copied sparsely; its contents stay. Thus the file takes its
    /// full length on the disk: for the image of a file system, see
    /// [`open_sparse`](Self::open_sparse).
    ///
    /// # Errors
    /// [`ResourceBusy`](io::ErrorKind::ResourceBusy) if the file has another opener, or if the
    /// block device is mounted or has another exclusive user;
    /// [`StorageFull`](io::ErrorKind::StorageFull) if the disk has no room for the holes; and any
    /// error of the system.
    pub fn open(path: impl AsRef<Path>, mode: FileMode) -> io::Result<Self> {
        let path = path.as_ref();
        let storage = Self::open_sparse(path, mode)?;
        system::fill_holes(&storage.file, path, storage.len).map_err(|error| at(path, error))?;
        Ok(storage)
    }

    /// Opens an existing file or block device as [`open`](Self::open) does, but leaves the holes of
    /// a file. This is for a large sparse file where a journal's blocks have their home, for
    /// example the image of a file system, and not for a log.
    ///
    /// A write into a hole, or the next flush, can fail with
    /// [`StorageFull`](io::ErrorKind::StorageFull). That poisons a journal that writes blocks home,
    /// or whose own blocks in the image are holes. Every acknowledged change is still in the log,
    /// so nothing is lost: free some room on the disk, and open the journal again.
    ///
    /// # Errors
    /// As for [`open`](Self::open), except that no room is needed.
    pub fn open_sparse(path: impl AsRef<Path>, mode: FileMode) -> io::Result<Self> {
        let path = path.as_ref();
        Self::opened(path, mode).map_err(|error| at(path, error))
    }

    fn opened(path: &Path, mode: FileMode) -> io::Result<Self> {
        mode.check(cfg!(target_os = "linux"))?;
        let mut options = OpenOptions::new();
        platform::alone(options.read(true).write(true));
        let mut file = system::open(&mut options, path, mode).map_err(|error| {
            match platform::is_in_use(&error) {
                true => in_use(),
                false => error,
            }
        })?;
        platform::try_lock(&file).map_err(|error| match error {
            TryLockError::WouldBlock => in_use(),
            TryLockError::Error(error) => error,
        })?;
        let len = file.seek(SeekFrom::End(0))?;
        Self::new(file, len, mode)
    }

    fn new(file: File, len: u64, mode: FileMode) -> io::Result<Self> {
        Ok(FileStorage {
            file,
            len,
            mode,
            failure: Mutex::new(None),
        })
    }

    /// Runs one write-back at a time, unless an earlier one has failed.
    fn alone(&self, write_back: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut failure = self.failure.lock();
        if let Some((kind, text)) = &*failure {
            return Err(io::Error::new(*kind, format!("an earlier failure: {text}")));
        }
        write_back().inspect_err(|error| *failure = Some((error.kind(), error.to_string())))
    }

    /// Reads from the file's offset `first` until the first `end` bytes of `aligned` are filled.
    /// The rest of `aligned` may lie beyond the end of the file.
    fn read_up_to(&self, aligned: &mut [u8], first: u64, end: usize) -> io::Result<()> {
        let mut done = 0;
        while done < end {
            match platform::read_at(&self.file, &mut aligned[done..], first + done as u64) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => done += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Calls `write` with the data. If the mode needs aligned memory and `data` is not aligned,
    /// copies it into aligned memory first.
    fn placed(
        &self,
        data: &[u8],
        offset: u64,
        write: impl FnOnce(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        check_bounds(offset, data.len(), self.len)?;
        if self.mode == FileMode::Buffered {
            return write(data);
        }
        if !is_aligned(data.len(), offset) {
            return Err(unaligned(data.len(), offset));
        }
        if data.as_ptr().addr().is_multiple_of(ALIGN) {
            return write(data);
        }
        let mut aligned = Aligned::new(data.len());
        aligned.bytes().copy_from_slice(data);
        write(aligned.bytes())
    }
}

impl Storage for FileStorage {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        check_bounds(offset, buf.len(), self.len)?;
        if self.mode == FileMode::Buffered {
            return platform::read_exact_at(&self.file, buf, offset);
        }
        let first = offset - offset % ALIGN as u64;
        let skip = (offset - first) as usize;
        let end = skip + buf.len();
        let mut aligned = Aligned::new(end.next_multiple_of(ALIGN));
        self.read_up_to(aligned.bytes(), first, end)?;
        buf.copy_from_slice(&aligned.bytes()[skip..end]);
        Ok(())
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.placed(data, offset, |data| {
            platform::write_all_at(&self.file, data, offset)
        })
    }

    fn flush(&self) -> io::Result<()> {
        match self.mode {
            FileMode::Buffered | FileMode::Direct => self.alone(|| self.file.sync_data()),
            FileMode::Dsync => Ok(()),
        }
    }

    fn write_fua(&self, data: &[u8], offset: u64) -> io::Result<()> {
        if self.mode == FileMode::Dsync {
            return self.write_at(data, offset);
        }
        self.placed(data, offset, |data| {
            self.alone(|| system::write_durably(&self.file, data, offset))
        })
    }
}

impl fmt::Debug for FileStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileStorage")
            .field("len", &self.len)
            .field("mode", &self.mode)
            .finish_non_exhaustive()
    }
}

impl Drop for FileStorage {
    fn drop(&mut self) {
        platform::unlock(&self.file);
    }
}

/// Memory for direct transfers.
struct Aligned {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    fn new(len: usize) -> Self {
        let memory = vec![0; len + ALIGN];
        let start = memory.as_ptr().addr().next_multiple_of(ALIGN) - memory.as_ptr().addr();
        Aligned { memory, start, len }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

fn is_aligned(len: usize, offset: u64) -> bool {
    len.is_multiple_of(SECTOR) && offset.is_multiple_of(SECTOR as u64)
}

fn unaligned(len: usize, offset: u64) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!("a direct write of {len} bytes at {offset}: both must be multiples of {SECTOR}"),
    )
}

/// Adds the file's path to an error.
fn at(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn in_use() -> io::Error {
    io::Error::new(
        io::ErrorKind::ResourceBusy,
        "another opener has this storage: close it there first",
    )
}

/// Allocates and zeroes a new file.
fn zero(new: &NewFile, len: u64, mode: FileMode) -> io::Result<()> {
    system::allocate(new.file(), len)?;
    // In the other modes, the file's own descriptor needs aligned transfers, but the last write may
    // be unaligned.
    let plain = match mode {
        FileMode::Buffered => None,
        _ => Some(OpenOptions::new().write(true).open(new.temporary())?),
    };
    let plain = plain.as_ref().unwrap_or(new.file());
    let zeros = vec![0; ZEROS];
    let mut at = 0;
    while at < len {
        let some = (len - at).min(ZEROS as u64);
        platform::write_all_at(plain, &zeros[..some as usize], at)?;
        at += some;
    }
    Ok(())
}

/// Writes the data and syncs the file.
fn write_and_sync(file: &File, data: &[u8], offset: u64) -> io::Result<()> {
    platform::write_all_at(file, data, offset)?;
    file.sync_data()
}

/// Allocates blocks for the holes of a file.
#[cfg(unix)]
fn write_holes(file: &File, path: &Path, len: u64) -> io::Result<()> {
    spanlock_pmem::fill_holes(file, path, len).map_err(without_room)
}

/// Adds what to do to the error of a file whose holes cannot be filled.
#[cfg(unix)]
fn without_room(error: PmemError) -> io::Error {
    match error {
        PmemError::NoSpace { needed, source, .. } => {
            let what =
                format!("no room for the holes of this file: free {needed} bytes on its disk");
            io::Error::new(source.kind(), what)
        }
        PmemError::Io { source, .. } => source,
        other => io::Error::other(other),
    }
}
