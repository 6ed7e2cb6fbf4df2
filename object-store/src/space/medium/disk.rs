//! A space on a block device, a file, or any other `Storage`.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use spanlock_journal_commit::Storage;
use spanlock_journal_commit::storage::Part;

use super::Medium;

/// Neighbouring pieces that are shorter than this are written by one call.
const SHORT: usize = 64 << 10;

/// A [`Storage`] as a medium.
#[derive(Debug)]
pub struct Disk<S> {
    storage: Arc<S>,
    /// For punching holes; `None` if the storage has no holes.
    holes: Option<File>,
}

impl<S: Storage> Disk<S> {
    /// Uses all of `storage`. A trim returns nothing to its owner; see
    /// [`create_file`](Disk::create_file) for a sparse file.
    pub fn new(storage: S) -> Self {
        Disk {
            storage: Arc::new(storage),
            holes: None,
        }
    }

    /// Punches holes in this file, which is the storage.
    pub(super) fn with_holes(self, file: File) -> Self {
        let holes = Some(file);
        Disk { holes, ..self }
    }

    /// Returns the storage.
    pub fn storage(&self) -> &S {
        &self.storage
    }
}

impl<S: Storage> Medium for Disk<S> {
    type Ring = Part<Arc<S>>;

    fn len(&self) -> u64 {
        self.storage.len()
    }

    unsafe fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.storage.read_at(into, at)
    }

    unsafe fn write(&self, at: u64, data: &[u8]) -> io::Result<()> {
        self.storage.write_at(data, at)
    }

    fn flush(&self) -> io::Result<()> {
        self.storage.flush()
    }

    fn is_synchronous(&self) -> bool {
        false
    }

    unsafe fn write_all(&self, pieces: &[(u64, &[u8])]) -> io::Result<()> {
        let continues = |before: &(u64, &[u8]), next: &(u64, &[u8])| {
            let is_short = before.1.len() < SHORT && next.1.len() < SHORT;
            is_short && before.0 + before.1.len() as u64 == next.0
        };
        for run in pieces.chunk_by(continues) {
            match run {
                [(at, data)] => self.storage.write_at(data, *at)?,
                run => {
                    let all: Vec<u8> = run.iter().flat_map(|(_, data)| *data).copied().collect();
                    self.storage.write_at(&all, run[0].0)?;
                }
            }
        }
        Ok(())
    }

    fn ring(&self, range: Range<u64>) -> io::Result<Part<Arc<S>>> {
        Part::new(self.storage.clone(), range)
    }

    fn reserve(&self, range: Range<u64>) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        if let Some(file) = &self.holes {
            return super::sparse_file::allocate(file, range);
        }
        let _ = range;
        Ok(())
    }

    fn discard(&self, range: Range<u64>) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        if let Some(file) = &self.holes {
            return super::sparse_file::punch(file, range);
        }
        let _ = range;
        Ok(())
    }
}
