//! Tells a checker about the steps on a region.
//!
//! Not through the facade: each checker is told in its own way.
//!
//! To the explorer, a step is no event: its place among those of other threads is what the
//! execution says about the events around it. So it only needs to know which steps race. The other
//! checkers need a point where they can switch threads.

use std::ops::Range;

#[cfg(spanlock_explorer)]
use {
    super::record::lock,
    spanlock_sync::check::Plain,
    std::{collections::HashMap, sync::Mutex},
};

#[cfg(not(spanlock_explorer))]
use spanlock_sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What a checker knows about a region.
#[derive(Debug)]
pub(super) struct Marks {
    /// The words that threads have accessed. Not through the facade: this is state of the harness.
    #[cfg(spanlock_explorer)]
    words: Mutex<HashMap<u64, Plain>>,
    /// Read by each step.
    #[cfg(not(spanlock_explorer))]
    clock: AtomicU64,
}

impl Marks {
    pub(super) fn new() -> Self {
        Marks {
            #[cfg(spanlock_explorer)]
            words: Mutex::default(),
            #[cfg(not(spanlock_explorer))]
            clock: AtomicU64::new(0),
        }
    }

    /// Begins an operation of the calling thread: a moment after the end of the one before.
    pub(super) fn begin_operation(&self) {
        #[cfg(spanlock_explorer)]
        spanlock_sync::check::Moment::begin();
        self.begin();
    }

    /// Begins a step of the calling thread.
    pub(super) fn begin(&self) {
        // Relaxed: nobody writes it. The load lets the checker switch threads here.
        #[cfg(not(spanlock_explorer))]
        self.clock.load(Relaxed);
    }

    /// Marks the words that the current step reads or writes.
    pub(super) fn touch(&self, range: &Range<u64>, writes: bool) {
        #[cfg(spanlock_explorer)]
        let mut words = lock(&self.words);
        #[cfg(spanlock_explorer)]
        for word in range.start / 8..range.end.div_ceil(8) {
            let word = words.entry(word).or_insert_with(Plain::blank);
            match writes {
                true => word.write(),
                false => word.read(),
            }
        }
        let _ = (range, writes);
    }
}
