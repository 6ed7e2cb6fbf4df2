//! The suites that every lock of the project runs.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

#[macro_use]
mod capabilities;
#[macro_use]
mod suite;

mod contract;
mod parking;
mod whole_range_capabilities;
