//! One of our files, with a layer beneath it that makes it durable.

use std::io;
use std::sync::Arc;

use spanlock_journal_commit::Storage;
use spanlock_journal_commit::storage::FileStorage;

/// Writes a file and makes it durable in place of the file itself.
pub trait Below: Send + Sync {
    /// Replaces [`Storage::write_at`] of `file`.
    fn write_at(&self, file: &FileStorage, data: &[u8], offset: u64) -> io::Result<()> {
        file.write_at(data, offset)
    }

    /// Replaces [`Storage::flush`] of `file`.
    fn flush(&self, file: &FileStorage) -> io::Result<()> {
        file.flush()
    }

    /// Replaces [`Storage::write_fua`] of `file`.
    fn write_fua(&self, file: &FileStorage, data: &[u8], offset: u64) -> io::Result<()>;
}

/// A file on top of `B`.
#[derive(Debug)]
pub struct Over<B> {
    file: FileStorage,
    below: Arc<B>,
}

impl<B: Below> Over<B> {
    /// Puts `below` beneath a file.
    pub fn new(file: FileStorage, below: Arc<B>) -> Self {
        Over { file, below }
    }
}

impl<B: Below> Storage for Over<B> {
    fn len(&self) -> u64 {
        self.file.len()
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_at(buf, offset)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.below.write_at(&self.file, data, offset)
    }

    fn flush(&self) -> io::Result<()> {
        self.below.flush(&self.file)
    }

    fn write_fua(&self, data: &[u8], offset: u64) -> io::Result<()> {
        self.below.write_fua(&self.file, data, offset)
    }
}
