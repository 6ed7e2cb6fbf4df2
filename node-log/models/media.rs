//! The media of a volume, in one simulated region: first the node half, then the disk of the data
//! half. So a search has the images of both together.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use spanlock_journal_commit::Storage;
use spanlock_node_log::{BlockHome, Home, Nvm, NvmHome};
use spanlock_pmem::simulated::Simulated;
use spanlock_pmem::{Durable, Flushed, Pmem, Written};
use spanlock_sync::{Mutex, thread};

/// The bytes of a block.
pub(crate) const BLOCK: u64 = 4096;
/// The bytes of a data half with eight segments of eight blocks.
const DATA: u64 = (2 + 8 * 8) * BLOCK;

/// Where a volume's nodes are.
pub(crate) trait World: Send + Sync + 'static {
    /// The home.
    type Home: Home + 'static;
    /// The bytes of the node half.
    const NODES: u64;
    /// Whether a removal is durable when it returns, and not only at a checkpoint.
    const REMOVES_AT_ONCE: bool;

    /// Returns the node half of a region.
    fn nodes(region: &Arc<Simulated>, failing: &Failing) -> <Self::Home as Home>::Medium;

    /// Returns the bytes of both halves.
    fn bytes() -> usize {
        (Self::NODES + DATA) as usize
    }

    /// Returns the data half of a region.
    fn data(region: &Arc<Simulated>, failing: &Failing) -> Disk {
        let range = Self::NODES..Self::NODES + DATA;
        Disk::new(region.clone(), range, failing.data.clone())
    }
}

/// The threads whose next flush of a half fails, one bit each.
#[derive(Clone, Default)]
pub(crate) struct Failing {
    pub(crate) data: Arc<AtomicU64>,
    pub(crate) nodes: Arc<AtomicU64>,
}

/// Lets the calling thread's next flush of a half fail.
pub(crate) fn fail_next(half: &AtomicU64) {
    // Relaxed: each thread uses its own bit only.
    half.fetch_or(1 << thread::index(), Relaxed);
}

/// Nodes in persistent memory: one redo slot, for three nodes, and a heap of a few nodes.
pub(crate) struct InNvm;

impl World for InNvm {
    type Home = NvmHome<Front>;
    const NODES: u64 = 3 * BLOCK;
    const REMOVES_AT_ONCE: bool = true;

    fn nodes(region: &Arc<Simulated>, _: &Failing) -> Nvm<Front> {
        let front = Front {
            region: region.clone(),
            len: Self::NODES,
        };
        Nvm::new(front).slots(1, 3)
    }
}

/// Nodes in blocks.
pub(crate) struct InBlocks;

impl World for InBlocks {
    type Home = BlockHome<Disk>;
    const NODES: u64 = (8 + 8 * 8) * BLOCK;
    const REMOVES_AT_ONCE: bool = false;

    fn nodes(region: &Arc<Simulated>, failing: &Failing) -> Disk {
        Disk::new(region.clone(), 0..Self::NODES, failing.nodes.clone())
    }
}

/// A disk with a volatile cache, in a part of a region. What a flush covers depends on the order
/// of writes and flushes, so the disk performs them one at a time.
pub(crate) struct Disk {
    /// Where the last byte ends that was written since the disk was opened. A flush goes no
    /// further, because the checker keeps account of each word.
    written: Mutex<u64>,
    region: Arc<Simulated>,
    range: Range<u64>,
    /// The threads whose next flush fails, one bit each.
    failing: Arc<AtomicU64>,
}

impl Disk {
    fn new(region: Arc<Simulated>, range: Range<u64>, failing: Arc<AtomicU64>) -> Self {
        Disk {
            written: Mutex::new(range.start),
            region,
            range,
            failing,
        }
    }
}

impl Storage for Disk {
    fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let _written = self.written.lock();
        self.region.read_bytes(self.range.start + offset, buf);
        Ok(())
    }

    #[track_caller]
    fn write_at(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let mut written = self.written.lock();
        let at = self.range.start + offset;
        self.region.write_sectors(at, data);
        *written = (*written).max(at + data.len() as u64);
        Ok(())
    }

    #[track_caller]
    fn flush(&self) -> io::Result<()> {
        let written = self.written.lock();
        let range = self.range.start..*written;
        let me = 1 << thread::index();
        // Relaxed: each thread uses its own bit only.
        if self.failing.fetch_and(!me, Relaxed) & me != 0 {
            self.region.fail_flush(range);
            return Err(io::Error::other("the disk fails"));
        }
        self.region.flush_sectors(range);
        Ok(())
    }

    #[track_caller]
    fn write_fua(&self, data: &[u8], offset: u64) -> io::Result<()> {
        let mut written = self.written.lock();
        let at = self.range.start + offset;
        *written = (*written).max(at + data.len() as u64);
        self.region.write_sectors_through(at, data);
        Ok(())
    }
}

/// The first bytes of a region, as persistent memory.
pub(crate) struct Front {
    region: Arc<Simulated>,
    len: u64,
}

// SAFETY: every method is the region's own, which keeps the contract. Only the length is smaller:
// the models show that no byte behind it is used, because the data half is there.
unsafe impl Pmem for Front {
    fn len(&self) -> u64 {
        self.len
    }

    unsafe fn read(&self, at: u64, into: &mut [u8]) {
        // SAFETY: the caller gives the same promise.
        unsafe { self.region.read(at, into) }
    }

    #[track_caller]
    unsafe fn write(&self, at: u64, data: &[u8]) -> Written {
        // SAFETY: the caller gives the same promise.
        unsafe { self.region.write(at, data) }
    }

    #[track_caller]
    unsafe fn write_streaming(&self, at: u64, data: &[u8]) -> Flushed {
        // SAFETY: the caller gives the same promise.
        unsafe { self.region.write_streaming(at, data) }
    }

    #[track_caller]
    fn flush(&self, written: Written) -> Flushed {
        self.region.flush(written)
    }

    #[track_caller]
    fn fence(&self, flushed: Flushed) -> Durable {
        self.region.fence(flushed)
    }

    #[track_caller]
    fn publish(&self, at: u64, value: u64, after: Durable) -> Written {
        self.region.publish(at, value, after)
    }

    #[track_caller]
    fn load(&self, at: u64) -> u64 {
        self.region.load(at)
    }
}
