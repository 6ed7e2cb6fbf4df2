//! The tests of this crate that can share a process, in one program: each program takes seconds to
//! build.

mod blocks;
mod memory;
mod rw_distributed;
mod span;
mod unwinding;
