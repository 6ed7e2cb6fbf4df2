//! The implementation that ships: the processor's atomics, std's threads and mutexes.
//!
//! Under a checker, `checked/` replaces this module. Both modules have every item that locks use,
//! so the code that uses them does not know which of the two it runs on. Each of the two is a
//! *world*.
//!
//! Not reached by models: the table in the README names the test that covers each item.

pub(crate) mod atomic;
pub(crate) mod barrier;
mod bug;
pub(crate) mod cell;
#[cfg(all(target_os = "linux", feature = "std", not(miri)))]
mod fork;
pub(crate) mod hint;
mod mutex;
#[cfg(feature = "std")]
pub(crate) mod parker;
#[cfg(feature = "std")]
pub(crate) mod rcu;
#[cfg(feature = "std")]
pub(crate) mod thread;
pub(crate) mod wait;

/// Items that the root of the crate re-exports.
pub(crate) mod public {
    pub use alloc::sync::Arc;

    #[doc(hidden)]
    pub use super::bug::is_flush_left_out;
    #[cfg(feature = "std")]
    pub use super::mutex::Condvar;
    pub use super::mutex::{Mutex, MutexGuard};
}
