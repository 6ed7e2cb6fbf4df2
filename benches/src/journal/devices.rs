//! The devices that store the contestants' files, and their flushes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use spanlock_journal_commit::storage::{FileMode, FileStorage};
use tempfile::TempDir;

use super::meter::{Meter, Metered, MeteredQueue};
use super::queued::QueuedStorage;
use crate::temporary::{Choice, Folder, Place};

/// The device whose flush sleeps for a millisecond.
pub const MODELLED: &str = "modelled-1ms";
/// The device whose flushes reach a disk.
pub const DISK: &str = "disk";

/// The same disk, without the page cache.
pub const DIRECT: &str = "disk-direct";

/// All devices, each with a description.
pub const DEVICES: [(&str, &str); 3] = [
    (
        MODELLED,
        "files in memory; every flush or durable write sleeps for 1 ms, and several may overlap",
    ),
    (
        DISK,
        "files on a disk, written through the page cache; a flush is fdatasync",
    ),
    (
        DIRECT,
        "files on a disk, written past the page cache (O_DIRECT), so that each write is a request to the disk; a flush is fdatasync; block journals only",
    ),
];

/// A run uses `/dev/shm` only if four fifths of the free bytes there are at least this many.
const ROOM: u64 = 4 << 30;

/// A folder for files, and how they are flushed. The folder and the files are removed on drop.
#[derive(Debug)]
pub struct Device {
    /// One of [`DEVICES`].
    pub name: &'static str,
    /// A description of its location.
    pub told: String,
    place: Place,
    folder: Folder,
    modelled: Option<Duration>,
}

impl Device {
    /// Opens the device of this name. A disk's files go into `dir`, or else into the folder for
    /// temporary files.
    ///
    /// # Errors
    /// No folder can be created there.
    pub fn open(name: &'static str, dir: Option<&Path>) -> Result<Self> {
        let place = match (name, dir) {
            (MODELLED, _) => Place::memory(ROOM, Choice::Tmpdir),
            (_, Some(dir)) => Place::chosen(dir),
            (_, None) => Place::system(Choice::Dir),
        };
        let folder = place.folder(&format!("journal-{name}"))?;
        let file_system = place.file_system();
        let mut told = format!("{name}: in {} ({file_system})", place.path().display());
        if name != MODELLED && file_system == "tmpfs" {
            told.push_str(", which is memory and not a disk: choose a folder on a disk with --dir");
        }
        Ok(Device {
            name,
            told,
            place,
            folder,
            modelled: (name == MODELLED).then_some(Duration::from_millis(1)),
        })
    }

    /// Checks that the device can be used here.
    ///
    /// # Errors
    /// It is [`DIRECT`], and the file system does not allow that.
    pub fn check(&self) -> Result<()> {
        if self.name == DIRECT {
            let folder = self.folder("checked")?;
            self.file(&folder.path().join("file"), 4096, &self.meter())?;
        }
        Ok(())
    }

    /// Returns a meter for the flushes of one contestant.
    pub fn meter(&self) -> Arc<Meter> {
        Meter::new(self.modelled)
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

    /// Creates a zeroed file of `len` bytes.
    ///
    /// # Errors
    /// There is not enough room, or the operating system's error: for [`DIRECT`], also that the
    /// file system does not allow it.
    pub fn file(&self, path: &Path, len: u64, meter: &Arc<Meter>) -> Result<Metered> {
        let mode = match self.name {
            DIRECT => FileMode::Direct,
            _ => FileMode::Buffered,
        };
        self.file_as(path, len, mode, meter)
    }

    /// Creates a zeroed file like [`file`](Self::file), bypassing the page cache if the device is a
    /// disk that allows it.
    ///
    /// # Errors
    /// Same as [`file`](Self::file).
    pub fn direct_file(&self, path: &Path, len: u64, meter: &Arc<Meter>) -> Result<Metered> {
        if self.modelled.is_none()
            && let Ok(file) = self.file_as(path, len, FileMode::Direct, meter)
        {
            return Ok(file);
        }
        self.file_as(path, len, FileMode::Buffered, meter)
    }

    /// Creates a zeroed file like [`file`](Self::file), whose writes are queued in the kernel.
    ///
    /// # Errors
    /// Same as [`file`](Self::file), or there is no io_uring.
    pub fn queued_file(&self, path: &Path, len: u64, meter: &Arc<Meter>) -> Result<MeteredQueue> {
        let file = QueuedStorage::create(path, len)
            .with_context(|| format!("creating {} with {len} bytes", path.display()))?;
        Ok(MeteredQueue::new(file, meter.clone()))
    }

    fn file_as(
        &self,
        path: &Path,
        len: u64,
        mode: FileMode,
        meter: &Arc<Meter>,
    ) -> Result<Metered> {
        let file = FileStorage::create(path, len, mode)
            .with_context(|| format!("creating {} with {len} bytes", path.display()))?;
        Ok(Metered::new(file, meter.clone()))
    }

    /// Reopens a file.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn file_again(&self, path: &Path, meter: &Arc<Meter>) -> Result<Metered> {
        let file = FileStorage::open(path, FileMode::Buffered)
            .with_context(|| format!("opening {}", path.display()))?;
        Ok(Metered::new(file, meter.clone()))
    }

    /// Returns the current duration of a flush, which is the unit of think times. On a disk it is
    /// that of [`Folder::flush_takes`].
    ///
    /// # Errors
    /// The operating system's error.
    pub fn flush_takes(&self) -> Result<Duration> {
        if let Some(takes) = self.modelled {
            return Ok(takes);
        }
        self.folder.flush_takes()
    }
}
