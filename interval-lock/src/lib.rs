#![doc = include_str!("../README.md")]
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

use alloc::boxed::Box;

mod capabilities;
#[cfg(any(doc, doctest))]
pub mod docs;
mod lock;
mod narrow;
mod requests;
mod shards;
mod tree;
mod wide;

pub use capabilities::IntervalBatchRequest;
pub use lock::{IntervalLock, IntervalRequest};

/// Shared with `spanlock-record-lock`, and not part of the public API.
#[doc(hidden)]
pub mod shared {
    pub use crate::tree::{Index, Tree};
}

// The items of `spanlock-range-lock` that users of this lock need, so that they need not depend on
// that crate too. `range_lock` is the whole crate.
#[doc(no_inline)]
pub use spanlock_range_lock as range_lock;
#[cfg(feature = "std")]
#[doc(no_inline)]
pub use spanlock_range_lock::TimedLockError;
#[doc(no_inline)]
pub use spanlock_range_lock::{Access, IntoRange, RangeError, RangeLockExt, TryLockError};

/// A slice of `T`, protected by a range lock: by default by one of exact ranges, so that requests
/// for disjoint ranges never block each other.
///
/// This is [`range_lock::RangeLock`], with a default for its lock. `RangeLock::new` uses the
/// default:
///
/// ```
/// use spanlock_interval_lock::RangeLock;
///
/// let numbers = RangeLock::new(vec![0_u32; 1000]);
/// let mut low = numbers.write(..500)?;
/// let mut high = numbers.write(500..)?; // does not wait
/// low.swap_with_slice(&mut high);
/// assert!(numbers.try_read(499..=500).is_err());
/// # Ok::<(), spanlock_interval_lock::RangeError>(())
/// ```
///
/// To protect elements with another lock, call `RangeLock::with_lock`. `RangeLock::borrowed` leaves
/// them where they are.
pub type RangeLock<T, L = IntervalLock, M = Box<[T]>> = range_lock::RangeLock<T, L, M>;

impl range_lock::Names<IntervalLock> for range_lock::DefaultLock {}
