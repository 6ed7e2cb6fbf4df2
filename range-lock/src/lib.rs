#![doc = include_str!("../README.md")]

mod detect;
mod error;
mod forward;
mod guard;
mod powers;
mod range_lock;
mod raw;
mod rw_counter;
mod rw_distributed;
pub mod rw_word;
mod whole_range;
pub mod words;

pub use detect::LockId;
pub use error::{PartError, RangeError, TimedLockError, TryLockError};
pub use guard::{
    BatchHold, Exclusive, Hold, LockFuture, LockRef, Mode, OwnedReadHold, OwnedUpgradableHold,
    OwnedWriteHold, RangeLockExt, ReadHold, Readable, Shared, Upgradable, UpgradableHold,
    WriteHold,
};
pub use powers::{
    RawRangeLockBatch, RawRangeLockDowngrade, RawRangeLockSplit, RawRangeLockUpgrade,
    RawRangeLockUpgradeWait, RawRangeLockWait,
};
pub use range_lock::{
    OwnedRangeReadGuard, OwnedRangeUpgradableGuard, OwnedRangeWriteGuard, RangeBatchGuard,
    RangeGuard, RangeLock, RangeReadGuard, RangeUpgradableGuard, RangeWriteGuard, SliceRef,
};
pub use raw::{Access, RawRangeLock, Span, Token};
pub use rw_counter::RwCounter;
pub use rw_distributed::{DistributedRequest, RwDistributed};
pub use rw_word::RwWord;
