//! Tests of the facade itself, under a checker.

#![cfg(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))]

mod bugs;
mod epoch;
mod faults;
mod freed;
mod model;
mod rcu_shared;
mod spin;
mod steps;
mod weakening;
mod world;
