//! An allocator that counts the heap of a process, on request.
//!
//! It counts the bytes that callers ask for. What the allocator itself adds to a block, and the
//! pages of mapped files, do not count.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

/// The system's allocator, which counts after [`count`]. Before that it costs a load for each call.
#[derive(Debug)]
pub struct CountedHeap;

// Relaxed, all: they count, and order nothing. A switch or a figure is read by the thread that
// started the counted work, after all of it has ended.
static IS_COUNTING: AtomicBool = AtomicBool::new(false);
static USED: AtomicI64 = AtomicI64::new(0);
static PEAK: AtomicI64 = AtomicI64::new(0);

/// Counts from now on.
pub fn count() {
    IS_COUNTING.store(true, Ordering::Relaxed);
}

/// Returns the most bytes in use at a time since [`count`], beyond those in use then.
///
/// It is exact with one thread. With more, a thread may free a block between another one's count
/// and its update of the peak; the peak is then that of a possible order of the two.
pub fn peak() -> u64 {
    PEAK.load(Ordering::Relaxed).max(0) as u64
}

fn change(by: i64) {
    if IS_COUNTING.load(Ordering::Relaxed) {
        let used = USED.fetch_add(by, Ordering::Relaxed) + by;
        if by > 0 {
            PEAK.fetch_max(used, Ordering::Relaxed);
        }
    }
}

// SAFETY: the system's allocator does everything. Counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for CountedHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        change(layout.size() as i64);
        // SAFETY: the caller gives the same promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        change(layout.size() as i64);
        // SAFETY: the caller gives the same promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        change(-(layout.size() as i64));
        // SAFETY: the caller gives the same promise.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        change(new_size as i64 - layout.size() as i64);
        // SAFETY: the caller gives the same promise.
        unsafe { System.realloc(block, layout, new_size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static HEAP: CountedHeap = CountedHeap;

    /// Other tests of this process allocate meanwhile, so the block is much larger than theirs.
    #[test]
    fn a_block_counts_after_it_is_freed() {
        const BYTES: usize = 1 << 30;
        count();
        drop(std::hint::black_box(Vec::<u8>::with_capacity(BYTES)));
        let peak = peak();
        IS_COUNTING.store(false, Ordering::Relaxed);
        assert!(peak >= (BYTES - (64 << 20)) as u64 && peak < 2 * BYTES as u64);
    }
}
