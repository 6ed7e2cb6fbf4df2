#![doc = include_str!("../README.md")]

#[cfg(target_os = "linux")]
mod error;
#[cfg(target_os = "linux")]
mod flush;
#[cfg(target_os = "linux")]
mod mapped;
mod region;
#[cfg(feature = "simulated")]
pub mod simulated;
mod tokens;

#[cfg(target_os = "linux")]
pub use error::PmemError;
#[cfg(target_os = "linux")]
pub use flush::FlushInstruction;
#[cfg(target_os = "linux")]
pub use mapped::{Durability, MappedFile, Options, PAGE_BYTES};
// For the files of `spanlock-journal-commit`, which are created and opened in the same way.
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub use mapped::{NewFile, fill_holes};
pub use region::{LINE_BYTES, Pmem};
pub use tokens::{Durable, Flushed, RegionId, Unflushed, Written};
