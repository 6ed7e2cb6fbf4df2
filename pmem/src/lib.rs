#![doc = include_str!("../README.md")]

#[cfg(unix)]
mod error;
#[cfg(unix)]
mod flush;
#[cfg(unix)]
mod mapped;
#[cfg(any(unix, windows))]
mod new_file;
#[cfg(any(unix, windows))]
#[doc(hidden)]
pub mod platform;
mod region;
#[cfg(feature = "simulated")]
pub mod simulated;
mod tokens;

#[cfg(unix)]
pub use error::PmemError;
#[cfg(unix)]
pub use flush::FlushInstruction;
#[cfg(unix)]
pub use mapped::{Durability, MappedFile, Options, PAGE_BYTES};
// For the files of `spanlock-journal-commit`, which are created and opened in the same way.
#[cfg(unix)]
#[doc(hidden)]
pub use mapped::fill_holes;
#[cfg(any(unix, windows))]
#[doc(hidden)]
pub use new_file::NewFile;
pub use region::{LINE_BYTES, Pmem};
pub use tokens::{Durable, Flushed, RegionId, Unflushed, Written};
