//! A journal of blocks in the on-disk format of JBD2, the journal of ext4. Linux and e2fsprogs read
//! and write the same format.
//!
//! [`docs/format.md`] draws the format. For each state that a crash can leave, it says what
//! recovery does.
//!
//! | file | contents |
//! |---|---|
//! | `format.rs` | offsets, block kinds, features, and values derived from them |
//! | `superblock.rs`, `blocks.rs`, `checksum.rs` | encoding and decoding of blocks |
//! | `place.rs` | where the log's blocks lie in a storage |
//! | `recover.rs` | the three passes of recovery |
//! | `ext4.rs` | the flag of an ext4 file system that says that its journal is not empty |
//! | `journal.rs`, `handle.rs` | the public API |
//! | `begin.rs` | joining the running transaction, or beginning one |
//! | `inner.rs` | the state that the threads share, its invariants and lock order |
//! | `transaction.rs`, `buffers.rs` | a transaction and the blocks it changes |
//! | `commit.rs`, `committing.rs` | writing the running transaction to the log |
//! | `log.rs`, `checkpoint.rs` | the log as a ring; writing blocks home |
//! | `raw/` | the state machines behind all of these |
//!
//! [`docs/format.md`]: https://docs.rs/crate/spanlock-journal-commit/latest/source/docs/format.md

mod begin;
mod blocks;
mod buffers;
mod checkpoint;
mod checksum;
mod commit;
mod committing;
mod error;
mod ext4;
mod format;
mod handle;
mod inner;
mod journal;
mod log;
mod options;
mod place;
#[doc(hidden)]
pub mod raw;
mod recover;
mod superblock;
mod transaction;

pub use error::{Error, Failure};
pub use format::{Flushes, Tid};
pub use handle::{BlockMut, Handle};
pub use inner::Stats;
pub use journal::Journal;
pub use options::{CommitWay, Delay, Options};
pub use place::{Extent, Place};
pub use recover::{Recovery, recover};
pub use superblock::{FormatOptions, format};
