#![doc = include_str!("../README.md")]
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod lock;
mod powers;
mod requests;
mod tree;

pub use lock::{IntervalLock, IntervalRequest};

// What a user of the locks needs of the contract, so that one dependency is enough; all of it is `range_lock`.
#[doc(no_inline)]
pub use spanlock_range_lock as range_lock;
#[cfg(feature = "std")]
#[doc(no_inline)]
pub use spanlock_range_lock::TimedLockError;
#[doc(no_inline)]
pub use spanlock_range_lock::{Access, RangeError, RangeLock, RangeLockExt, TryLockError};
