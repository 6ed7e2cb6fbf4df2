//! Tests of a volume through its public interface.

mod basics;
mod cleaning;
mod common;
mod crashes;
mod errors;
mod files;
mod memory;
mod model;
mod reopen;
mod threads;
