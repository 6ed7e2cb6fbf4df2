//! Random programs for each lock, a million operations in all. Each program runs on a checker's
//! threads under random schedules.
//!
//! [`crate::op`] defines the operations, and [`crate::threads`] what each thread asserts.

use spanlock_verify::Program;

use super::Primitive;
use crate::{op, threads};

/// The number of threads of a program, besides the main thread, which only waits for them.
const THREADS: core::ops::RangeInclusive<usize> = 2..=3;

/// The maximum number of operations of each thread.
const OPERATIONS: usize = 12;

/// Returns the program that draws random programs and runs them.
pub fn program(primitive: &Primitive) -> Program {
    let make = primitive.make;
    let strategy = move || op::program(&make(), THREADS, OPERATIONS);
    let run = move |program: &op::Program| match threads::run(make(), program) {
        Ok(done) => done,
        Err(wrong) => panic!("{wrong}"),
    };
    Program::new(
        "history",
        "threads with random operations never hold conflicting ranges at once, and all finish",
    )
    .drawn(1 + *THREADS.end(), strategy, run)
}
