#![doc = include_str!("../README.md")]
#![cfg_attr(not(feature = "std"), no_std)]

#[doc(no_inline)]
pub use spanlock_interval_lock as interval_lock;
#[cfg(feature = "journal")]
#[doc(no_inline)]
pub use spanlock_journal_commit as journal_commit;
#[cfg(feature = "journal")]
#[doc(no_inline)]
pub use spanlock_pmem as pmem;
#[doc(no_inline)]
pub use spanlock_range_lock as range_lock;
#[cfg(feature = "srl")]
#[doc(no_inline)]
pub use spanlock_srl as srl;

pub use spanlock_interval_lock::IntervalLock;
pub use spanlock_range_lock::{
    Access, BatchHold, Hold, IntoRange, LockFuture, OwnedRangeReadGuard, OwnedRangeUpgradableGuard,
    OwnedRangeWriteGuard, OwnedReadHold, OwnedUpgradableHold, OwnedWriteHold, PartError,
    RangeBatchGuard, RangeError, RangeGuard, RangeLockExt, RangeReadGuard, RangeUpgradableGuard,
    RangeWriteGuard, RawRangeLock, ReadHold, RwCounter, Span, TryLockError, UpgradableHold,
    WriteHold, use_fences,
};
#[cfg(feature = "statistics")]
pub use spanlock_range_lock::{RawRangeLockStatistics, Statistics};
#[cfg(feature = "std")]
pub use spanlock_range_lock::{RwDistributed, TimedLockError};
#[cfg(feature = "srl")]
pub use spanlock_srl::{SegmentError, Shape, SrlArray, SrlPacked, SrlTree, SrlTreePacked};

/// A slice of `T`, protected by a range lock. A request locks exactly the elements in its range, so
/// requests for disjoint ranges never block each other.
///
/// This is [`range_lock::RangeLock`] with an [`IntervalLock`], and has every method of that type.
/// `RangeLock::new` takes the elements:
///
/// ```
/// use spanlock::RangeLock;
///
/// let numbers = RangeLock::new(vec![0_u32; 1000]);
/// let mut low = numbers.write(0..500)?;
/// let mut high = numbers.write(500..1000)?; // does not wait
/// low.swap_with_slice(&mut high);
/// assert!(numbers.try_read(499..501).is_err());
/// # Ok::<(), spanlock::RangeError>(())
/// ```
///
/// To protect elements with another lock, call [`range_lock::RangeLock::with_lock`].
pub type RangeLock<T> = range_lock::RangeLock<T, IntervalLock>;
