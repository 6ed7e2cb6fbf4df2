//! [`RangeBatchGuard`]: the elements of several ranges that are held together.

use core::fmt;
use core::future::Future;
use core::ops::Range;
#[cfg(feature = "std")]
use std::time::{Duration, Instant};

use super::guard::SliceRef;
use crate::block::RangeOf;
use crate::capabilities::{RawRangeLockBatch, RawRangeLockBatchWait};
#[cfg(feature = "std")]
use crate::error::TimedLockError;
use crate::error::{DisjointError, RangeError, TryLockError};
#[cfg(feature = "std")]
use crate::guard::deadline::Limit;
use crate::guard::{BatchFuture, BatchHold, LockRef};
use crate::positions::{IntoRange, in_hold, in_slice};
use crate::raw::{Access, Span};

/// Several ranges of a [`RangeLock`](crate::RangeLock), held together. Dropping it releases them
/// all.
///
/// [`RangeLock::lock_all`](crate::RangeLock::lock_all) makes one. Ranges are indices into the whole
/// slice. Elements that were not requested are out of reach, even where the lock rounds outwards.
///
/// The **parts** of a guard are the ranges requested, in ascending order; of ranges that overlap,
/// adjacent elements of equal access form one part. Up to 64 parts need no memory but the guard's
/// own 2 KiB, unless some ranges overlap.
#[must_use = "dropping the guard at once releases the ranges"]
pub struct RangeBatchGuard<P: LockRef, T> {
    /// The first element of the slice. `*mut`, so that the guard is invariant in `T` (RL-I3).
    first: *mut T,
    /// Its parts lie within the slice.
    hold: BatchHold<P>,
}

// SAFETY: holds may be released by another thread (`RawRangeLock`, 4). The guard lends `&[T]` and
// `&mut [T]`. An owned guard may be the last owner of the elements and of what the lock is a part
// of, which is `Send` (`slice_ref`), and drop them.
unsafe impl<P: LockRef, T: Send + Sync> Send for RangeBatchGuard<P, T> {}
// SAFETY: a shared guard lends only `&[T]`.
unsafe impl<P: LockRef, T: Sync> Sync for RangeBatchGuard<P, T> {}

impl<T, P: SliceRef<T> + LockRef<Lock: RawRangeLockBatch>> RangeBatchGuard<P, T> {
    /// Locks all the ranges; blocks until no conflicting hold is left. Ordering: Acquire.
    ///
    /// # Errors
    /// A reversed range, one past the last element, or no memory; rows of blocks that overlap.
    /// Nothing is held then.
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn lock(
        lock: P,
        requests: impl IntoIterator<Item = (impl RangeOf<T>, Access)>,
    ) -> Result<Self, RangeError> {
        let mut guard = Self::new(lock);
        guard.ask_for(requests)?;
        guard.hold.acquire()?;
        Ok(guard)
    }

    /// Locks all the ranges if that is possible at once; never blocks. Ordering: Acquire on
    /// success.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if it would have to wait for any of them; otherwise as for
    /// [`lock`](Self::lock). Nothing is held then.
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn try_lock(
        lock: P,
        requests: impl IntoIterator<Item = (impl RangeOf<T>, Access)>,
    ) -> Result<Self, TryLockError> {
        let mut guard = Self::new(lock);
        guard.ask_for(requests)?;
        guard.hold.try_acquire()?;
        Ok(guard)
    }
}

impl<T, P: SliceRef<T>> RangeBatchGuard<P, T> {
    /// Returns a guard that holds nothing.
    #[inline]
    fn new(lock: P) -> Self {
        RangeBatchGuard {
            first: lock.elements().0,
            hold: BatchHold::new(lock),
        }
    }

    fn ask_for<R: RangeOf<T>>(
        &mut self,
        requests: impl IntoIterator<Item = (R, Access)>,
    ) -> Result<(), RangeError> {
        let (_, len) = self.hold.lock_ref().elements();
        let requests = requests.into_iter();
        let requests = requests.map(|(range, access)| Ok((in_slice(range.range()?, len)?, access)));
        self.hold.ask(requests, R::APART)
    }
}

