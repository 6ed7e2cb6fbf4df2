//! Cores of other crates: programs that must hold. `docs/findings.md` lists the crates.
//!
//! We wrote the code ourselves. It has the operations and orderings of each crate's core, and
//! nothing else of the crate.

use std::process::ExitCode;

mod append_only_vec;
mod atomic_once_cell;
mod atomic_waker;
mod boxcar;
mod concurrent_queue;
mod crossbeam_utils;
mod diatomic_waker;
mod left_right;
mod rtrb;
mod seqlock;
mod synctools;
mod thread_local;
mod triple_buffer;
mod try_lock;

fn main() -> ExitCode {
    spanlock_verify::main([
        append_only_vec::suite(),
        atomic_once_cell::suite(),
        atomic_waker::suite(),
        boxcar::suite(),
        concurrent_queue::suite(),
        crossbeam_utils::suite(),
        diatomic_waker::suite(),
        left_right::suite(),
        rtrb::suite(),
        seqlock::suite(),
        synctools::suite(),
        thread_local::suite(),
        triple_buffer::suite(),
        try_lock::suite(),
    ])
}
