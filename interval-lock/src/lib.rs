#![doc = include_str!("../README.md")]
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod capabilities;
mod lock;
mod requests;
mod tree;

pub use lock::{IntervalLock, IntervalRequest};

// The parts of the contract that users of the locks need, so that one dependency is enough. The
// whole contract is `range_lock`.
#[doc(no_inline)]
pub use spanlock_range_lock as range_lock;
#[cfg(feature = "std")]
#[doc(no_inline)]
pub use spanlock_range_lock::TimedLockError;
#[doc(no_inline)]
pub use spanlock_range_lock::{Access, RangeError, RangeLock, RangeLockExt, TryLockError};
