//! The implementation under a checker: everything that exists for the checkers only.
//!
//! It replaces the shipped `world`, item by item, and adds [`check`] for the code that runs the
//! models.
//!
//! Not reached by models: models run on top of this code.

#[cfg(any(
    all(spanlock_explorer, spanlock_loom),
    all(spanlock_explorer, spanlock_shuttle),
    all(spanlock_loom, spanlock_shuttle)
))]
compile_error!(
    "spanlock_explorer, spanlock_loom and spanlock_shuttle exclude each other: set only one of them"
);
#[cfg(not(feature = "std"))]
compile_error!("the checkers need the feature `std` of spanlock-sync");
#[cfg(all(spanlock_explorer, not(feature = "explorer")))]
compile_error!(
    "--cfg spanlock_explorer needs the explorer: add `spanlock-verify` as a dev-dependency, or \
     enable the feature `explorer` of spanlock-sync"
);
#[cfg(all(spanlock_loom, not(feature = "loom")))]
compile_error!(
    "--cfg spanlock_loom needs loom: add `spanlock-verify` as a dev-dependency, or enable the \
     feature `loom` of spanlock-sync"
);
#[cfg(all(spanlock_shuttle, not(feature = "shuttle")))]
compile_error!(
    "--cfg spanlock_shuttle needs shuttle: add `spanlock-verify` as a dev-dependency, or enable the \
     feature `shuttle` of spanlock-sync"
);

/// Defines functions that are not `const`: the atomics of a checker are registered at run time.
#[doc(hidden)]
#[macro_export]
macro_rules! const_if_shipped {
    ($(#[$attribute:meta])* $visibility:vis fn $($function:tt)*) => {
        $(#[$attribute])*
        $visibility fn $($function)*
    };
}

mod arc;
pub(crate) mod atomic;
pub(crate) mod barrier;
mod bug;
pub(crate) mod cell;
pub mod check;
#[cfg(feature = "epoch")]
pub(crate) mod epoch;
#[cfg(spanlock_explorer)]
mod explorer;
#[cfg_attr(spanlock_explorer, path = "explorer/foreign.rs")]
pub(crate) mod foreign;
mod freed;
pub(crate) mod hint;
mod mutex;
mod operations;
pub(crate) mod parker;
pub(crate) mod rcu;
pub(crate) mod thread;
pub(crate) mod wait;

/// Items that the root of the crate re-exports.
pub(crate) mod public {
    pub use super::arc::{Arc, take_last};
    pub use super::bug::{is_drain_left_out, is_flush_left_out};
    pub use super::check;
    pub use super::mutex::{BlockingMutex, Condvar, Mutex, MutexGuard};
}
