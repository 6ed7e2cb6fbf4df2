//! The suites that every lock of the project runs. `spanlock-range-lock` contains them.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

#[macro_use]
#[path = "../../range-lock/tests/capabilities/mod.rs"]
mod capabilities;
#[macro_use]
#[path = "../../range-lock/tests/suite/mod.rs"]
mod suite;

mod contract;
#[path = "capabilities.rs"]
mod guards;
mod parking;
