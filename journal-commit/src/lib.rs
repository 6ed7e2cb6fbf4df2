#![doc = include_str!("../README.md")]

pub mod compact;
pub mod jbd2;
pub mod rendezvous;
pub mod storage;
pub mod testing;

mod unwind;

pub use storage::Storage;
