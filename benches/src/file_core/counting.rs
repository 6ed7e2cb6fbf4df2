//! A region that counts what is written back, and the fences.

use std::sync::atomic::{AtomicU64, Ordering};

use spanlock_pmem::{Durable, Flushed, LINE_BYTES, Pmem, Written};

/// Counts since a region was wrapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Lines of 64 bytes whose write-back was started. Streamed bytes need none.
    pub flushes: u64,
    /// Fences.
    pub fences: u64,
}

impl std::ops::Sub for Counts {
    type Output = Counts;

    /// Returns what was counted after `earlier`.
    fn sub(self, earlier: Counts) -> Counts {
        Counts {
            flushes: self.flushes - earlier.flushes,
            fences: self.fences - earlier.fences,
        }
    }
}

/// A region that counts flushes and fences, and is otherwise the region it wraps.
#[derive(Debug)]
pub struct Counting<P> {
    region: P,
    flushes: AtomicU64,
    fences: AtomicU64,
}

impl<P> Counting<P> {
    /// Wraps `region`. All counts are zero.
    pub fn new(region: P) -> Self {
        Counting {
            region,
            flushes: AtomicU64::new(0),
            fences: AtomicU64::new(0),
        }
    }

    /// Returns the counts. They are exact if no other thread uses the region meanwhile.
    pub fn counts(&self) -> Counts {
        // Relaxed, here and below: statistics, which order nothing.
        Counts {
            flushes: self.flushes.load(Ordering::Relaxed),
            fences: self.fences.load(Ordering::Relaxed),
        }
    }
}

// SAFETY: the wrapped region does everything and makes all tokens. `persist` is the trait's own, so
// that it counts too.
unsafe impl<P: Pmem> Pmem for Counting<P> {
    fn len(&self) -> u64 {
        self.region.len()
    }

    unsafe fn read(&self, at: u64, into: &mut [u8]) {
        // SAFETY: the caller gives the same promise.
        unsafe { self.region.read(at, into) }
    }

    unsafe fn write(&self, at: u64, data: &[u8]) -> Written {
        // SAFETY: the caller gives the same promise.
        unsafe { self.region.write(at, data) }
    }

    unsafe fn write_streaming(&self, at: u64, data: &[u8]) -> Flushed {
        // SAFETY: the caller gives the same promise.
        unsafe { self.region.write_streaming(at, data) }
    }

    fn prefetch(&self, at: u64, len: u64) {
        self.region.prefetch(at, len);
    }

    fn flush(&self, written: Written) -> Flushed {
        let bytes = written.range();
        let lines = bytes.end.div_ceil(LINE_BYTES) - bytes.start / LINE_BYTES;
        self.flushes.fetch_add(lines, Ordering::Relaxed);
        self.region.flush(written)
    }

    fn fence(&self, flushed: Flushed) -> Durable {
        self.fences.fetch_add(1, Ordering::Relaxed);
        self.region.fence(flushed)
    }

    fn publish(&self, at: u64, value: u64, after: Durable) -> Written {
        self.region.publish(at, value, after)
    }

    fn load(&self, at: u64) -> u64 {
        self.region.load(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn every_line_and_every_fence_counts() {
        let region = Scratch::new(None, 4096).unwrap().map().unwrap();
        let region = Counting::new(region);
        // SAFETY: this is the region's only thread, and it fences before it accesses a byte again.
        let streamed = unsafe { region.write_streaming(0, &[1; 128]) };
        // SAFETY: as above.
        let written = unsafe { region.write(60, &[2; 70]) };
        let durable = region.fence(streamed.and(region.flush(written)));
        let counts = region.counts();
        assert_eq!((counts.flushes, counts.fences), (3, 1));
        region.persist(region.publish(512, 3, durable));
        let counts = region.counts();
        assert_eq!((counts.flushes, counts.fences), (4, 2));
        assert_eq!(region.load(512), 3);
    }
}
