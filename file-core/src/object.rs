//! The layer of files and directories in memory. It owns what a file or a directory is: its index,
//! its size and times, or its names. `recover` makes these objects, and `volume` and `handles` use
//! and change them.
//!
//! | file | holds |
//! |---|---|
//! | `inode.rs` | a file: its range lock, index, size and log |
//! | `inode_table.rs` | which files are in memory, and how many names each has |
//! | `index.rs` | where each page of a file lies; `index/` has its nodes, walks and removals |
//! | `directory.rs` | a directory, and the changes of its names |
//! | `names.rs` | the names of one directory |

pub(crate) mod directory;
pub(crate) mod index;
pub(crate) mod inode;
pub(crate) mod inode_table;
pub(crate) mod names;
