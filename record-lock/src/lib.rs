#![doc = include_str!("../README.md")]

mod error;
mod hold;
mod holds;
mod lock;
mod ranges;
mod table;

pub use error::Error;
pub use hold::{Hold, Mode};
pub use lock::{Owner, RecordLock, Request};
pub use ranges::{Bounds, nfs, posix, smb};
