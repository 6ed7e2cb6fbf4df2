#![doc = include_str!("../README.md")]

#[macro_use]
mod mutant;

pub mod arena;
mod awaited;
mod bits;
mod clock;
mod coherence;
mod consistency;
pub mod draw;
mod event;
mod failure;
mod graph;
mod moment;
mod observer;
mod place;
mod plain;
mod program;
mod request;
mod revisit;
mod run;
mod search;
mod state;
#[cfg(test)]
mod tests;

pub use core::sync::atomic::Ordering;

pub use bits::Bits;
pub use clock::Clock;
pub use consistency::Model;
pub use event::{Event, EventId, Kind, Location};
pub use failure::{Failure, Reason};
pub use graph::Graph;
pub use moment::Moment;
pub use observer::{End, Observer};
pub use place::at;
pub use plain::Plain;
pub use program::{
    Atomic, Thread, choose, current_thread, fail, fault, fence, is_exploring, spawn, spin,
};
pub use request::{Condition, Op, Update};
pub use search::{Counts, Report, Search, Verdict};

/// The most threads of a program, the main thread included.
pub const MAX_THREADS: usize = 8;

/// The most events of a thread.
pub const MAX_EVENTS: usize = u16::MAX as usize - 2;
