//! A cell whose accesses loom checks for races.

pub use crate::world::cell::UnsafeCell;
