//! The free places: extents in memory.
//!
//! Nothing of this is on the medium: recovery determines which places are free (O-S3). A request
//! takes the shortest extent that suffices, so that small requests leave the long ones alone, and
//! the used part of the medium grows from its start; the table grows with it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use spanlock_sync::Mutex;

use super::error::Error;

/// The free places that only a batch takes that gives others back: at most this many, and at most a
/// 64th of the medium. So a full space can be emptied.
const KEPT: u64 = 4;

/// The free places of a medium.
#[derive(Debug)]
pub(super) struct Free {
    extents: Mutex<Extents>,
    kept: u64,
}

#[derive(Debug, Default)]
struct Extents {
    /// Start and end of each.
    extents: BTreeMap<u64, u64>,
    /// Length and start of each.
    lengths: BTreeSet<(u64, u64)>,
    count: u64,
}

impl Extents {
    fn insert(&mut self, extent: Range<u64>) {
        let len = extent.end - extent.start;
        self.extents.insert(extent.start, extent.end);
        self.lengths.insert((len, extent.start));
        self.count += len;
    }

    fn remove_at(&mut self, start: u64) -> Option<Range<u64>> {
        let end = self.extents.remove(&start)?;
        self.lengths.remove(&(end - start, start));
        self.count -= end - start;
        Some(start..end)
    }

    /// Takes up to `want` places: all of them from one extent, or else the longest extent.
    fn take(&mut self, want: u64) -> Option<Range<u64>> {
        let found = self.lengths.range((want, 0)..).next();
        let &(_, start) = found.or(self.lengths.last())?;
        let found = self.remove_at(start)?;
        let taken = start..found.end.min(start + want);
        if taken.end < found.end {
            self.insert(taken.end..found.end);
        }
        Some(taken)
    }

    /// Takes exactly these places, which are free.
    fn remove(&mut self, places: Range<u64>) {
        let found = self.extents.range(..=places.start).next_back();
        let start = *found.expect("free places").0;
        let found = self.remove_at(start).expect("just found");
        for rest in [start..places.start, places.end..found.end] {
            if !rest.is_empty() {
                self.insert(rest);
            }
        }
    }

    /// Adds an extent, and joins it with its neighbours.
    fn release(&mut self, mut extent: Range<u64>) {
        if let Some((&start, &end)) = self.extents.range(..extent.end).next_back() {
            debug_assert!(end <= extent.start, "{extent:?} was already free");
            if end == extent.start {
                self.remove_at(start);
                extent.start = start;
            }
        }
        if let Some(next) = self.remove_at(extent.end) {
            extent.end = next.end;
        }
        self.insert(extent);
    }
}

impl Free {
    /// All places up to `places` are free, except those in `taken`, which do not overlap.
    pub(super) fn new(places: u64, taken: impl IntoIterator<Item = Range<u64>>) -> Self {
        let mut free = Extents::default();
        free.release(0..places);
        for extent in taken {
            free.remove(extent);
        }
        Free {
            extents: Mutex::new(free),
            kept: KEPT.min(places / 64),
        }
    }

    /// Takes `want` places: the last ones only for a batch that gives places back.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; nothing was taken.
    pub(super) fn take(&self, want: u64, is_shrinking: bool) -> Result<Vec<Range<u64>>, Error> {
        let mut free = self.extents.lock();
        let kept = if is_shrinking { 0 } else { self.kept };
        let usable = free.count.saturating_sub(kept);
        if want > usable {
            let (needed, free) = (want, usable);
            return Err(Error::NoSpace { needed, free });
        }
        let (mut taken, mut left) = (Vec::new(), want);
        while left > 0 {
            let extent = free.take(left).expect("enough are free");
            left -= extent.end - extent.start;
            taken.push(extent);
        }
        Ok(taken)
    }

    /// Releases places. The record that took them from their blocks is durable and applied (O-S3),
    /// or no record names them.
    pub(super) fn release(&self, extent: Range<u64>) {
        self.extents.lock().release(extent);
    }

    /// Returns the free places in ascending order.
    pub(super) fn extents(&self) -> Vec<Range<u64>> {
        let free = self.extents.lock();
        free.extents
            .iter()
            .map(|(&start, &end)| start..end)
            .collect()
    }

    /// Returns the number of free places.
    pub(super) fn count(&self) -> u64 {
        self.extents.lock().count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_taken_once_and_released_again() {
        let free = Free::new(1000, [3..5, 5..9, 100..101]);
        assert_eq!(free.count(), 993);
        let mut seen = [false; 1000];
        let mut all = Vec::new();
        for want in [1, 20, 300, 672] {
            for place in free.take(want, true).unwrap().into_iter().flatten() {
                assert!(!seen[place as usize], "{place}");
                seen[place as usize] = true;
                all.push(place);
            }
        }
        let taken: Vec<_> = (0..1000).filter(|&it| !seen[it as usize]).collect();
        assert_eq!(taken, [3, 4, 5, 6, 7, 8, 100]);
        let error = free.take(1, true).unwrap_err();
        assert!(matches!(error, Error::NoSpace { needed: 1, free: 0 }));
        for place in all.iter().step_by(2).chain(all.iter().skip(1).step_by(2)) {
            free.release(*place..place + 1);
        }
        // Neighbours have joined again.
        assert_eq!(free.take(895, false).unwrap()[0], 101..996);
        assert!(free.take(99, true).is_err());
        assert_eq!(free.count(), 98);
        // The last four are kept for batches that give places back.
        assert!(free.take(95, false).is_err());
        free.take(94, false).unwrap();
        free.take(4, true).unwrap();
    }
}
