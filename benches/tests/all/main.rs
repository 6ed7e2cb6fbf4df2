//! The tests of this package that can share a process, in one program: each program takes seconds
//! to build. `peers.rs` intercepts the calls of its process, which must not start others meanwhile.

#[path = "../common/mod.rs"]
mod common;

mod cli;
mod contention;
mod failures;
mod figures;
mod file_core;
mod journal;
mod lines;
mod micro;
mod node_log;
mod objects;
mod papers;
mod queued;
mod recovery;
mod redraw;
mod temporary;
mod terminal;
mod volumes;
