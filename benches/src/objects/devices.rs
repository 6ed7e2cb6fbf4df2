//! The devices on which objects, raw bytes and other projects' files lie.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Context, Result};
use rustix::fs::OFlags;
use spanlock_interval_lock::IntervalLock;
use spanlock_journal_commit::storage::{FileMode, FileStorage};
use spanlock_object_store::space::{self, Disk, Medium, Persistent, Space};
use spanlock_object_store::{self as store, Store};
use spanlock_pmem::{MappedFile, Pmem};
use tempfile::TempDir;

use super::subjects::{Area, Batches, Objects};
use crate::scratch::Scratch;
use crate::temporary::{Choice, Folder, Place};

/// Persistent memory.
pub const PMEM: &str = "pmem";
/// A disk, through the page cache.
pub const DISK: &str = "disk";
/// The same disk, with stores in sparse files.
pub const SPARSE: &str = "disk-sparse";
/// The same disk, without the page cache.
pub const DIRECT: &str = "disk-direct";

/// All devices, each with a description.
pub const DEVICES: [(&str, &str); 4] = [
    (
        PMEM,
        "a file mapped as persistent memory, in /dev/shm if there is room; other projects' files lie beside it, where fsync does nothing",
    ),
    (
        DISK,
        "a file on a disk, through the page cache, allocated and filled before; a flush is fdatasync",
    ),
    (
        SPARSE,
        "the same, but the store is a sparse file: a flush after the first write to a block also writes the file system's journal",
    ),
    (
        DIRECT,
        "a file on a disk, past the page cache (O_DIRECT), allocated and filled before; a flush is fdatasync; left out where the file system refuses it",
    ),
];

/// A run uses `/dev/shm` only if four fifths of the free bytes there are at least this many.
const ROOM: u64 = 3 << 30;

/// A folder for files, and how stores and raw bytes are kept there.
#[derive(Debug)]
pub struct Device {
    /// One of [`DEVICES`].
    pub name: &'static str,
    /// A description of its location.
    pub told: String,
    place: Place,
    folder: Folder,
    /// How files are written; `None` for persistent memory.
    mode: Option<FileMode>,
}

impl Device {
    /// Opens the device of this name. A disk's files go into `dir`, or else into the folder for
    /// temporary files.
    ///
    /// # Errors
    /// No folder can be created there.
    pub fn open(name: &'static str, dir: Option<&Path>) -> Result<Self> {
        let place = match dir {
            _ if name == PMEM => Place::memory(ROOM, Choice::Tmpdir),
            Some(dir) => Place::chosen(dir),
            None => Place::system(Choice::Dir),
        };
        let mode = match name {
            PMEM => None,
            DIRECT => Some(FileMode::Direct),
            _ => Some(FileMode::Buffered),
        };
        let folder = place.folder(&format!("objects-{name}"))?;
        let file_system = place.file_system();
        let mut told = format!("{name}: in {} ({file_system})", place.path().display());
        match (mode, file_system.as_str()) {
            (Some(_), "tmpfs") => {
                told.push_str(", which is memory and not a disk: choose a folder with --dir");
            }
            (None, _) => {
                let region = Scratch::new(Some(place.path()), 4096)?.description()?;
                told = format!("{name}: {region}");
            }
            (Some(_), _) => {}
        }
        Ok(Device {
            name,
            told,
            place,
            folder,
            mode,
        })
    }

    /// Checks that the device can be used here.
    ///
    /// # Errors
    /// The file system does not allow it.
    pub fn check(&self) -> Result<()> {
        self.store(1 << 20, &space::Options::new(), &store::Options::new())?;
        Ok(())
    }

