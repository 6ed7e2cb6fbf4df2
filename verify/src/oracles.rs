//! Judges of what an execution showed, beyond the program's own assertions.

pub mod linearizability;
