#![doc = include_str!("../README.md")]
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

pub mod atomic;
pub mod barrier;
pub mod cell;
pub mod hint;
pub mod mapped;
mod park;
#[cfg(feature = "std")]
mod parker;
#[cfg(feature = "std")]
pub mod rcu;
pub mod rcu_shared;
mod statistics;
#[cfg(feature = "std")]
pub mod thread;
#[doc(hidden)]
pub mod unwind;
pub mod wait;
#[cfg_attr(any(spanlock_loom, spanlock_shuttle), path = "checked/mod.rs")]
mod world;

pub use park::{DefaultPark, Park, Spin};
#[cfg(feature = "std")]
pub use parker::{Parker, Wakeup};
#[cfg(not(feature = "std"))]
pub use rcu_shared as rcu;
pub use statistics::Counters;
#[cfg(feature = "statistics")]
pub use statistics::Statistics;
pub use world::public::*;
