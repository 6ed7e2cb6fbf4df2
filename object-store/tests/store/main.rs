//! Tests of the store through its public interface.

mod batches;
mod check;
mod common;
mod crashes;
mod ids;
mod model;
mod objects;
mod versions;
