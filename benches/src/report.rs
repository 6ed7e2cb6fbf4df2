//! The output of a run: tables, JSON, and an HTML page.

mod bars;
mod compare;
mod contention;
mod failures;
mod file_core;
mod findings;
mod frame;
mod html;
mod html_table;
mod journal;
mod lines;
mod losses;
mod machine;
mod micro;
mod model;
mod node_log;
mod objects;
mod origin;
mod outputs;
mod page;
pub mod papers;
mod plots;
mod recovery;
mod table;
pub mod targets;
mod text;

pub use bars::{Bar, Kind};
pub use findings::Findings;
pub use machine::Machine;
pub use origin::{Commit, FORMAT, Origin};
pub use outputs::Outputs;
pub use page::{Answer, Page};
pub use text::LOSS_MARK;
