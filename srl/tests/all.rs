//! The tests of this crate that can share a process, in one program: each program takes seconds to
//! build.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

mod addresses;
mod array;
mod packed;
mod segments;
mod tree;
mod tree_shrink;
mod wakers_that_panic;
