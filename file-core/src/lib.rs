#![doc = include_str!("../README.md")]

mod alloc;
mod chain;
mod clean;
mod cleaning;
mod dir;
mod directory;
mod error;
mod file;
mod file_core;
mod format;
pub mod fsck;
mod index;
mod inode;
mod inodes;
mod journal;
mod layout;
mod log;
mod log_page;
mod medium;
mod names;
mod options;
mod record;
mod recover;
mod time;
mod tree;
mod volume;

pub use dir::{Dir, DirEntry};
pub use error::{Error, Place};
pub use file::{Cursor, File};
pub use file_core::FileCore;
pub use layout::{FORMAT_VERSION, Kind, MAX_NAME_BYTES, MAX_WRITE_BYTES};
pub use options::{
    CheckReport, CleanReport, DamagedPage, FormatOptions, Metadata, OpenOptions, RecoveryReport,
    Stats,
};