impl<T, P: SliceRef<T> + LockRef<Lock: RawRangeLockBatchWait>> RangeBatchGuard<P, T> {
    /// Locks all the ranges; blocks until no conflicting hold is left, for at most `timeout`. A
    /// timeout too long for the clock never ends. Ordering: Acquire on success.
    ///
    /// # Errors
    /// [`TimedLockError::TimedOut`], with no trace left; otherwise as for [`lock`](Self::lock).
    #[cfg(feature = "std")]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn try_lock_for(
        lock: P,
        requests: impl IntoIterator<Item = (impl RangeOf<T>, Access)>,
        timeout: Duration,
    ) -> Result<Self, TimedLockError> {
        let mut guard = Self::new(lock);
        guard.ask_for(requests)?;
        guard.wait(Limit::For(timeout))
    }

    /// Locks all the ranges; blocks until no conflicting hold is left or `deadline` has passed. A
    /// deadline in the past makes this a try. Ordering: Acquire on success.
    ///
    /// # Errors
    /// [`TimedLockError::TimedOut`], with no trace left; otherwise as for [`lock`](Self::lock).
    #[cfg(feature = "std")]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn try_lock_until(
        lock: P,
        requests: impl IntoIterator<Item = (impl RangeOf<T>, Access)>,
        deadline: Instant,
    ) -> Result<Self, TimedLockError> {
        let mut guard = Self::new(lock);
        guard.ask_for(requests)?;
        guard.wait(Limit::Until(deadline))
    }

    #[cfg(feature = "std")]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    fn wait(self, limit: Limit) -> Result<Self, TimedLockError> {
        let RangeBatchGuard { first, hold } = self;
        let hold = hold.wait(limit)?;
        Ok(RangeBatchGuard { first, hold })
    }

    /// Returns a future that locks all the ranges. Never blocks. Dropping the future gives up the
    /// request. Like any `async fn`, it panics when polled after completion.
    ///
    /// # Errors
    /// As for [`lock`](Self::lock).
    pub fn lock_async(
        lock: P,
        requests: impl IntoIterator<Item = (impl RangeOf<T>, Access)>,
    ) -> impl Future<Output = Result<Self, RangeError>> {
        let mut guard = Self::new(lock);
        let asked = guard.ask_for(requests);
        // Not the guard itself: its pointer would keep the future in one thread.
        let request = BatchFuture::new(guard.hold, asked);
        async {
            let hold = request.await?;
            let (first, _) = hold.lock_ref().elements();
            Ok(RangeBatchGuard { first, hold })
        }
    }
}

