#![doc = include_str!("../README.md")]
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

pub mod atomic;
pub mod barrier;
pub mod cell;
#[cfg(any(doc, doctest))]
pub mod docs;
#[cfg(feature = "epoch")]
pub mod epoch;
pub mod foreign;
pub mod hint;
pub mod mapped;
mod park;
#[cfg(feature = "std")]
mod parker;
#[cfg(any(feature = "std", spanlock_kernel))]
#[cfg_attr(spanlock_kernel, path = "world/kernel/rcu.rs")]
pub mod rcu;
#[cfg(not(spanlock_kernel))]
pub mod rcu_shared;
mod statistics;
#[cfg(feature = "std")]
pub mod thread;
#[cfg(feature = "std")]
pub mod time;
#[doc(hidden)]
pub mod unwind;
pub mod wait;
#[cfg_attr(
    any(spanlock_explorer, spanlock_loom, spanlock_shuttle),
    path = "checked/mod.rs"
)]
mod world;

pub use park::{DefaultPark, Park, Spin};
#[cfg(feature = "std")]
pub use parker::{Parker, Wakeup};
#[cfg(not(any(feature = "std", spanlock_kernel)))]
pub use rcu_shared as rcu;
pub use statistics::Counters;
#[cfg(feature = "statistics")]
pub use statistics::Statistics;
pub use world::public::*;

#[cfg(all(spanlock_kernel, feature = "std"))]
compile_error!("a kernel has no std: build without the feature `std`");
