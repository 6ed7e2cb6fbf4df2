#![doc = include_str!("../README.md")]
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod capabilities;
mod lock;
mod requests;
mod tree;

pub use lock::{IntervalLock, IntervalRequest};
