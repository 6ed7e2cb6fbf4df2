#![doc = include_str!("../README.md")]
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

#[cfg(all(spanlock_loom, spanlock_shuttle))]
compile_error!("spanlock_loom and spanlock_shuttle are two worlds: build for one of them");
#[cfg(all(any(spanlock_loom, spanlock_shuttle), not(feature = "std")))]
compile_error!("the checkers need the feature `std`");

pub mod atomic;
pub mod barrier;
pub mod cell;
#[cfg(any(spanlock_loom, spanlock_shuttle))]
pub mod check;
mod defect;
mod flush;
#[cfg(any(spanlock_loom, spanlock_shuttle))]
pub mod footprint;
#[cfg(any(spanlock_loom, spanlock_shuttle))]
mod freed;
pub mod hint;
pub mod mapped;
mod mutex;
mod park;
#[cfg(feature = "std")]
mod parker;
#[cfg(feature = "std")]
pub mod section;
#[cfg(any(not(feature = "std"), spanlock_loom, spanlock_shuttle))]
pub mod section_shared;
mod statistics;
#[cfg(feature = "std")]
pub mod thread;
#[doc(hidden)]
pub mod unwind;
pub mod wait;

#[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
pub use alloc::sync::Arc;
// Not for users: the locks name it, and `verify`.
#[cfg_attr(not(any(spanlock_loom, spanlock_shuttle)), doc(hidden))]
pub use defect::{Defect, defect};
#[cfg_attr(not(any(spanlock_loom, spanlock_shuttle)), doc(hidden))]
pub use flush::is_flush_left_out;
#[cfg(feature = "std")]
pub use mutex::Condvar;
pub use mutex::{Mutex, MutexGuard};
#[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
pub use park::Spin;
pub use park::{DefaultPark, Park};
#[cfg(feature = "std")]
pub use parker::{Parker, Wakeup};
#[cfg(not(feature = "std"))]
pub use section_shared as section;
pub use statistics::Counters;
#[cfg(feature = "statistics")]
pub use statistics::Statistics;

/// `loom::sync::Arc` under loom, where a leak fails the model.
#[cfg(spanlock_loom)]
pub use loom::sync::Arc;
#[cfg(spanlock_shuttle)]
pub use shuttle::sync::Arc;
