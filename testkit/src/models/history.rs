//! A million random operations of each lock, on a checker's threads: random programs, each run
//! under random schedules.
//!
//! The operations, and what each thread asserts, are those of [`crate::op`] and
//! [`crate::threads`].

use spanlock_verify::Program;

use super::Primitive;
use crate::{op, threads};

/// Threads of a program besides the main thread, which only waits for them.
const THREADS: core::ops::RangeInclusive<usize> = 2..=3;

/// Operations of each thread, at most.
const OPERATIONS: usize = 12;

/// Returns the program of random programs.
pub fn program(primitive: &Primitive) -> Program {
    let make = primitive.make;
    let strategy = move || op::program(&make(), THREADS, OPERATIONS);
    let run = move |program: &op::Program| match threads::run(make(), program) {
        Ok(done) => done,
        Err(wrong) => panic!("{wrong}"),
    };
    Program::new(
        "history",
        "threads of random operations exclude each other, share, and end",
    )
    .drawn(1 + *THREADS.end(), strategy, run)
}