    /// Creates an empty folder, whose name begins with `of`. It is removed on drop.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn folder(&self, of: &str) -> Result<TempDir> {
        let folder = self.folder.folder(of);
        folder.with_context(|| format!("creating a folder for {of} on {}", self.name))
    }

    /// Adds advice to an error that says that the device is full.
    ///
    /// # Errors
    /// The error of `result`.
    pub fn advise<T>(&self, result: Result<T>) -> Result<T> {
        self.place.advise(result)
    }

    /// Creates a store on a new medium of `bytes` bytes.
    ///
    /// # Errors
    /// There is not enough room, or the options do not fit.
    pub fn store(
        &self,
        bytes: u64,
        space: &space::Options,
        options: &store::Options,
    ) -> Result<Box<dyn Objects>> {
        let created = match self.mode {
            None => store_on(self.region(bytes)?, space, options),
            Some(mode) => store_on(self.disk(bytes, mode)?, space, options),
        };
        created.with_context(|| format!("creating a store on {}", self.name))
    }

    /// Creates a space on a new medium of `bytes` bytes.
    ///
    /// # Errors
    /// As for [`store`](Self::store).
    pub fn space(&self, bytes: u64, options: &space::Options) -> Result<Box<dyn Batches>> {
        let created = match self.mode {
            None => space_on(self.region(bytes)?, options),
            Some(mode) => space_on(self.disk(bytes, mode)?, options),
        };
        created.with_context(|| format!("creating a space on {}", self.name))
    }

    /// Creates raw bytes for the same kind of access as a store has: allocated and filled.
    ///
    /// # Errors
    /// There is not enough room.
    pub fn raw(&self, bytes: u64) -> Result<Raw> {
        let Some(mode) = self.mode else {
            return Ok(Raw::Memory(self.mapped(bytes)?));
        };
        let path = self.folder.path().join("raw");
        drop(FileStorage::create(&path, bytes, mode).context("creating a file for raw bytes")?);
        let flags = match mode {
            FileMode::Direct => OFlags::DIRECT,
            _ => OFlags::empty(),
        };
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true);
        let file = options
            .custom_flags(flags.bits().cast_signed())
            .open(&path)
            .context("opening a file for raw bytes")?;
        fs::remove_file(&path).context("removing the name of a file")?;
        Ok(Raw::File(file))
    }

    fn mapped(&self, bytes: u64) -> Result<MappedFile> {
        Scratch::new(Some(self.place.path()), bytes)?.map_touched()
    }

    fn region(&self, bytes: u64) -> Result<Persistent<MappedFile>> {
        Ok(Persistent::new(self.mapped(bytes)?))
    }

    fn disk(&self, bytes: u64, mode: FileMode) -> Result<Disk<FileStorage>> {
        let path = self.folder.path().join("store");
        let file = match self.name {
            SPARSE => Disk::create_file(&path, Some(bytes), mode)?,
            _ => Disk::new(FileStorage::create(&path, bytes, mode)?),
        };
        // It exists while it is open.
        fs::remove_file(&path).context("removing the name of a file")?;
        Ok(file)
    }
}

fn store_on(
    medium: impl Medium + 'static,
    space: &space::Options,
    options: &store::Options,
) -> Result<Box<dyn Objects>> {
    let space = Space::create(medium, space, IntervalLock::new())?;
    Ok(Box::new(Store::create(space, options)?))
}

fn space_on(medium: impl Medium + 'static, options: &space::Options) -> Result<Box<dyn Batches>> {
    Ok(Box::new(Space::create(
        medium,
        options,
        IntervalLock::new(),
    )?))
}

/// Raw bytes of a device.
#[derive(Debug)]
pub enum Raw {
    /// A mapped file.
    Memory(MappedFile),
    /// A file, buffered or direct.
    File(File),
}

impl Raw {
    /// Divides the bytes into areas of `bytes` bytes each, one for each thread.
    pub fn areas(&mut self, threads: usize, bytes: u64) -> Vec<Box<dyn Area + '_>> {
        let areas = (0..threads as u64).map(|it| it * bytes..(it + 1) * bytes);
        match &*self {
            Raw::Memory(region) => areas
                .map(|bytes| Box::new(MemoryArea { region, bytes }) as Box<dyn Area>)
                .collect(),
            Raw::File(file) => areas
                .map(|bytes| Box::new(FileArea { file, bytes }) as Box<dyn Area>)
                .collect(),
        }
    }
}

struct MemoryArea<'r> {
    region: &'r MappedFile,
    bytes: Range<u64>,
}

impl Area for MemoryArea<'_> {
    fn write(&mut self, at: u64, data: &[u8]) -> io::Result<()> {
        let at = within(&self.bytes, at, data.len());
        // SAFETY: only this area accesses its bytes: `areas` borrowed the region exclusively, and
        // areas are disjoint. The fence follows.
        let flushed = unsafe { self.region.write_streaming(at, data) };
        self.region.fence(flushed);
        Ok(())
    }

    fn read(&mut self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let at = within(&self.bytes, at, into.len());
        // SAFETY: as above; all that was streamed is fenced.
        unsafe { self.region.read(at, into) };
        Ok(())
    }
}

struct FileArea<'r> {
    file: &'r File,
    bytes: Range<u64>,
}

impl Area for FileArea<'_> {
    fn write(&mut self, at: u64, data: &[u8]) -> io::Result<()> {
        let at = within(&self.bytes, at, data.len());
        self.file.write_all_at(data, at)?;
        self.file.sync_data()
    }

    fn read(&mut self, at: u64, into: &mut [u8]) -> io::Result<()> {
        let at = within(&self.bytes, at, into.len());
        self.file.read_exact_at(into, at)
    }
}

/// Returns where `len` bytes at `at` of an area lie.
fn within(area: &Range<u64>, at: u64, len: usize) -> u64 {
    let start = area.start + at;
    assert!(start + len as u64 <= area.end, "outside of the area");
    start
}
