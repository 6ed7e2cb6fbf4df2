#![doc = include_str!("../README.md")]
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod block;
mod capabilities;
mod detect;
#[cfg(any(doc, doctest))]
pub mod docs;
mod error;
mod forward;
mod guard;
mod positions;
mod range_lock;
mod raw;
mod rw_counter;
#[cfg(feature = "std")]
mod rw_distributed;
pub mod rw_word;
#[cfg(feature = "statistics")]
mod statistics;
mod verbs;
mod whole_range;
pub mod words;

pub use block::{Block, RangeOf, Row, Rows};
pub use capabilities::{
    RawRangeLockBatch, RawRangeLockBatchWait, RawRangeLockDowngrade, RawRangeLockSplit,
    RawRangeLockUpgrade, RawRangeLockUpgradeWait, RawRangeLockWait,
};
pub use detect::LockId;
#[cfg(feature = "std")]
pub use error::TimedLockError;
pub use error::{DisjointError, NoMemory, PartError, RangeError, TryLockError};
pub use guard::{
    BatchFuture, BatchHold, Exclusive, Hold, LockField, LockFuture, LockRef, Mode, OwnedReadHold,
    OwnedUpgradableHold, OwnedWriteHold, RangeLockExt, ReadHold, Readable, Shared, Upgradable,
    UpgradableHold, UpgradeFuture, WriteHold,
};
pub use positions::{IntoRange, Position, span_in};
#[doc(hidden)]
pub use range_lock::{DefaultLock, Names};
pub use range_lock::{
    ElementGuard, Elements, Foreign, MappedRangeGuard, Memory, OwnedRangeReadGuard,
    OwnedRangeUpgradableGuard, OwnedRangeWriteGuard, RangeBatchGuard, RangeGuard, RangeLock,
    RangeReadGuard, RangeUpgradableGuard, RangeWriteGuard, SliceRef,
};
pub use raw::{Access, RawRangeLock, Span, Token};
pub use rw_counter::RwCounter;
#[cfg(feature = "std")]
pub use rw_distributed::{DistributedRequest, RwDistributed};
pub use rw_word::RwWord;
pub use spanlock_sync::barrier::use_fences;
pub use spanlock_sync::{DefaultPark, Park, Spin};
#[cfg(feature = "statistics")]
pub use statistics::{RawRangeLockStatistics, Statistics};
