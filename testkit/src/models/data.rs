//! The data that a lock protects: one value for each position.

use std::ops::Range;

use spanlock_sync::cell::UnsafeCell;

/// One value for each of four positions. Loom watches the cells, so a data race fails the program.
pub struct Data([UnsafeCell<u32>; 4]);

// SAFETY: threads access a cell only while they hold its position. Loom checks that no accesses
// race.
unsafe impl Sync for Data {}
// SAFETY: the cells hold plain numbers.
unsafe impl Send for Data {}

impl Default for Data {
    fn default() -> Self {
        Data::new()
    }
}

impl Data {
    /// Creates the data, all zero.
    pub fn new() -> Self {
        Data([0; 4].map(UnsafeCell::new))
    }

    /// Adds one at each position. The caller holds `range` exclusively.
    pub fn add_one(&self, range: &Range<u64>) {
        for at in range.clone() {
            // SAFETY: the caller holds `range` exclusively.
            self.0[at as usize].with_mut(|value| unsafe { *value += 1 });
        }
    }

    /// Returns the sum of the values. The caller holds `range`, shared or exclusively.
    pub fn sum(&self, range: &Range<u64>) -> u32 {
        range
            .clone()
            // SAFETY: the caller holds `range`, shared or exclusively.
            .map(|at| self.0[at as usize].with(|value| unsafe { *value }))
            .sum()
    }
}
