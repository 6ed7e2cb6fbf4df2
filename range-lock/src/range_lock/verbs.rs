//! The verbs of a [`RangeLock`]: the short way to its guards.

use core::ops::Range;
#[cfg(feature = "std")]
use std::time::{Duration, Instant};

use super::{
    RangeBatchGuard, RangeGuard, RangeLock, RangeReadGuard, RangeUpgradableGuard, RangeWriteGuard,
};
#[cfg(feature = "std")]
use crate::error::TimedLockError;
use crate::error::{RangeError, TryLockError};
use crate::powers::{RawRangeLockBatch, RawRangeLockWait};
use crate::raw::{Access, RawRangeLock};

impl<T, L: RawRangeLock> RangeLock<T, L> {
    /// The elements of `range`, to read; blocks while a writer holds part of it. Ordering: Acquire.
    ///
    /// # Errors
    /// A reversed range, or one past the last element.
    #[inline]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn read(&self, range: Range<usize>) -> Result<RangeReadGuard<'_, T, L>, RangeError> {
        RangeGuard::lock(self, range)
    }

    /// The elements of `range`, to read, with the right to write later; blocks while a writer or another
    /// upgradable reader holds part of it. Ordering: Acquire.
    ///
    /// # Errors
    /// A reversed range, or one past the last element.
    #[inline]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn upgradable_read(
        &self,
        range: Range<usize>,
    ) -> Result<RangeUpgradableGuard<'_, T, L>, RangeError> {
        RangeGuard::lock(self, range)
    }

    /// The elements of `range`, to write; blocks while anybody holds part of it. Ordering: Acquire.
    ///
    /// # Errors
    /// A reversed range, or one past the last element.
    #[inline]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn write(&self, range: Range<usize>) -> Result<RangeWriteGuard<'_, T, L>, RangeError> {
        RangeGuard::lock(self, range)
    }

    /// As [`read`](Self::read), but never blocks.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if it would have to wait; else as [`read`](Self::read).
    #[inline]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn try_read(&self, range: Range<usize>) -> Result<RangeReadGuard<'_, T, L>, TryLockError> {
        RangeGuard::try_lock(self, range)
    }

    /// As [`upgradable_read`](Self::upgradable_read), but never blocks.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if it would have to wait; else as [`upgradable_read`](Self::upgradable_read).
    #[inline]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn try_upgradable_read(
        &self,
        range: Range<usize>,
    ) -> Result<RangeUpgradableGuard<'_, T, L>, TryLockError> {
        RangeGuard::try_lock(self, range)
    }

    /// As [`write`](Self::write), but never blocks.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if it would have to wait; else as [`write`](Self::write).
    #[inline]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn try_write(
        &self,
        range: Range<usize>,
    ) -> Result<RangeWriteGuard<'_, T, L>, TryLockError> {
        RangeGuard::try_lock(self, range)
    }

    /// Several ranges of elements, taken together; blocks until there is no hold that conflicts with any. Ordering: Acquire.
    ///
    /// They may come in any order, overlap and repeat: an element is held with the strongest access that is asked for.
    ///
    /// ```
    /// use spanlock_range_lock::{Access, RangeLock, RwCounter};
    ///
    /// let lock = RangeLock::<_, RwCounter>::new([1, 2, 3, 4, 5, 6]);
    /// let mut both = lock.lock_all([(4..6, Access::Write), (0..2, Access::Write)])?;
    /// let [low, high] = both.get_disjoint_mut([0..2, 4..6]).unwrap();
    /// low.swap_with_slice(high);
    /// drop(both);
    /// assert_eq!(lock.read(0..6)?[..], [5, 6, 3, 4, 1, 2]);
    /// # Ok::<(), spanlock_range_lock::RangeError>(())
    /// ```
    ///
    /// # Errors
    /// A reversed range, or one past the last element. Nothing is held.
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn lock_all(
        &self,
        requests: impl IntoIterator<Item = (Range<usize>, Access)>,
    ) -> Result<RangeBatchGuard<&Self, T>, RangeError>
    where
        L: RawRangeLockBatch,
    {
        RangeBatchGuard::lock(self, requests)
    }

    /// As [`lock_all`](Self::lock_all) if that is possible at once; never blocks. Ordering: Acquire on success.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if it would have to wait for any; else as [`lock_all`](Self::lock_all). Nothing is held.
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn try_lock_all(
        &self,
        requests: impl IntoIterator<Item = (Range<usize>, Access)>,
    ) -> Result<RangeBatchGuard<&Self, T>, TryLockError>
    where
        L: RawRangeLockBatch,
    {
        RangeBatchGuard::try_lock(self, requests)
    }
}

