#![doc = include_str!("../README.md")]

mod lock;
mod powers;
mod requests;
mod tree;

pub use lock::{IntervalLock, IntervalRequest};
