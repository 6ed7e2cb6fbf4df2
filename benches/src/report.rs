//! The output of a run: a table, JSON, and an HTML page.

pub mod contention;
pub mod failures;
pub mod file_core;
mod html;
pub mod journal;
mod machine;
pub mod micro;
mod outputs;
mod plots;
pub mod recovery;
mod text;

pub use html::page;
pub use machine::Machine;
pub use outputs::{Commit, FORMAT, Origin, Outputs, command};
pub(crate) use text::thread_count;
pub use text::{losses, table, targets};

/// The versions behind the figures: this package and the compiler.
pub const VERSIONS: &str = concat!(
    "spanlock ",
    env!("CARGO_PKG_VERSION"),
    ", ",
    env!("SPANLOCK_RUSTC")
);
