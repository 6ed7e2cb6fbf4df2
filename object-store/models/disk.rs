//! A simulated disk, as the storage of a space.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use spanlock_journal_commit::Storage;
use spanlock_pmem::Pmem;
use spanlock_pmem::simulated::Simulated;
use spanlock_sync::{Mutex, thread};

/// A simulated disk with a volatile cache. What a flush covers depends on the order of writes and
/// flushes, so the disk performs them one at a time.
pub(crate) struct Sectors {
    order: Mutex<()>,
    region: Arc<Simulated>,
    /// The threads whose next write fails, one bit each.
    failing: Arc<AtomicU64>,
}

impl Sectors {
    pub(crate) fn new(region: Arc<Simulated>, failing: Arc<AtomicU64>) -> Self {
        Sectors {
            order: Mutex::new(()),
            region,
            failing,
        }
    }
}

impl Storage for Sectors {
    fn len(&self) -> u64 {
        Pmem::len(&*self.region)
    }
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.region.read_bytes(offset, buf);
        Ok(())
    }
    #[track_caller]
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let me = 1 << thread::index();
        // Relaxed: each thread uses its own bit only.
        if self.failing.fetch_and(!me, Relaxed) & me != 0 {
            return Err(io::Error::other("the disk fails"));
        }
        let _order = self.order.lock();
        self.region.write_sectors(offset, data);
        Ok(())
    }
    #[track_caller]
    fn flush(&self) -> io::Result<()> {
        let _order = self.order.lock();
        self.region.flush_sectors(0..self.len());
        Ok(())
    }
    #[track_caller]
    fn write_fua(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let _order = self.order.lock();
        self.region.write_sectors_through(offset, data);
        Ok(())
    }
}
