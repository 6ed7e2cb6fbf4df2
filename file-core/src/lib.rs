#![doc = include_str!("../README.md")]

mod handles;
mod log;
mod medium;
mod object;
mod recover;
mod volume;

pub use crate::handles::dir::{Dir, DirEntry};
pub use crate::handles::file::File;
pub use crate::handles::file::cursor::Cursor;
pub use crate::handles::volume::Volume;
pub use crate::medium::error::{Error, Place};
pub use crate::medium::layout::{FORMAT_VERSION, Kind, MAX_NAME_BYTES, MAX_WRITE_BYTES};
pub use crate::medium::reports::{
    CheckReport, CleanReport, DamagedPage, Metadata, RecoveryReport, Stats,
};
pub use crate::volume::fsck;
pub use crate::volume::options::{FormatOptions, OpenOptions};
