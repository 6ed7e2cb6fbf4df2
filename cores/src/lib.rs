#![doc = include_str!("../README.md")]

mod arena;
pub mod atomic;
mod draw;
#[cfg(feature = "instrumented")]
mod instrumented;
mod line;
mod machine;
mod outcome;
mod outside;
mod program;
mod run;
mod usage;

pub use arena::Arena;
pub use machine::MAX_CORES;
pub use outcome::{Counts, HotLine, Outcome, UsedWord};
pub use program::{CoresError, Program, set_up};
pub use run::{core, cores, count, goes_on, interrupt_others, now, sleep, wake, work};

/// Spends a pause of the processor.
pub fn pause() {
    run::spend(machine::PAUSE);
}

/// Yields the core. No other thread wants it: each core has one.
pub fn yield_now() {
    run::spend(machine::YIELD);
}

/// Returns the current moment of the simulated clock; outside of a program, always the same one.
pub fn instant() -> std::time::Instant {
    run::instant()
}
