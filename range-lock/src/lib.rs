#![doc = include_str!("../README.md")]

mod error;
mod guard;
mod powers;
mod range_lock;
mod raw;
mod rw_counter;
mod rw_distributed;
pub mod rw_word;
pub mod words;

pub use error::{RangeError, TryLockError};
pub use guard::{RangeLockExt, ReadHold, UpgradableHold, WriteHold};
pub use powers::{
    RawRangeLockBatch, RawRangeLockDowngrade, RawRangeLockSplit, RawRangeLockUpgrade,
    RawRangeLockUpgradeWait, RawRangeLockWait,
};
pub use range_lock::{RangeLock, RangeReadGuard, RangeWriteGuard};
pub use raw::{Access, RawRangeLock, Span, Token};
pub use rw_counter::RwCounter;
pub use rw_distributed::{DistributedRequest, RwDistributed};
pub use rw_word::RwWord;
