#![doc = include_str!("../README.md")]

pub mod compact;
pub mod storage;
pub mod testing;

pub use storage::Storage;
