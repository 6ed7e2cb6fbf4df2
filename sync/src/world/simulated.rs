//! What the simulated cores provide in place of the system: clock, sleep, barriers, and places for
//! what belongs to a thread. Everything else is the shipped code.
//!
//! A core has one thread, which `spanlock_cores` starts.

pub(crate) mod barrier;
pub(crate) mod mutex;
pub(crate) mod parker;
pub(crate) mod rcu;
pub(crate) mod thread;

use core::cell::UnsafeCell;

use spanlock_cores::MAX_CORES;

#[cfg(not(all(feature = "simulated", feature = "std")))]
compile_error!(
    "--cfg spanlock_simulated needs the features `simulated` and `std` of spanlock-sync"
);

/// A value for each core, as a thread local is one for each thread.
struct PerCore<T>([Place<T>; MAX_CORES]);

/// Alone on two cache lines.
#[repr(align(128))]
struct Place<T>(UnsafeCell<T>);

// SAFETY: a core uses its own place only. Cores run one at a time, on one thread of the system, and
// code outside of a program runs on that thread, too.
unsafe impl<T> Sync for PerCore<T> {}

impl<T> PerCore<T> {
    /// Returns the value of the calling core.
    fn mine(&self) -> *mut T {
        self.0[spanlock_cores::core()].0.get()
    }
}
