//! The tests of this crate that can share a process, in one program: each program takes seconds to
//! build.

#[path = "../common/mod.rs"]
mod common;

mod bounds;
mod creation;
mod errors;
mod flushing;
mod full_disk;
mod grow;
mod implementing;
mod persistence;
mod read_only;
mod second_opener;
mod streaming;
mod threads;
