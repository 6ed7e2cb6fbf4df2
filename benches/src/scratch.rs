//! A temporary file to map as a region.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use spanlock_pmem::{MappedFile, Options};

use crate::volume::{file_system, temporary_folder};

/// A temporary file without a name. It disappears however the process ends.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    folder: PathBuf,
    _file: File,
}

impl Scratch {
    /// Creates a file of `bytes` bytes, all zero and allocated, in `folder`. Without a folder it
    /// lies in `/dev/shm` if that is a tmpfs with enough room, otherwise in the system's folder for
    /// temporary files. `bytes` is rounded up to whole pages of 4 KiB.
    ///
    /// # Errors
    /// The folder cannot be used or does not have enough room.
    pub fn new(folder: Option<&Path>, bytes: u64) -> Result<Self> {
        let bytes = bytes.next_multiple_of(spanlock_pmem::PAGE_BYTES);
        let folder = folder.map_or_else(|| temporary_folder(bytes), Path::to_owned);
        let place = || {
            format!(
                "creating a temporary file of {bytes} bytes in {}; choose another folder with --dir",
                folder.display()
            )
        };
        let named = tempfile::Builder::new()
            .prefix("spanlock-")
            .tempdir_in(&folder)
            .with_context(place)?;
        let path = named.path().join("region");
        MappedFile::create(&path, bytes, Options::new()).with_context(place)?;
        let file = File::open(&path).with_context(place)?;
        named.close().with_context(place)?;
        // Children reach the file through this path, too.
        let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
        Ok(Scratch {
            path: path.into(),
            folder,
            _file: file,
        })
    }

    /// Returns a path that leads to the file while this value exists.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Maps the file.
    ///
    /// # Errors
    /// The file is mapped already, or cannot be mapped.
    pub fn map(&self) -> Result<MappedFile> {
        let mapped = MappedFile::open(&self.path, Options::new());
        mapped.with_context(|| format!("mapping a temporary file in {}", self.folder.display()))
    }

    /// Describes where the file lies, what survives there, and how it is flushed.
    ///
    /// # Errors
    /// Same as [`map`](Self::map).
    pub fn description(&self) -> Result<String> {
        let region = self.map()?;
        let flush = match region.flush_instruction() {
            Some(instruction) => format!("flushed by {instruction}"),
            None => "not flushed".to_owned(),
        };
        Ok(format!(
            "temporary, in {} ({}); durable bytes there {}; {flush}",
            self.folder.display(),
            file_system(&self.folder),
            region.durability(),
        ))
    }
}
