//! The shared state.

pub(crate) mod across;
pub(crate) mod changes;
pub(crate) mod format;
pub mod fsck;
pub(crate) mod options;
pub(crate) mod shared;
pub(crate) mod tree;
