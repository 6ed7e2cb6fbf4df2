//! Tells loom and shuttle which steps on a region conflict.

use std::ops::Range;

use spanlock_sync::atomic::{AtomicU64, Ordering::Relaxed};
use spanlock_sync::cell::UnsafeCell;
use spanlock_sync::thread;

use super::super::SECTOR_BYTES;

/// How many threads a region tells apart for the checker.
const THREADS: usize = 8;

/// Cells that hold nothing. The checker records who touches them.
#[derive(Debug)]
pub(in crate::simulated) struct Marks {
    /// Read by each step on the device, which begins with it.
    clock: AtomicU64,
    blocks: Vec<UnsafeCell<()>>,
    /// Written by each thread's own loosening steps, and read by the tightening steps of all
    /// others.
    loosened: [UnsafeCell<()>; THREADS],
}

// SAFETY: no access reads or writes anything through the cells.
unsafe impl Sync for Marks {}
// SAFETY: as above.
unsafe impl Send for Marks {}

impl Marks {
    /// Creates the marks of a region of `len` bytes.
    pub(in crate::simulated) fn new(len: u64) -> Self {
        Marks {
            clock: AtomicU64::new(0),
            blocks: (0..len / SECTOR_BYTES)
                .map(|_| UnsafeCell::new(()))
                .collect(),
            loosened: Default::default(),
        }
    }

    /// Begins a step of the calling thread.
    pub(in crate::simulated) fn begin(&self) {
        // Relaxed: nobody writes it. The load lets the checker switch threads here.
        self.clock.load(Relaxed);
    }

    /// Orders the current step among those of other threads that tighten or loosen.
    pub(in crate::simulated) fn order(&self, loosens: bool) {
        let me = thread::index() % THREADS;
        if loosens {
            self.loosened[me].with_mut(|_| ());
        } else {
            let others = self.loosened.iter().enumerate().filter(|(at, _)| *at != me);
            others.for_each(|(_, it)| it.with(|_| ()));
        }
    }

    /// Marks the bytes that the current step reads or writes.
    pub(in crate::simulated) fn touch(&self, range: &Range<u64>, writes: bool) {
        if range.is_empty() {
            return;
        }
        let (first, end) = (range.start / SECTOR_BYTES, range.end.div_ceil(SECTOR_BYTES));
        for block in &self.blocks[first as usize..end as usize] {
            match writes {
                true => block.with_mut(|_| ()),
                false => block.with(|_| ()),
            }
        }
    }
}
