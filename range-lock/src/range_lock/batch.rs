//! [`RangeBatchGuard`]: the elements of several ranges that are held together.

use alloc::vec::Vec;
use core::fmt;
use core::future::Future;
use core::ops::Range;
use core::slice::GetDisjointMutError;
#[cfg(feature = "std")]
use std::time::{Duration, Instant};

use super::guard::SliceRef;
use crate::capabilities::{RawRangeLockBatch, RawRangeLockBatchWait};
#[cfg(feature = "std")]
use crate::error::TimedLockError;
use crate::error::{RangeError, TryLockError};
use crate::guard::{BatchHold, Borders, LockRef};
use crate::positions::{IntoRange, in_hold, in_slice};
use crate::raw::{Access, Span};

/// Several ranges of a [`RangeLock`](crate::RangeLock), held together. Dropping it releases them
/// all.
///
/// [`RangeLock::lock_all`](crate::RangeLock::lock_all) makes one. Ranges are indices into the whole
/// slice. Elements that were not requested are out of reach, even where the lock rounds outwards.
#[must_use = "dropping the guard at once releases the ranges"]
pub struct RangeBatchGuard<P: LockRef, T> {
    /// The first element of the slice. `*mut`, so that the guard is invariant in `T` (RL-I3).
    first: *mut T,
    /// The requested ranges, in ascending order and merged. They lie within the slice and are held
    /// by `_hold`.
    parts: Vec<(Span, Access)>,
    _hold: BatchHold<P>,
}

// SAFETY: holds may be released by another thread (`RawRangeLock`, 4). The guard lends `&[T]` and
// `&mut [T]`. An owned guard may be the last owner of the elements, and drop them.
unsafe impl<P: LockRef, T: Send + Sync> Send for RangeBatchGuard<P, T> {}
// SAFETY: a shared guard lends only `&[T]`.
unsafe impl<P: LockRef, T: Sync> Sync for RangeBatchGuard<P, T> {}

impl<T, P: SliceRef<T> + LockRef<Lock: RawRangeLockBatch>> RangeBatchGuard<P, T> {
    /// Locks all the ranges; blocks until no conflicting hold is left. Ordering: Acquire.
    ///
    /// # Errors
    /// A reversed range, one past the last element, or no memory. Nothing is held then.
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn lock(
        lock: P,
        requests: impl IntoIterator<Item = (impl IntoRange, Access)>,
    ) -> Result<Self, RangeError> {
        let first = lock.elements().0;
        let parts = asked(&lock, requests)?;
        let _hold = BatchHold::lock(lock, ranges(&parts))?;
        Ok(RangeBatchGuard {
            first,
            parts,
            _hold,
        })
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
        requests: impl IntoIterator<Item = (impl IntoRange, Access)>,
    ) -> Result<Self, TryLockError> {
        let first = lock.elements().0;
        let parts = asked(&lock, requests)?;
        let _hold = BatchHold::try_lock(lock, ranges(&parts))?;
        Ok(RangeBatchGuard {
            first,
            parts,
            _hold,
        })
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
        requests: impl IntoIterator<Item = (impl IntoRange, Access)>,
        timeout: Duration,
    ) -> Result<Self, TimedLockError> {
        let first = lock.elements().0;
        let parts = asked(&lock, requests)?;
        let _hold = BatchHold::try_lock_for(lock, ranges(&parts), timeout)?;
        Ok(RangeBatchGuard {
            first,
            parts,
            _hold,
        })
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
        requests: impl IntoIterator<Item = (impl IntoRange, Access)>,
        deadline: Instant,
    ) -> Result<Self, TimedLockError> {
        let first = lock.elements().0;
        let parts = asked(&lock, requests)?;
        let _hold = BatchHold::try_lock_until(lock, ranges(&parts), deadline)?;
        Ok(RangeBatchGuard {
            first,
            parts,
            _hold,
        })
    }

    /// Returns a future that locks all the ranges. Never blocks. Dropping the future gives up the
    /// request. Like any `async fn`, it panics when polled after completion.
    ///
    /// # Errors
    /// As for [`lock`](Self::lock).
    pub fn lock_async(
        lock: P,
        requests: impl IntoIterator<Item = (impl IntoRange, Access)>,
    ) -> impl Future<Output = Result<Self, RangeError>> {
        let parts = asked(&lock, requests);
        Self::lock_asked_async(lock, parts)
    }

    async fn lock_asked_async(
        lock: P,
        parts: Result<Vec<(Span, Access)>, RangeError>,
    ) -> Result<Self, RangeError> {
        let parts = parts?;
        let _hold = BatchHold::lock_async(lock.clone(), ranges(&parts)).await?;
        let first = lock.elements().0;
        Ok(RangeBatchGuard {
            first,
            parts,
            _hold,
        })
    }
}

