//! Where the contestants' files lie, and what a flush is there.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use spanlock_journal_commit::storage::{FileMode, FileStorage};
use tempfile::TempDir;

use super::meter::{Meter, Metered};
use crate::measure::median;
use crate::volume;

/// A flush that sleeps for a millisecond.
pub const MODELLED: &str = "modelled-1ms";
/// A flush that the disk makes.
pub const DISK: &str = "disk";

/// All devices, each with what it is.
pub const DEVICES: [(&str, &str); 2] = [
    (
        MODELLED,
        "files in memory; a flush or durable write sleeps for 1 ms, whoever makes it, and several may at once",
    ),
    (
        DISK,
        "files on a disk, written through the page cache; a flush is fdatasync",
    ),
];

/// Bytes that a run has room for in `/dev/shm`, or it goes elsewhere.
const ROOM: u64 = 4 << 30;

/// A folder of its own, and flushes. The folder goes when this is dropped.
#[derive(Debug)]
pub struct Device {
    /// One of [`DEVICES`].
    pub name: &'static str,
    /// Where it is, for people.
    pub told: String,
    folder: TempDir,
    modelled: Option<Duration>,
}

impl Device {
    /// Opens the device of this name; a disk's files go into `dir`, or the folder for temporary files.
    ///
    /// # Errors
    /// No folder can be made there.
    pub fn open(name: &'static str, dir: Option<&Path>) -> Result<Self> {
        let place = match (name, dir) {
            (MODELLED, _) => volume::temporary_folder(ROOM),
            (_, Some(dir)) => dir.to_owned(),
            (_, None) => std::env::temp_dir(),
        };
        let folder = tempfile::Builder::new()
            .prefix("spanlock-journal-")
            .tempdir_in(&place)
            .with_context(|| {
                format!(
                    "making a folder in {}: give a folder that is there and may be written to, with --dir",
                    place.display()
                )
            })?;
        let mut told = format!(
            "{name}: in {} ({})",
            place.display(),
            volume::file_system(&place)
        );
        if name == DISK && volume::file_system(&place) == "tmpfs" {
            told.push_str(", which is memory and no disk: give a folder on a disk with --dir");
        }
        Ok(Device {
            name,
            told,
            folder,
            modelled: (name == MODELLED).then_some(Duration::from_millis(1)),
        })
    }

    /// For the flushes of one contestant.
    pub fn meter(&self) -> Arc<Meter> {
        Meter::new(self.modelled)
    }

    /// Makes an empty folder.
    ///
    /// # Errors
    /// It is there, or the system's.
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.path().join(name);
        fs::create_dir(&folder)
            .with_context(|| format!("making the folder {}", folder.display()))?;
        Ok(folder)
    }

    /// Makes a file of `len` bytes, zeroed.
    ///
    /// # Errors
    /// No room, or the system's.
    pub fn file(&self, path: &Path, len: u64, meter: &Arc<Meter>) -> Result<Metered> {
        self.file_as(path, len, FileMode::Buffered, meter)
    }

    /// The same, past the page cache if it is on a disk that lets one.
    ///
    /// # Errors
    /// As [`file`](Self::file).
    pub fn direct_file(&self, path: &Path, len: u64, meter: &Arc<Meter>) -> Result<Metered> {
        if self.modelled.is_none()
            && let Ok(file) = self.file_as(path, len, FileMode::Direct, meter)
        {
            return Ok(file);
        }
        self.file_as(path, len, FileMode::Buffered, meter)
    }

    fn file_as(
        &self,
        path: &Path,
        len: u64,
        mode: FileMode,
        meter: &Arc<Meter>,
    ) -> Result<Metered> {
        let file = FileStorage::create(path, len, mode)
            .with_context(|| format!("making {} with {len} bytes", path.display()))?;
        Ok(Metered::new(file, meter.clone()))
    }

    /// Opens it again.
    ///
    /// # Errors
    /// The system's.
    pub fn file_again(&self, path: &Path, meter: &Arc<Meter>) -> Result<Metered> {
        let file = FileStorage::open(path, FileMode::Buffered)
            .with_context(|| format!("opening {}", path.display()))?;
        Ok(Metered::new(file, meter.clone()))
    }

    /// How long a flush takes now: the unit of think times. On a disk, the median of eleven `fdatasync`, each after a write of 4 KiB.
    ///
    /// # Errors
    /// The system's.
    pub fn flush_takes(&self) -> Result<Duration> {
        if let Some(takes) = self.modelled {
            return Ok(takes);
        }
        let path = self.folder.path().join("flushed");
        let measured = || -> std::io::Result<f64> {
            let file = File::create(&path)?;
            let mut took = Vec::new();
            // The first has the file's length to write, too.
            for nth in 0..12_u8 {
                file.write_all_at(&[nth; 4096], 0)?;
                let began = Instant::now();
                file.sync_data()?;
                took.push(began.elapsed().as_secs_f64());
            }
            Ok(median(&took[1..]))
        };
        let takes = measured().with_context(|| format!("flushing {}", path.display()))?;
        Ok(Duration::from_secs_f64(takes))
    }
}
