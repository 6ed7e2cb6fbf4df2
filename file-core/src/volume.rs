//! The shared state.

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
