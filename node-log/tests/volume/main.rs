//! Tests of a volume through its public interface.

mod basics;
mod cleaning;
mod common;
mod errors;
mod memory;
mod model;
mod reopen;
mod threads;
