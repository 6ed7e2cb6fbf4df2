#![doc = include_str!("../README.md")]

mod crashes;
#[cfg(all(
    feature = "command",
    not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))
))]
pub mod driver;
mod execution;
mod info;
mod known_bug;
mod messages;
mod mode;
pub mod oracles;
#[cfg(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))]
mod panics;
pub mod plan;
mod program;
pub mod rows;
mod runner;
mod search;
#[cfg(any(spanlock_explorer, spanlock_shuttle))]
mod seeds;
mod suite;
mod trace;
mod worlds;

pub use crashes::{ComesBefore, Crashes, Images, WithOrder};
pub use execution::{mode, step};
pub use info::{Deviation, Expected, Fault, FaultKind, Form};
pub use known_bug::{KnownBug, known_bugs};
pub use mode::{Checker, Mode};
pub use program::{Program, Scene};
pub use runner::main;
pub use suite::Suite;
pub use trace::{finished, note, note_as, note_at_end, overtake, perform, refuse_barriers, remark};
pub use worlds::apart;
