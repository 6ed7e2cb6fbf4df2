#![doc = include_str!("../README.md")]

mod array;
mod segment;

pub use array::SrlArray;
pub use segment::{SegmentError, Segments};