impl<P: LockRef, T> RangeBatchGuard<P, T> {
    /// Returns the parts, each with the strongest access requested in it.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = (Range<usize>, Access)> {
        let parts = self.hold.parts().iter();
        parts.map(|&(span, how)| (elements(span), how))
    }

    /// Returns the elements of each part that is held for writing, in ascending order: for a
    /// [`Block`](crate::Block), of each row.
    ///
    /// ```
    /// use spanlock_range_lock::{Access, Block, RangeLock, RwCounter};
    ///
    /// let plane = RangeLock::with_lock(vec![0_u8; 6 * 10], RwCounter::new())?;
    /// let block = Block::new(1..4, 2..6, 10)?;
    /// let mut tile = plane.lock_all(block.rows(Access::Write))?;
    /// let mut rows: Vec<&mut [u8]> = tile.parts_mut().collect();
    /// rows[0].fill(1);
    /// let (above, below) = rows.split_at_mut(1);
    /// below[1].copy_from_slice(above[0]);
    /// drop(tile);
    /// assert_eq!(plane.read(30..40)?[..], [0, 0, 1, 1, 1, 1, 0, 0, 0, 0]);
    /// # Ok::<(), spanlock_range_lock::RangeError>(())
    /// ```
    ///
    /// The slices borrow the guard, so none outlives the hold:
    ///
    /// ```compile_fail,E0505
    /// use spanlock_range_lock::{Access, Block, RangeLock, RwCounter};
    ///
    /// let plane = RangeLock::with_lock(vec![0_u8; 60], RwCounter::new()).unwrap();
    /// let block = Block::new(1..4, 2..6, 10).unwrap();
    /// let mut tile = plane.lock_all(block.rows(Access::Write)).unwrap();
    /// let row = tile.parts_mut().next().unwrap();
    /// drop(tile);
    /// row.fill(1);
    /// ```
    pub fn parts_mut(&mut self) -> impl Iterator<Item = &mut [T]> {
        let first = self.first;
        let parts = self.hold.parts().iter();
        let written = parts.filter(|&&(_, how)| how == Access::Write);
        // SAFETY: RL-I2: each part is held exclusively for as long as `self` lives, and lies within
        // the slice. `&mut self` makes these the guard's only references, and parts are disjoint.
        written.map(move |&(span, _)| unsafe { &mut *slice(first, &elements(span)) })
    }

    /// Returns the elements of `range` if all of them are held, with any access.
    pub fn get(&self, range: impl IntoRange) -> Option<&[T]> {
        let range = self.range(range)?;
        if !self.holds(&range, Access::Read) {
            return None;
        }
        // SAFETY: RL-I2: all of `range` is held for as long as `self` lives, and lies within the
        // slice.
        Some(unsafe { &*slice(self.first, &range) })
    }

    /// Returns the elements of `range` mutably if all of them are held for writing.
    pub fn get_mut(&mut self, range: impl IntoRange) -> Option<&mut [T]> {
        let [elements] = self.get_disjoint_mut([range]).ok()?;
        Some(elements)
    }

    /// Returns the elements of each range mutably, like [`slice::get_disjoint_mut`].
    ///
    /// # Errors
    /// [`DisjointError::NotHeld`] if any element is not held for writing,
    /// [`DisjointError::Overlap`] if two ranges overlap.
    pub fn get_disjoint_mut<const N: usize>(
        &mut self,
        ranges: [impl IntoRange; N],
    ) -> Result<[&mut [T]; N], DisjointError> {
        let mut within = [const { 0..0 }; N];
        for (index, (within, range)) in within.iter_mut().zip(ranges).enumerate() {
            *within = (self.range(range)).ok_or(DisjointError::NotHeld { index })?;
        }
        self.disjoint_mut(within)
    }

    fn disjoint_mut<const N: usize>(
        &mut self,
        ranges: [Range<usize>; N],
    ) -> Result<[&mut [T]; N], DisjointError> {
        for (other, range) in ranges.iter().enumerate() {
            if !self.holds(range, Access::Write) {
                return Err(DisjointError::NotHeld { index: other });
            }
            let overlaps = |o: &Range<usize>| {
                !range.is_empty() && !o.is_empty() && range.start < o.end && o.start < range.end
            };
            if let Some(index) = ranges[..other].iter().position(overlaps) {
                return Err(DisjointError::Overlap { index, other });
            }
        }
        // SAFETY: RL-I2: all ranges are held exclusively for as long as `self` lives, and lie
        // within the slice. `&mut self` makes these the guard's only references, and no two of them
        // overlap.
        Ok(ranges.map(|range| unsafe { &mut *slice(self.first, &range) }))
    }

    /// Returns `range` in elements, if it lies between the first and the last held element. A
    /// missing bound is one of these.
    fn range(&self, range: impl IntoRange) -> Option<Range<usize>> {
        let parts = self.hold.parts();
        let start = parts.first().map_or(0, |(span, _)| span.start());
        let end = parts.last().map_or(0, |(span, _)| span.end());
        let range = in_hold(range.bounds().ok()?, start..end).ok()?;
        Some(range.start as usize..range.end as usize)
    }

    /// Returns whether every position of `range` is held with `least` or more. An empty range must
    /// lie within a part or at its border.
    fn holds(&self, range: &Range<usize>, least: Access) -> bool {
        let (mut start, end) = (range.start as u64, range.end as u64);
        if start > end {
            return false;
        }
        let parts = self.hold.parts();
        let from = parts.partition_point(|(span, _)| span.end() < start);
        for &(span, how) in &parts[from..] {
            if span.start() > start {
                return false;
            }
            if how >= least {
                start = span.end();
                if end <= start {
                    return true;
                }
            }
        }
        false
    }
}

/// Returns a part as indices: it lies within a slice.
fn elements(part: Span) -> Range<usize> {
    part.start() as usize..part.end() as usize
}

/// Returns the elements of `range`, which lies within the slice that begins at `first`. A pointer
/// and not a reference, because a guard may not hold all of them for writing (RL-I2).
fn slice<T>(first: *mut T, range: &Range<usize>) -> *mut [T] {
    // SAFETY: within the slice: in bounds, or one past the end (RL-I1).
    let first = unsafe { first.add(range.start) };
    core::ptr::slice_from_raw_parts_mut(first, range.end - range.start)
}

impl<P: LockRef, T: fmt::Debug> fmt::Debug for RangeBatchGuard<P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let elements = |(range, _): (Range<usize>, _)| (range.clone(), self.get(range));
        f.debug_map().entries(self.parts().map(elements)).finish()
    }
}