/// With a lock whose requests can be given up.
impl<T, L: RawRangeLockWait> RangeLock<T, L> {
    /// As [`read`](Self::read), but gives up after `timeout`; one that is too long for the clock is for ever.
    ///
    /// # Errors
    /// [`TimedLockError::TimedOut`], and no trace is left; else as [`read`](Self::read).
    #[cfg(feature = "std")]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn try_read_for(
        &self,
        range: Range<usize>,
        timeout: Duration,
    ) -> Result<RangeReadGuard<'_, T, L>, TimedLockError> {
        RangeGuard::try_lock_for(self, range, timeout)
    }

    /// As [`read`](Self::read), but gives up at `deadline`; one in the past makes it a try.
    ///
    /// # Errors
    /// [`TimedLockError::TimedOut`], and no trace is left; else as [`read`](Self::read).
    #[cfg(feature = "std")]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn try_read_until(
        &self,
        range: Range<usize>,
        deadline: Instant,
    ) -> Result<RangeReadGuard<'_, T, L>, TimedLockError> {
        RangeGuard::try_lock_until(self, range, deadline)
    }

    /// As [`upgradable_read`](Self::upgradable_read), but gives up after `timeout`; one that is too long for the clock is for ever.
    ///
    /// # Errors
    /// [`TimedLockError::TimedOut`], and no trace is left; else as [`upgradable_read`](Self::upgradable_read).
    #[cfg(feature = "std")]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn try_upgradable_read_for(
        &self,
        range: Range<usize>,
        timeout: Duration,
    ) -> Result<RangeUpgradableGuard<'_, T, L>, TimedLockError> {
        RangeGuard::try_lock_for(self, range, timeout)
    }

    /// As [`upgradable_read`](Self::upgradable_read), but gives up at `deadline`; one in the past makes it a try.
    ///
    /// # Errors
    /// [`TimedLockError::TimedOut`], and no trace is left; else as [`upgradable_read`](Self::upgradable_read).
    #[cfg(feature = "std")]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn try_upgradable_read_until(
        &self,
        range: Range<usize>,
        deadline: Instant,
    ) -> Result<RangeUpgradableGuard<'_, T, L>, TimedLockError> {
        RangeGuard::try_lock_until(self, range, deadline)
    }

    /// As [`write`](Self::write), but gives up after `timeout`; one that is too long for the clock is for ever.
    ///
    /// # Errors
    /// [`TimedLockError::TimedOut`], and no trace is left; else as [`write`](Self::write).
    #[cfg(feature = "std")]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn try_write_for(
        &self,
        range: Range<usize>,
        timeout: Duration,
    ) -> Result<RangeWriteGuard<'_, T, L>, TimedLockError> {
        RangeGuard::try_lock_for(self, range, timeout)
    }

    /// As [`write`](Self::write), but gives up at `deadline`; one in the past makes it a try.
    ///
    /// # Errors
    /// [`TimedLockError::TimedOut`], and no trace is left; else as [`write`](Self::write).
    #[cfg(feature = "std")]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    pub fn try_write_until(
        &self,
        range: Range<usize>,
        deadline: Instant,
    ) -> Result<RangeWriteGuard<'_, T, L>, TimedLockError> {
        RangeGuard::try_lock_until(self, range, deadline)
    }

    /// As [`read`](Self::read), by a future, which blocks no thread; dropping it gives the request up.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub async fn read_async(
        &self,
        range: Range<usize>,
    ) -> Result<RangeReadGuard<'_, T, L>, RangeError> {
        RangeGuard::lock_async(self, range).await
    }

    /// As [`upgradable_read`](Self::upgradable_read), by a future, which blocks no thread; dropping it gives the request up.
    ///
    /// # Errors
    /// As [`upgradable_read`](Self::upgradable_read).
    pub async fn upgradable_read_async(
        &self,
        range: Range<usize>,
    ) -> Result<RangeUpgradableGuard<'_, T, L>, RangeError> {
        RangeGuard::lock_async(self, range).await
    }

    /// As [`write`](Self::write), by a future, which blocks no thread; dropping it gives the request up.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub async fn write_async(
        &self,
        range: Range<usize>,
    ) -> Result<RangeWriteGuard<'_, T, L>, RangeError> {
        RangeGuard::lock_async(self, range).await
    }
}
