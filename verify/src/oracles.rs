//! Checks of an execution's results, beyond the program's own assertions.

pub mod linearizability;
