//! A region on which copying takes simulated time.

use spanlock_cores::work;
use spanlock_pmem::{Durable, Flushed, MappedFile, Pmem, Written};

/// A mapped file. Copies of its bytes, which the simulated cores do not see, take this long.
pub(crate) struct Copying {
    pub(crate) pmem: MappedFile,
    /// How many nanoseconds it takes to copy a page, on average.
    pub(crate) page_ns: u32,
}

impl Copying {
    fn spend(&self, bytes: usize) {
        let ns = u64::from(self.page_ns) * bytes as u64 / spanlock_pmem::PAGE_BYTES;
        work(u32::try_from(ns).unwrap_or(u32::MAX));
    }
}

// SAFETY: every method is the mapped file's own, which keeps the contract.
unsafe impl Pmem for Copying {
    fn len(&self) -> u64 {
        self.pmem.len()
    }

    fn is_read_only(&self) -> bool {
        self.pmem.is_read_only()
    }

    unsafe fn read(&self, at: u64, into: &mut [u8]) {
        self.spend(into.len());
        // SAFETY: the caller gives the same promise.
        unsafe { self.pmem.read(at, into) }
    }

    unsafe fn write(&self, at: u64, data: &[u8]) -> Written {
        self.spend(data.len());
        // SAFETY: the caller gives the same promise.
        unsafe { self.pmem.write(at, data) }
    }

    unsafe fn write_streaming(&self, at: u64, data: &[u8]) -> Flushed {
        self.spend(data.len());
        // SAFETY: the caller gives the same promise.
        unsafe { self.pmem.write_streaming(at, data) }
    }

    fn prefetch(&self, at: u64, len: u64) {
        self.pmem.prefetch(at, len);
    }

    fn flush(&self, written: Written) -> Flushed {
        self.pmem.flush(written)
    }

    fn fence(&self, flushed: Flushed) -> Durable {
        self.pmem.fence(flushed)
    }

    fn publish(&self, at: u64, value: u64, after: Durable) -> Written {
        self.pmem.publish(at, value, after)
    }

    fn load(&self, at: u64) -> u64 {
        self.pmem.load(at)
    }
}
