//! A cell whose accesses the explorer and loom check for races.

pub use crate::world::cell::UnsafeCell;
