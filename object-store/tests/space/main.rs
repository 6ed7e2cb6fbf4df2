//! Tests of the sparse address space through its public interface.

mod basics;
mod common;
mod crashes;
mod errors;
mod files;
mod images;
mod model;
mod threads;
