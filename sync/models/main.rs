//! The models of the parts of the facade that locks are built from.
//!
//! Empty without a checker: `spanlock-verify` enables the feature `std` of this crate, which its
//! tests without `std` must not have.

#[cfg(any(spanlock_loom, spanlock_shuttle))]
mod rcu;

#[cfg(any(spanlock_loom, spanlock_shuttle))]
fn main() -> std::process::ExitCode {
    spanlock_verify::main([rcu::suite()])
}

#[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
fn main() {}
