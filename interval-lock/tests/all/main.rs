//! The tests of this crate that can share a process, in one program: each program takes seconds to
//! build.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

mod batches;
mod capabilities;
mod cases;
mod common;
mod unwinding;
mod waiting;
