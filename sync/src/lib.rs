#![doc = include_str!("../README.md")]

#[cfg(all(spanlock_loom, spanlock_shuttle))]
compile_error!("spanlock_loom and spanlock_shuttle are two worlds: build for one of them");

pub mod atomic;
pub mod barrier;
pub mod cell;
#[cfg(any(spanlock_loom, spanlock_shuttle))]
pub mod check;
pub mod hint;
pub mod mapped;
mod mutex;
mod parker;
pub mod section;
pub mod thread;
pub mod wait;

pub use mutex::{Condvar, Mutex, MutexGuard};
pub use parker::{Park, Parker, Wakeup};
#[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
pub use std::sync::Arc;

/// `loom::sync::Arc` under loom, where a leak fails the model.
#[cfg(spanlock_loom)]
pub use loom::sync::Arc;
#[cfg(spanlock_shuttle)]
pub use shuttle::sync::Arc;
