//! A temporary file to map as a region.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use spanlock_pmem::{MappedFile, Options, Pmem};

use crate::temporary::{Choice, Place};

/// Bytes that are touched at once.
const PIECE: usize = 1 << 20;

/// A temporary file without a name. It disappears however the process ends.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    place: Place,
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
        let place = folder.map_or_else(|| Place::memory(bytes, Choice::Dir), Place::chosen);
        let created = place.file(|path| {
            MappedFile::create(path, bytes, Options::new())?;
            Ok(())
        });
        let (file, path) = created.with_context(|| {
            let folder = place.path().display();
            format!("creating a temporary file of {bytes} bytes in {folder}")
        })?;
        Ok(Scratch {
            path,
            place,
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
        let folder = self.place.path().display();
        mapped.with_context(|| format!("mapping a temporary file in {folder}"))
    }

    /// Maps the file, and touches all of it: no later access is the first to a page.
    ///
    /// # Errors
    /// Same as [`map`](Self::map).
    pub fn map_touched(&self) -> Result<MappedFile> {
        let region = self.map()?;
        let zeros = vec![0; PIECE];
        for at in (0..region.len()).step_by(PIECE) {
            let len = (region.len() - at).min(PIECE as u64) as usize;
            // SAFETY: no other thread has this region yet. The fence follows.
            let flushed = unsafe { region.write_streaming(at, &zeros[..len]) };
            region.fence(flushed);
        }
        Ok(region)
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
            "temporary, in {} ({}); what is durable there {}; {flush}",
            self.place.path().display(),
            self.place.file_system(),
            region.durability(),
        ))
    }
}
