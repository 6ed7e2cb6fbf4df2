//! Files and directories.

pub(crate) mod directory;
pub(crate) mod index;
pub(crate) mod inode;
pub(crate) mod inode_table;
pub(crate) mod names;
