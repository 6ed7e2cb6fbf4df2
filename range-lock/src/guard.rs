//! Guards without data: a hold on a range of something that lives elsewhere.
//!
//! `hold.rs` is one hold of any access, `wait.rs` its future, and `deadline.rs` the thread that
//! polls a future until a deadline. `batch.rs` holds several ranges that were locked in one call,
//! and `parts.rs` puts them in order.

mod batch;
#[cfg(feature = "std")]
pub(crate) mod deadline;
mod field;
pub(crate) mod hold;
mod parts;
mod wait;

pub use batch::{BatchFuture, BatchHold};
pub use field::LockField;
pub use hold::{
    Exclusive, Hold, LockRef, Mode, OwnedReadHold, OwnedUpgradableHold, OwnedWriteHold, ReadHold,
    Readable, Shared, Upgradable, UpgradableHold, UpgradeFuture, WriteHold,
};
pub use wait::LockFuture;

use core::future::Future;

use crate::capabilities::{RawRangeLockSplit, RawRangeLockWait};
use crate::error::{RangeError, TryLockError};
use crate::raw::RawRangeLock;
use crate::verbs::verbs;

/// The methods that lock a range, for every [`RawRangeLock`], `dyn` ones included. Methods that
/// need a capability exist for every lock that has it.
///
/// The guards hold a range of something that the lock does not own: pages of a file, blocks of a
/// device. To lock data that the lock owns, use [`crate::RangeLock`]. For holds that own a share of
/// their lock, see [`Hold`].
///
/// A range is `a..b`, `a..=b`, `a..`, `..b`, `..=b` or `..`, of `u32`, `u64` or `usize` alike; see
/// [`IntoRange`](crate::IntoRange). An empty range holds nothing, never blocks, and is not checked
/// against the capacity.
pub trait RangeLockExt: RawRangeLock {
    verbs! {
        use Hold, BatchHold of Self, crate::IntoRange;

        /// Locks `range` for reading; blocks while a writer holds part of it. Ordering: Acquire.
        ///
        /// # Errors
        /// A reversed range, one past the lock's capacity, or no memory.
        #[inline(always)]
        fn read, try_read, try_read_for, try_read_until, read_async
            -> ReadHold<'_, Self>, LockFuture<&Self, Shared>;

        /// Locks `range` for reading, with the right to become exclusive later. Blocks while a
        /// writer or another upgradable reader holds part of it. Ordering: Acquire.
        ///
        /// # Errors
        /// A reversed range, one past the lock's capacity, or no memory.
        #[inline]
        fn upgradable_read, try_upgradable_read, try_upgradable_read_for,
            try_upgradable_read_until, upgradable_read_async
            -> UpgradableHold<'_, Self>, LockFuture<&Self, Upgradable>;

        /// Locks `range` exclusively; blocks while anyone holds part of it. Ordering: Acquire.
        ///
        /// # Errors
        /// A reversed range, one past the lock's capacity, or no memory.
        #[inline(always)]
        fn write, try_write, try_write_for, try_write_until, write_async
            -> WriteHold<'_, Self>, LockFuture<&Self, Exclusive>;

        several:
        /// Locks several ranges together; blocks until no conflicting hold is left. Ordering:
        /// Acquire.
        ///
        /// The ranges may come in any order, overlap and repeat: each unit of the lock is held with
        /// the strongest access requested for it.
        ///
        /// Requests never wait for each other in a cycle as long as no hold of this lock waits for
        /// another request of it before it is released: whatever needs several ranges requests them
        /// all in one call. A thread or a task that waits for a range while it holds another may
        /// wait for ever, in whatever order it takes them: behind a request for both, which waits
        /// for the range that is held.
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
        fn lock_all -> BatchHold<&Self>, BatchFuture<&Self>;
    }

    /// Locks `len` positions from the current end on, exclusively. [`Hold::append`] states the rule
    /// that every caller must follow.
    ///
    /// # Errors
    /// [`RangeError::PastCapacity`] if the lock does not cover `len` positions from the end on,
    /// [`RangeError::Overflow`] if they would end past `u64::MAX`, [`RangeError::Memory`] if there
    /// is no memory. Nothing is held then.
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    fn append(&self, len: u64, end: impl FnMut() -> u64) -> Result<WriteHold<'_, Self>, RangeError>
    where
        Self: RawRangeLockSplit,
    {
        Hold::append(self, len, end)
    }

    /// Like [`append`](Self::append), but never blocks. Ordering: Acquire on success.
    ///
    /// # Errors
    /// [`TryLockError::WouldBlock`] if it would have to wait; otherwise as
    /// [`append`](Self::append).
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    fn try_append(
        &self,
        len: u64,
        end: impl FnMut() -> u64,
    ) -> Result<WriteHold<'_, Self>, TryLockError>
    where
        Self: RawRangeLockSplit,
    {
        Hold::try_append(self, len, end)
    }

    /// Like [`append`](Self::append), but gives up after `timeout`. A timeout too long for the
    /// clock never ends.
    ///
    /// # Errors
    /// [`TimedLockError::TimedOut`](crate::TimedLockError::TimedOut), with no trace left; otherwise
    /// as [`append`](Self::append).
    #[cfg(feature = "std")]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    fn try_append_for(
        &self,
        len: u64,
        end: impl FnMut() -> u64,
        timeout: std::time::Duration,
    ) -> Result<WriteHold<'_, Self>, crate::TimedLockError>
    where
        Self: RawRangeLockSplit + RawRangeLockWait,
    {
        Hold::try_append_for(self, len, end, timeout)
    }

    /// Like [`append`](Self::append), but gives up at `deadline`. A deadline in the past makes this
    /// a try.
    ///
    /// # Errors
    /// [`TimedLockError::TimedOut`](crate::TimedLockError::TimedOut), with no trace left; otherwise
    /// as [`append`](Self::append).
    #[cfg(feature = "std")]
    #[cfg_attr(feature = "deadlock-detection", track_caller)]
    fn try_append_until(
        &self,
        len: u64,
        end: impl FnMut() -> u64,
        deadline: std::time::Instant,
    ) -> Result<WriteHold<'_, Self>, crate::TimedLockError>
    where
        Self: RawRangeLockSplit + RawRangeLockWait,
    {
        Hold::try_append_until(self, len, end, deadline)
    }

    /// Like [`append`](Self::append), but returns a future and never blocks a thread. Dropping the
    /// future gives up the request and leaves no trace.
    ///
    /// # Errors
    /// As for [`append`](Self::append).
    fn append_async(
        &self,
        len: u64,
        end: impl FnMut() -> u64,
    ) -> impl Future<Output = Result<WriteHold<'_, Self>, RangeError>>
    where
        Self: RawRangeLockSplit + RawRangeLockWait,
    {
        Hold::append_async(self, len, end)
    }
}

impl<L: RawRangeLock + ?Sized> RangeLockExt for L {}
