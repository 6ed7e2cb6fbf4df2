//! The free places: extents in memory, in shards, before the places that were never used.
//!
//! # Properties
//! - A thread takes places from its own shard. If the shard has too few, it gets a chunk of places
//!   that were never used. Once there are none, the thread takes what other shards have. So threads
//!   rarely share a shard's mutex, and the used part of the medium grows from its start.
//! - Released places go to the shard of their chunk, and join their neighbours there.
//! - Nothing of this is on the medium: recovery determines which places are free (O-S3).
//!
//! # Not guaranteed
//! Taking several extents is not one step. On a nearly full medium, a request can fail while
//! another one, which is going to fail, holds some places.

use std::collections::BTreeMap;
use std::ops::Range;

use spanlock_sync::Mutex;

use super::error::Error;

const SHARDS: u64 = 16;

/// The free extents of a shard: start and end.
#[derive(Debug, Default)]
struct Extents(BTreeMap<u64, u64>);

impl Extents {
    /// Takes up to `want` places: the first extent that suffices, or the first one.
    fn take(&mut self, want: u64) -> Option<Range<u64>> {
        const LOOK: usize = 16;
        let fits = |(start, end): &(&u64, &u64)| *end - *start >= want;
        let found = self.0.iter().take(LOOK).find(fits).or(self.0.iter().next());
        let (start, end) = found.map(|(start, end)| (*start, *end))?;
        self.0.remove(&start);
        let taken = start..end.min(start + want);
        if taken.end < end {
            self.0.insert(taken.end, end);
        }
        Some(taken)
    }

    fn release(&mut self, mut extent: Range<u64>) {
        if let Some((&start, &end)) = self.0.range(..extent.end).next_back() {
            debug_assert!(end <= extent.start, "{extent:?} was already free");
            if end == extent.start {
                self.0.remove(&start);
                extent.start = start;
            }
        }
        if let Some(end) = self.0.remove(&extent.end) {
            extent.end = end;
        }
        self.0.insert(extent.start, extent.end);
    }

    fn count(&self) -> u64 {
        self.0.iter().map(|(start, end)| end - start).sum()
    }
}

/// The free places of a medium.
#[derive(Debug)]
pub(super) struct Free {
    shards: Box<[Mutex<Extents>]>,
    /// The places that were never used.
    fresh: Mutex<Range<u64>>,
    chunk: u64,
}

impl Free {
    /// All places up to `places` are free, except those in `taken`, which is in ascending order.
    pub(super) fn new(places: u64, taken: impl Iterator<Item = Range<u64>>) -> Self {
        let mut free = Free {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            fresh: Mutex::new(0..0),
            chunk: (places / SHARDS / 64).clamp(16, 4096),
        };
        let mut end = 0;
        for extent in taken {
            free.release(end..extent.start);
            end = extent.end;
        }
        *free.fresh.get_mut() = end..places;
        free
    }

    /// Takes `want` places for the thread with this number.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; nothing was taken.
    pub(super) fn take(&self, want: u64, thread: usize) -> Result<Vec<Range<u64>>, Error> {
        let mut taken: Vec<Range<u64>> = Vec::new();
        let mut left = want;
        let mut add = |left: &mut u64, extent: Range<u64>| {
            *left -= extent.end - extent.start;
            match taken.last_mut() {
                Some(last) if last.end == extent.start => last.end = extent.end,
                _ => taken.push(extent),
            }
        };
        let own = thread as u64 % SHARDS;
        while left > 0
            && let Some(extent) = self.take_own(own, left)
        {
            add(&mut left, extent);
        }
        for shard in (own + 1..SHARDS).chain(0..own) {
            while left > 0
                && let Some(extent) = self.shards[shard as usize].lock().take(left)
            {
                add(&mut left, extent);
            }
        }
        if left == 0 {
            return Ok(taken);
        }
        taken.into_iter().for_each(|extent| self.release(extent));
        Err(Error::NoSpace {
            needed: want,
            free: self.count(),
        })
    }

    /// Takes places of the thread's shard, or fresh ones.
    fn take_own(&self, own: u64, want: u64) -> Option<Range<u64>> {
        if let Some(extent) = self.shards[own as usize].lock().take(want) {
            return Some(extent);
        }
        let chunk = {
            let mut fresh = self.fresh.lock();
            let end = fresh
                .end
                .min((fresh.start + want).next_multiple_of(self.chunk));
            let chunk = fresh.start..end;
            fresh.start = end;
            chunk
        };
        if chunk.is_empty() {
            return None;
        }
        let taken = chunk.start..chunk.end.min(chunk.start + want);
        if taken.end < chunk.end {
            self.shards[own as usize]
                .lock()
                .release(taken.end..chunk.end);
        }
        Some(taken)
    }

    /// Releases places. The record that took them from their blocks is durable and applied (O-S3),
    /// or no record names them.
    pub(super) fn release(&self, extent: Range<u64>) {
        let mut start = extent.start;
        while start < extent.end {
            let chunk = start / self.chunk;
            let end = extent.end.min((chunk + 1) * self.chunk);
            let shard = &self.shards[(chunk % SHARDS) as usize];
            shard.lock().release(start..end);
            start = end;
        }
    }

    /// Returns the number of free places.
    pub(super) fn count(&self) -> u64 {
        let shards: u64 = self.shards.iter().map(|it| it.lock().count()).sum();
        let fresh = self.fresh.lock();
        shards + (fresh.end - fresh.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_taken_once_and_released_again() {
        let free = Free::new(1000, [3..5, 5..9, 100..101].into_iter());
        assert_eq!(free.count(), 993);
        let mut seen = [false; 1000];
        let mut all = Vec::new();
        for (thread, want) in [1, 20, 300, 672].into_iter().enumerate() {
            for place in free.take(want, thread).unwrap().into_iter().flatten() {
                assert!(!seen[place as usize], "{place}");
                seen[place as usize] = true;
                all.push(place);
            }
        }
        let taken: Vec<_> = (0..1000).filter(|&it| !seen[it as usize]).collect();
        assert_eq!(taken, [3, 4, 5, 6, 7, 8, 100]);
        let error = free.take(1, 0).unwrap_err();
        assert!(matches!(error, Error::NoSpace { needed: 1, free: 0 }));
        all.into_iter()
            .for_each(|place| free.release(place..place + 1));
        // Neighbours have joined again, within their chunk.
        assert_eq!(free.take(16, 5).unwrap().len(), 1);
        assert_eq!(free.count(), 977);
    }

    #[test]
    fn a_failed_request_takes_nothing() {
        let free = Free::new(100, std::iter::empty());
        assert!(free.take(101, 3).is_err());
        assert_eq!(free.count(), 100);
        assert_eq!(
            free.take(100, 3).unwrap().into_iter().flatten().count(),
            100
        );
    }
}
