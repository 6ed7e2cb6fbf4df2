#![cfg_attr(
    all(feature = "jbd2", feature = "compact"),
    doc = include_str!("../README.md")
)]
// The README's examples need both features.
#![cfg_attr(
    not(all(feature = "jbd2", feature = "compact")),
    doc = "A part of Spanlock's journal commit: see the README."
)]

#[cfg(feature = "compact")]
pub mod compact;
#[cfg(feature = "jbd2")]
pub mod jbd2;
pub mod rendezvous;
pub mod storage;
pub mod testing;

#[cfg(feature = "compact")]
mod unwind;

pub use storage::Storage;
