//! The implementation that ships: the processor's atomics, std's threads and mutexes.
//!
//! Under a checker, `checked/` replaces this module. Both modules have every item that locks use,
//! so the code that uses them does not know which of the two it runs on. Each of the two is a
//! *world*.
//!
//! Inside a kernel, `kernel/` replaces a few of the modules: what a kernel must provide. On
//! simulated cores, `simulated/` does.
//!
//! Not reached by models: a table in `docs/worlds.md` names the test that covers each item.

pub(crate) mod atomic;
#[cfg(not(any(spanlock_kernel, spanlock_simulated)))]
pub(crate) mod barrier;
mod bug;
pub(crate) mod cell;
#[cfg(feature = "epoch")]
pub(crate) mod epoch;
pub(crate) mod foreign;
#[cfg(all(
    target_os = "linux",
    feature = "std",
    not(any(miri, spanlock_simulated))
))]
mod fork;
pub(crate) mod hint;
#[cfg(spanlock_kernel)]
pub(crate) mod kernel;
#[cfg(not(any(spanlock_kernel, spanlock_simulated)))]
mod mutex;
#[cfg(all(feature = "std", not(spanlock_simulated)))]
pub(crate) mod parker;
#[cfg(all(feature = "std", not(spanlock_simulated)))]
pub(crate) mod rcu;
#[cfg(spanlock_simulated)]
pub(crate) mod simulated;
#[cfg(all(feature = "std", not(spanlock_simulated)))]
pub(crate) mod thread;
pub(crate) mod wait;

#[cfg(spanlock_kernel)]
pub(crate) use kernel::{barrier, mutex, parker};
#[cfg(spanlock_simulated)]
pub(crate) use simulated::{barrier, mutex, parker, rcu, thread};

/// Items that the root of the crate re-exports.
pub(crate) mod public {
    pub use alloc::sync::Arc;

    /// Takes the value out if `arc` is the last reference, and never drops it. If several threads
    /// call this, or drop their references, at the same time, one of them gets or drops the value.
    #[doc(hidden)]
    pub fn take_last<T>(arc: Arc<T>) -> Option<T> {
        Arc::into_inner(arc)
    }

    #[doc(hidden)]
    pub use super::bug::{is_drain_left_out, is_flush_left_out};
    #[cfg(feature = "std")]
    pub use super::mutex::Condvar;
    pub use super::mutex::{BlockingMutex, Mutex, MutexGuard};

    #[cfg(spanlock_kernel)]
    pub use super::parker::Parker;

    #[cfg(spanlock_kernel_bugs)]
    #[doc(hidden)]
    pub use super::kernel::is_injected;
}
