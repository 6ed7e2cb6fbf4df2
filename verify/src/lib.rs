#![doc = include_str!("../README.md")]

#[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
pub mod command;
pub mod defects;
#[cfg(any(spanlock_loom, spanlock_shuttle))]
pub mod faults;
pub mod linear;
pub mod models;
pub mod order;
pub mod pairs;
pub mod plan;
pub mod primitives;
pub mod program;
#[cfg(spanlock_loom)]
pub mod prune;
#[cfg(spanlock_shuttle)]
pub mod reduce;
pub mod row;
pub mod trace;
