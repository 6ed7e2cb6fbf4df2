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
//! | `journal.rs`, `handle.rs`, `transaction.rs`, `buffers.rs` | transactions, as threads see them |
//! | `commit.rs`, `submission.rs` | from a running transaction to one in the log |
//! | `log.rs`, `checkpoint.rs` | the log's room; from there home |
//! | `raw/` | the state machines of all that |
//!
//! [`docs/format.md`]: https://docs.rs/crate/spanlock-journal-commit/latest/source/docs/format.md

mod blocks;
mod buffers;
mod checkpoint;
mod checksum;
mod commit;
mod error;
mod format;
mod handle;
mod journal;
mod log;
mod options;
mod place;
#[doc(hidden)]
pub mod raw;
mod recover;
mod submission;
mod superblock;
mod transaction;

pub use error::{Error, Failure};
pub use format::{Flushes, Tid};
pub use handle::{BlockMut, Handle};
pub use journal::{Journal, Stats};
pub use options::{CommitWay, Delay, Options};
pub use place::{Extent, Place};
pub use recover::{Recovery, recover};
pub use superblock::{FormatOptions, format};
