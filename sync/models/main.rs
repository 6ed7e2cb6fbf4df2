//! The models of RCU and of epochs. (Models of other parts of the facade are in the crates of the
//! locks.)
//!
//! Does nothing without a checker. `spanlock-verify` enables the feature `std` of this crate, and
//! the tests without `std` must not have it. So `spanlock-verify` is a dependency only under a
//! checker.

#[cfg(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))]
mod epoch;
#[cfg(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))]
mod rcu;

#[cfg(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))]
fn main() -> std::process::ExitCode {
    spanlock_verify::main([rcu::suite(), epoch::suite()])
}

#[cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]
fn main() {}
