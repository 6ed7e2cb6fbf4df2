//! JBD2: the journal of ext4, in its own on-disk format, which Linux and e2fsprogs read and write.
//!
//! The picture of the format, and what recovery does with each state that a crash can leave, are in [`docs/format.md`] beside this crate.
//!
//! | file | what |
//! |---|---|
//! | `format.rs` | offsets, block kinds, features; what follows from them |
//! | `superblock.rs`, `blocks.rs`, `checksum.rs` | blocks to bytes and back |
//! | `place.rs` | where the log's blocks lie in a storage |
//! | `recover.rs` | the three passes |
//!
//! [`docs/format.md`]: https://github.com/spanlock/spanlock/blob/main/journal-commit/docs/format.md

mod blocks;
mod checksum;
mod error;
mod format;
mod place;
mod recover;
mod superblock;

pub use error::Error;
pub use format::{Flushes, Tid};
pub use place::{Extent, Place};
pub use recover::{Recovery, recover};
pub use superblock::{FormatOptions, format};
