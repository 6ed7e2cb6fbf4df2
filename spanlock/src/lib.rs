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

pub use spanlock_interval_lock::{IntervalLock, RangeLock};
pub use spanlock_range_lock::{
    Access, BatchFuture, BatchHold, Block, DefaultPark, DisjointError, ElementGuard, Exclusive,
    Foreign, Hold, IntoRange, LockField, LockFuture, MappedRangeGuard, OwnedRangeReadGuard,
    OwnedRangeUpgradableGuard, OwnedRangeWriteGuard, OwnedReadHold, OwnedUpgradableHold,
    OwnedWriteHold, Park, PartError, RangeBatchGuard, RangeError, RangeGuard, RangeLockExt,
    RangeReadGuard, RangeUpgradableGuard, RangeWriteGuard, RawRangeLock, RawRangeLockBatch,
    RawRangeLockBatchWait, RawRangeLockDowngrade, RawRangeLockSplit, RawRangeLockUpgrade,
    RawRangeLockUpgradeWait, RawRangeLockWait, ReadHold, RwCounter, Shared, Span, Spin,
    TryLockError, Upgradable, UpgradableHold, UpgradeFuture, WriteHold, use_fences,
};
#[cfg(feature = "statistics")]
pub use spanlock_range_lock::{RawRangeLockStatistics, Statistics};
#[cfg(feature = "std")]
pub use spanlock_range_lock::{RwDistributed, TimedLockError};
#[cfg(feature = "srl")]
pub use spanlock_srl::{SegmentError, Shape, SrlArray, SrlPacked, SrlTree, SrlTreePacked};
