//! Guards without data: a hold on a range of something that lives elsewhere.
//!
//! `hold.rs` is one hold, whatever its access; `wait.rs` its futures, `deadline.rs` its deadlines; `batch.rs` several in one call;
//! `append.rs` the one whose place is chosen under the lock.

mod append;
mod batch;
#[cfg(feature = "std")]
mod deadline;
pub(crate) mod hold;
mod wait;

use core::ops::Range;
#[cfg(feature = "std")]
use std::time::{Duration, Instant};

pub use batch::BatchHold;
pub(crate) use batch::normalised;
pub use hold::{
    Exclusive, Hold, LockRef, Mode, OwnedReadHold, OwnedUpgradableHold, OwnedWriteHold, ReadHold,
    Readable, Shared, Upgradable, UpgradableHold, WriteHold,
};
pub use wait::LockFuture;

#[cfg(feature = "std")]
use crate::error::TimedLockError;
use crate::error::{RangeError, TryLockError};
use crate::capabilities::{RawRangeLockBatch, RawRangeLockSplit, RawRangeLockWait};
use crate::raw::{Access, RawRangeLock};

/// The verbs, for every [`RawRangeLock`], `dyn` ones included; those that need a power, for every lock that has it.
///
/// The guards hold a range of something that the lock does not own: pages of a file, blocks of a
/// device. To lock data that the lock owns, use [`crate::RangeLock`]. For holds that own a share of their lock, see [`Hold`].
///
/// In all of them an empty range holds nothing, never blocks, and is not checked against the capacity.
pub trait RangeLockExt: RawRangeLock {
    /// Holds `range` shared; blocks while a writer holds part of it. Ordering: Acquire.
    ///
    /// # Errors
    /// A reversed range, or one past the lock's capacity.
    #[inline(always)]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    fn read(&self, range: Range<u64>) -> Result<ReadHold<'_, Self>, RangeError> {
        Hold::lock(self, range)
    }

    /// Holds `range` shared with readers, with the right to become exclusive later; blocks while a writer
    /// or another upgradable reader holds part of it. Ordering: Acquire.
    ///
    /// # Errors
    /// A reversed range, or one past the lock's capacity.
    #[inline]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    fn upgradable_read(&self, range: Range<u64>) -> Result<UpgradableHold<'_, Self>, RangeError> {
        Hold::lock(self, range)
    }

    /// Holds `range` exclusively; blocks while anybody holds part of it. Ordering: Acquire.
    ///
    /// # Errors
    /// A reversed range, or one past the lock's capacity.
    #[inline(always)]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    fn write(&self, range: Range<u64>) -> Result<WriteHold<'_, Self>, RangeError> {
        Hold::lock(self, range)
    }

    /// As [`read`](Self::read) if that is possible at once; never blocks. Ordering: Acquire on success.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if it would have to wait; else as [`read`](Self::read).
    #[inline]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    fn try_read(&self, range: Range<u64>) -> Result<ReadHold<'_, Self>, TryLockError> {
        Hold::try_lock(self, range)
    }

    /// As [`upgradable_read`](Self::upgradable_read) if that is possible at once; never blocks. Ordering: Acquire on success.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if it would have to wait; else as [`upgradable_read`](Self::upgradable_read).
    #[inline]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    fn try_upgradable_read(
        &self,
        range: Range<u64>,
    ) -> Result<UpgradableHold<'_, Self>, TryLockError> {
        Hold::try_lock(self, range)
    }

    /// As [`write`](Self::write) if that is possible at once; never blocks. Ordering: Acquire on success.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if it would have to wait; else as [`write`](Self::write).
    #[inline]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    fn try_write(&self, range: Range<u64>) -> Result<WriteHold<'_, Self>, TryLockError> {
        Hold::try_lock(self, range)
    }

    /// As [`read`](Self::read), but gives up after `timeout`; one that is too long for the clock is for ever.
    ///
    /// # Errors
    /// [`TimedLockError::TimedOut`], and no trace is left; else as [`read`](Self::read).
    #[cfg(feature = "std")]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    fn try_read_for(
        &self,
        range: Range<u64>,
        timeout: Duration,
    ) -> Result<ReadHold<'_, Self>, TimedLockError>
    where
        Self: RawRangeLockWait,
    {
        Hold::try_lock_for(self, range, timeout)
    }

    /// As [`read`](Self::read), but gives up at `deadline`; one in the past makes it a try.
    ///
    /// # Errors
    /// [`TimedLockError::TimedOut`], and no trace is left; else as [`read`](Self::read).
    #[cfg(feature = "std")]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    fn try_read_until(
        &self,
        range: Range<u64>,
        deadline: Instant,
    ) -> Result<ReadHold<'_, Self>, TimedLockError>
    where
        Self: RawRangeLockWait,
    {
        Hold::try_lock_until(self, range, deadline)
    }

    /// As [`upgradable_read`](Self::upgradable_read), but gives up after `timeout`; one that is too long for the clock is for ever.
    ///
    /// # Errors
    /// [`TimedLockError::TimedOut`], and no trace is left; else as [`upgradable_read`](Self::upgradable_read).
    #[cfg(feature = "std")]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    fn try_upgradable_read_for(
        &self,
        range: Range<u64>,
        timeout: Duration,
    ) -> Result<UpgradableHold<'_, Self>, TimedLockError>
    where
        Self: RawRangeLockWait,
    {
        Hold::try_lock_for(self, range, timeout)
    }

    /// As [`upgradable_read`](Self::upgradable_read), but gives up at `deadline`; one in the past makes it a try.
    ///
    /// # Errors
    /// [`TimedLockError::TimedOut`], and no trace is left; else as [`upgradable_read`](Self::upgradable_read).
    #[cfg(feature = "std")]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    fn try_upgradable_read_until(
        &self,
        range: Range<u64>,
        deadline: Instant,
    ) -> Result<UpgradableHold<'_, Self>, TimedLockError>
    where
        Self: RawRangeLockWait,
    {
        Hold::try_lock_until(self, range, deadline)
    }

    /// As [`write`](Self::write), but gives up after `timeout`; one that is too long for the clock is for ever.
    ///
    /// # Errors
    /// [`TimedLockError::TimedOut`], and no trace is left; else as [`write`](Self::write).
    #[cfg(feature = "std")]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    fn try_write_for(
        &self,
        range: Range<u64>,
        timeout: Duration,
    ) -> Result<WriteHold<'_, Self>, TimedLockError>
    where
        Self: RawRangeLockWait,
    {
        Hold::try_lock_for(self, range, timeout)
    }

    /// As [`write`](Self::write), but gives up at `deadline`; one in the past makes it a try.
    ///
    /// # Errors
    /// [`TimedLockError::TimedOut`], and no trace is left; else as [`write`](Self::write).
    #[cfg(feature = "std")]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    fn try_write_until(
        &self,
        range: Range<u64>,
        deadline: Instant,
    ) -> Result<WriteHold<'_, Self>, TimedLockError>
    where
        Self: RawRangeLockWait,
    {
        Hold::try_lock_until(self, range, deadline)
    }

    /// As [`read`](Self::read), by a future, which blocks no thread; dropping it gives the request up.
    fn read_async(&self, range: Range<u64>) -> LockFuture<&Self, Shared>
    where
        Self: RawRangeLockWait,
    {
        Hold::lock_async(self, range)
    }

    /// As [`upgradable_read`](Self::upgradable_read), by a future, which blocks no thread; dropping it gives the request up.
    fn upgradable_read_async(&self, range: Range<u64>) -> LockFuture<&Self, Upgradable>
    where
        Self: RawRangeLockWait,
    {
        Hold::lock_async(self, range)
    }

    /// As [`write`](Self::write), by a future, which blocks no thread; dropping it gives the request up.
    fn write_async(&self, range: Range<u64>) -> LockFuture<&Self, Exclusive>
    where
        Self: RawRangeLockWait,
    {
        Hold::lock_async(self, range)
    }

    /// Holds several ranges, taken together; blocks until there is no hold that conflicts with any. Ordering: Acquire.
    ///
    /// They may come in any order, overlap and repeat: each unit of the lock is held with the strongest access that is
    /// asked for in it. Threads that take all they need in one call cannot wait for each other in a circle.
    ///
    /// ```
    /// use spanlock_range_lock::{Access, RangeLockExt, RwCounter};
    ///
    /// let lock = RwCounter::new();
    /// let copying = lock.lock_all([(8..16, Access::Write), (0..8, Access::Read)])?;
    /// assert!(lock.try_read(0..1).is_err());
    /// # drop(copying);
    /// # Ok::<(), spanlock_range_lock::RangeError>(())
    /// ```
    ///
    /// # Errors
    /// A reversed range, or one past the lock's capacity. Nothing is held.
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    fn lock_all(
        &self,
        requests: impl IntoIterator<Item = (Range<u64>, Access)>,
    ) -> Result<BatchHold<&Self>, RangeError>
    where
        Self: RawRangeLockBatch,
    {
        BatchHold::lock(self, requests)
    }

    /// As [`lock_all`](Self::lock_all) if that is possible at once; never blocks. Ordering: Acquire on success.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if it would have to wait for any; else as [`lock_all`](Self::lock_all). Nothing is held.
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    fn try_lock_all(
        &self,
        requests: impl IntoIterator<Item = (Range<u64>, Access)>,
    ) -> Result<BatchHold<&Self>, TryLockError>
    where
        Self: RawRangeLockBatch,
    {
        BatchHold::try_lock(self, requests)
    }

    /// Holds the `len` positions from the end on, exclusively: see [`Hold::append`], which tells what the caller must keep.
    ///
    /// # Errors
    /// [`RangeError::PastCapacity`] if the lock does not cover `len` positions from the end on, [`RangeError::Overflow`] if
    /// there are not that many. Nothing is held.
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    fn append(&self, len: u64, end: impl FnMut() -> u64) -> Result<WriteHold<'_, Self>, RangeError>
    where
        Self: RawRangeLockSplit,
    {
        Hold::append(self, len, end)
    }
}

impl<L: RawRangeLock + ?Sized> RangeLockExt for L {}
