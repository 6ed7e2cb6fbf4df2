#![doc = include_str!("../README.md")]

mod alloc;
mod chain;
mod clean;
mod directory;
mod error;
mod file;
mod file_core;
mod format;
mod index;
mod inode;
mod inodes;
mod layout;
mod log;
mod log_page;
mod medium;
mod open;
mod options;
mod record;
mod recover;
mod volume;

pub use error::{Error, Place};
pub use file::File;
pub use file_core::FileCore;
pub use layout::{FORMAT_VERSION, MAX_NAME_BYTES, MAX_WRITE_BYTES};
pub use open::OpenOptions;
pub use options::{CheckReport, DamagedPage, FormatOptions, RecoveryReport, Stats};
