//! A million random operations of each lock, on threads of a checker: programs drawn at random, each under random schedules.
//!
//! The language, and what each thread watches for, is `spanlock-testkit`'s. A program that fails is made small by running smaller ones under as
//! many schedules, and then run once more, so that what is told, and can be replayed, is the failure of the smallest.

use crate::primitives::PRIMITIVES;
use crate::program::{Program, Run};

/// Threads of a program, main not counted: it only waits for them.
pub const THREADS: core::ops::RangeInclusive<usize> = 2..=3;

/// Operations of each thread, at most.
pub const OPERATIONS: usize = 12;

/// Schedules of each program.
pub const SCHEDULES: u64 = 40;

/// Operations of a row: programs are drawn until there have been so many.
pub const ENOUGH: u64 = 1_000_000;

/// Every lock's histories.
pub fn programs() -> Vec<Program> {
    let program = |primitive: &crate::primitives::Primitive| Program {
        primitive: primitive.name,
        property: "history",
        claim: "a million random operations exclude, share, and end",
        threads: 1 + *THREADS.end() as u32,
        operations: ENOUGH as u32,
        faults: &[],
        performs: Vec::new(),
        expected: None,
        run: Run::Histories(primitive.make),
    };
    PRIMITIVES.iter().map(program).collect()
}
