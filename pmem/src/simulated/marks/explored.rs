//! Tells the explorer which steps on a region race. A step is no event: its place among those of
//! other threads is what the execution says about the events around it.
//!
//! Not through the facade: this is state of the harness.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Mutex;

use spanlock_sync::check::Plain;

use super::super::record::lock;

/// The words of a region that threads have accessed.
#[derive(Debug)]
pub(in crate::simulated) struct Marks(Mutex<HashMap<u64, Plain>>);

impl Marks {
    pub(in crate::simulated) fn new(_len: u64) -> Self {
        Marks(Mutex::default())
    }

    pub(in crate::simulated) fn begin(&self) {}

    /// Not needed: each order of the operations that the execution permits is judged.
    pub(in crate::simulated) fn order(&self, _loosens: bool) {}

    /// Marks the words that the current step reads or writes.
    pub(in crate::simulated) fn touch(&self, range: &Range<u64>, writes: bool) {
        let mut words = lock(&self.0);
        for word in range.start / 8..range.end.div_ceil(8) {
            let word = words.entry(word).or_insert_with(Plain::blank);
            match writes {
                true => word.write(),
                false => word.read(),
            }
        }
    }
}
