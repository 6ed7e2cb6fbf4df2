//! The layer of the shared state. It owns the tree's mutex, which orders changes of several
//! directories. `handles` calls it; programs call only its `fsck`, and set its options.
//!
//! | file | holds |
//! |---|---|
//! | `shared.rs` | [`Shared`](shared::Shared): what all handles of a volume share |
//! | `tree.rs` | the tree of directories, and a name in one of them |
//! | `paths.rs` | walks along paths |
//! | `changes.rs` | creating, opening, linking and removing |
//! | `rename.rs` | renames, within a directory |
//! | `across.rs` | renames from one directory to another, and exchanges: through the journal |
//! | `options.rs`, `format.rs` | the options, and writing and finding the superblocks |
//! | `open.rs` | formatting and opening a volume: how the shared state comes about |
//! | `fsck.rs` | checking and repairing a volume that is not open |

pub(crate) mod across;
pub(crate) mod changes;
pub(crate) mod format;
pub mod fsck;
pub(crate) mod open;
pub(crate) mod options;
pub(crate) mod paths;
pub(crate) mod rename;
pub(crate) mod shared;
pub(crate) mod tree;
