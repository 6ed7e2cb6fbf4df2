//! The suites that every lock of the project runs. `spanlock-range-lock` contains them.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

#[path = "../../../range-lock/tests/capabilities/mod.rs"]
#[macro_use]
mod capabilities;
#[macro_use]
#[path = "../../../range-lock/tests/suite/mod.rs"]
#[allow(dead_code)]
mod shared;
mod suite;

mod contract;
mod guards;
mod parking;
