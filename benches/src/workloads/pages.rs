//! Files that workloads access, and the pages of the threads in them.

use anyhow::Result;
use spanlock_file_core::File;
use spanlock_pmem::MappedFile;
use spanlock_range_lock::RawRangeLock;

use crate::aligned::PageAligned;

/// Bytes per operation.
pub const PAGE: usize = 4096;

/// Bytes from one thread's page to the next thread's.
pub const PAGES_APART: u64 = 8 << 20;

/// A file that a workload can run on.
pub trait Bytes: Sync {
    /// Reads at an offset. Returns the number of bytes that there were.
    ///
    /// # Errors
    /// The file's error.
    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize>;

    /// Writes all of `data` at an offset.
    ///
    /// # Errors
    /// The file's error.
    fn write_at(&self, data: &[u8], offset: u64) -> Result<()>;
}

impl<L: RawRangeLock> Bytes for File<MappedFile, L> {
    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize> {
        Ok(File::read_at(self, into, offset)?)
    }

    fn write_at(&self, data: &[u8], offset: u64) -> Result<()> {
        Ok(File::write_at(self, data, offset)?)
    }
}

/// Returns the content of a thread's page. It ends with the thread's number.
pub(super) fn page_of(worker: u64) -> PageAligned {
    let mut page = PageAligned::new(PAGE);
    page.bytes().fill(worker as u8);
    page.bytes()[PAGE - 8..].copy_from_slice(&worker.to_le_bytes());
    page
}
