#![doc = include_str!("../README.md")]
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod capabilities;
#[cfg(any(doc, doctest))]
pub mod docs;
mod lock;
mod narrow;
mod requests;
mod shards;
mod tree;
mod wide;

pub use lock::{IntervalLock, IntervalRequest};

// The items of `spanlock-range-lock` that users of this lock need, so that they need not depend on
// that crate too. `range_lock` is the whole crate.
#[doc(no_inline)]
pub use spanlock_range_lock as range_lock;
#[cfg(feature = "std")]
#[doc(no_inline)]
pub use spanlock_range_lock::TimedLockError;
#[doc(no_inline)]
pub use spanlock_range_lock::{
    Access, IntoRange, RangeError, RangeLock, RangeLockExt, TryLockError,
};
