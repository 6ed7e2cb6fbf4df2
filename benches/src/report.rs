//! The output of a run: tables, JSON, and an HTML page.

mod compare;
mod contention;
mod failures;
mod file_core;
mod findings;
mod html;
mod journal;
mod lines;
mod losses;
mod machine;
mod micro;
mod model;
mod node_log;
mod objects;
mod outputs;
pub mod papers;
mod plots;
mod recovery;
mod table;
pub mod targets;
mod text;

pub use findings::Findings;
pub use machine::Machine;
pub use outputs::{Commit, FORMAT, Origin, Outputs, command};
pub use text::LOSS_MARK;