/// Returns the requested ranges exactly, without rounding to the lock's granularity.
fn asked<T>(
    lock: &impl SliceRef<T>,
    requests: impl IntoIterator<Item = (impl IntoRange, Access)>,
) -> Result<Vec<(Span, Access)>, RangeError> {
    let len = lock.elements().1;
    let mut borders = Borders::default();
    for (range, access) in requests {
        borders.add(in_slice(range, len)?, access, 1, len as u64)?;
    }
    borders.into_parts()
}

fn ranges(parts: &[(Span, Access)]) -> impl Iterator<Item = (Range<u64>, Access)> {
    parts.iter().map(|&(span, access)| (span.range(), access))
}

impl<P: LockRef, T> RangeBatchGuard<P, T> {
    /// Returns the held ranges: those requested, in ascending order and merged, each with the
    /// strongest access requested in it.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = (Range<usize>, Access)> {
        let range = |span: Span| span.start() as usize..span.end() as usize;
        self.parts
            .iter()
            .map(move |&(span, how)| (range(span), how))
    }

    /// Returns the elements of `range` if all of them are held, with any access.
    pub fn get(&self, range: impl IntoRange) -> Option<&[T]> {
        let range = self.range(range)?;
        if !self.holds(&range, Access::Read) {
            return None;
        }
        // SAFETY: RL-I2: all of `range` is held for as long as `self` lives, and lies within the
        // slice.
        Some(unsafe { &*self.elements(&range) })
    }

    /// Returns the elements of `range` mutably if all of them are held for writing.
    pub fn get_mut(&mut self, range: impl IntoRange) -> Option<&mut [T]> {
        let [elements] = self.get_disjoint_mut([range]).ok()?;
        Some(elements)
    }

    /// Returns the elements of each range mutably, like [`slice::get_disjoint_mut`].
    ///
    /// # Errors
    /// [`GetDisjointMutError::IndexOutOfBounds`] if any element is not held for writing,
    /// [`GetDisjointMutError::OverlappingIndices`] if two ranges overlap.
    pub fn get_disjoint_mut<const N: usize>(
        &mut self,
        ranges: [impl IntoRange; N],
    ) -> Result<[&mut [T]; N], GetDisjointMutError> {
        let mut within = [const { 0..0 }; N];
        for (within, range) in within.iter_mut().zip(ranges) {
            *within = (self.range(range)).ok_or(GetDisjointMutError::IndexOutOfBounds)?;
        }
        self.disjoint_mut(within)
    }

    fn disjoint_mut<const N: usize>(
        &mut self,
        ranges: [Range<usize>; N],
    ) -> Result<[&mut [T]; N], GetDisjointMutError> {
        for (i, range) in ranges.iter().enumerate() {
            if !self.holds(range, Access::Write) {
                return Err(GetDisjointMutError::IndexOutOfBounds);
            }
            let overlaps =
                |other: &Range<usize>| range.start < other.end && other.start < range.end;
            if !range.is_empty() && ranges[..i].iter().any(|o| !o.is_empty() && overlaps(o)) {
                return Err(GetDisjointMutError::OverlappingIndices);
            }
        }
        // SAFETY: RL-I2: all ranges are held exclusively for as long as `self` lives, and lie
        // within the slice. `&mut self` makes these the guard's only references, and no two of them
        // overlap.
        Ok(ranges.map(|range| unsafe { &mut *self.elements(&range) }))
    }

    /// Returns `range` in elements, if it lies between the first and the last held element. A
    /// missing bound is one of these.
    fn range(&self, range: impl IntoRange) -> Option<Range<usize>> {
        let start = self.parts.first().map_or(0, |(span, _)| span.start());
        let end = self.parts.last().map_or(0, |(span, _)| span.end());
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
        let strong = self.parts.iter().filter(|&&(_, how)| how >= least);
        for &(span, _) in strong {
            if span.start() <= start && start <= span.end() {
                start = span.end();
                if end <= start {
                    return true;
                }
            }
        }
        false
    }

    /// Returns the elements of `range`, which lies within the slice. A pointer and not a reference,
    /// because the guard may not hold all of them for writing (RL-I2).
    fn elements(&self, range: &Range<usize>) -> *mut [T] {
        // SAFETY: within the slice: in bounds, or one past the end (RL-I1).
        let first = unsafe { self.first.add(range.start) };
        core::ptr::slice_from_raw_parts_mut(first, range.end - range.start)
    }
}

impl<P: LockRef, T: fmt::Debug> fmt::Debug for RangeBatchGuard<P, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let elements = |(range, _): (Range<usize>, _)| (range.clone(), self.get(range));
        f.debug_map().entries(self.parts().map(elements)).finish()
    }
}
