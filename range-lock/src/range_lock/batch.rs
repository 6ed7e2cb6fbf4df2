//! [`RangeBatchGuard`]: the elements of several ranges that are held together.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use core::slice::GetDisjointMutError;

use super::guard::{SliceRef, checked};
use crate::error::{RangeError, TryLockError};
use crate::guard::{BatchHold, LockRef, normalised};
use crate::capabilities::RawRangeLockBatch;
use crate::raw::{Access, Span};

/// Several ranges of a [`RangeLock`](crate::RangeLock), held together. Dropping it releases them all.
///
/// [`RangeLock::lock_all`](crate::RangeLock::lock_all) makes one. Ranges are those of the whole slice; what was not asked for is out of reach, also
/// where the lock rounds.
#[must_use = "dropping the guard at once releases the ranges"]
pub struct RangeBatchGuard<P: LockRef, T> {
    /// The slice's first element. `*mut`: invariant in `T` (R3).
    first: *mut T,
    /// What was asked for, in ascending order and merged. All of it lies within the slice, and is held by `_hold`.
    parts: Vec<(Span, Access)>,
    _hold: BatchHold<P>,
}

// SAFETY: holds may be released by another thread (`RawRangeLock`, 4). The guard gives `&[T]` and `&mut [T]`; an owned one may be the last to
// own the elements, and drop them.
unsafe impl<P: LockRef, T: Send + Sync> Send for RangeBatchGuard<P, T> {}
// SAFETY: a shared guard gives `&[T]` only.
unsafe impl<P: LockRef, T: Sync> Sync for RangeBatchGuard<P, T> {}

impl<T, P: SliceRef<T> + LockRef<Lock: RawRangeLockBatch>> RangeBatchGuard<P, T> {
    /// Holds all the ranges; blocks until there is no hold that conflicts with any. Ordering: Acquire.
    ///
    /// # Errors
    /// A reversed range, or one past the last element. Nothing is held.
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn lock(
        lock: P,
        requests: impl IntoIterator<Item = (Range<usize>, Access)>,
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

    /// Holds all the ranges if that is possible at once; never blocks. Ordering: Acquire on success.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if it would have to wait for any; else as [`lock`](Self::lock). Nothing is held.
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn try_lock(
        lock: P,
        requests: impl IntoIterator<Item = (Range<usize>, Access)>,
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

/// What is asked for, exactly.
fn asked<T>(
    lock: &impl SliceRef<T>,
    requests: impl IntoIterator<Item = (Range<usize>, Access)>,
) -> Result<Vec<(Span, Access)>, RangeError> {
    let len = lock.elements().1;
    let mut positions = Vec::new();
    for (range, access) in requests {
        positions.push((checked(&range, len)?, access));
    }
    normalised(positions, 1, len as u64)
}

fn ranges(parts: &[(Span, Access)]) -> impl Iterator<Item = (Range<u64>, Access)> {
    parts.iter().map(|&(span, access)| (span.range(), access))
}

impl<P: LockRef, T> RangeBatchGuard<P, T> {
    /// What is held: what was asked for, in ascending order and merged, each with the strongest access that was asked for in it.
    pub fn parts(&self) -> impl ExactSizeIterator<Item = (Range<usize>, Access)> {
        let range = |span: Span| span.start() as usize..span.end() as usize;
        self.parts
            .iter()
            .map(move |&(span, how)| (range(span), how))
    }

    /// The elements of `range`, if all of them are held, with whatever access.
    pub fn get(&self, range: Range<usize>) -> Option<&[T]> {
        if !self.holds(&range, Access::Read) {
            return None;
        }
        // SAFETY: R2: all of it is held for as long as `self` lives; it lies within the slice.
        Some(unsafe { &*self.elements(&range) })
    }

    /// The elements of `range`, to write, if all of them are held to write.
    pub fn get_mut(&mut self, range: Range<usize>) -> Option<&mut [T]> {
        let [elements] = self.get_disjoint_mut([range]).ok()?;
        Some(elements)
    }

    /// The elements of each range, to write, as slices have it.
    ///
    /// # Errors
    /// [`GetDisjointMutError::IndexOutOfBounds`] if not all are held to write, [`GetDisjointMutError::OverlappingIndices`] if
    /// two ranges overlap.
    pub fn get_disjoint_mut<const N: usize>(
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
        // SAFETY: R2: all are held exclusively for as long as `self` lives, and lie within the slice; `&mut self` makes these the guard's
        // only references, and no two overlap.
        Ok(ranges.map(|range| unsafe { &mut *self.elements(&range) }))
    }

    /// Whether every position of `range` is held with `least` or more. An empty range must lie within or at the border of a part.
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

    /// `range`, which lies within the slice. A pointer, not a reference (R2).
    fn elements(&self, range: &Range<usize>) -> *mut [T] {
        // SAFETY: within the slice: in bounds, or one past the end (R1).
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
