//! The state machines of JBD2's commit (`src/jbd2/raw/`), one a file.

pub(crate) mod medium;
pub(crate) mod owner;
pub(crate) mod rendezvous;
pub(crate) mod signal;
pub(crate) mod submission;
pub(crate) mod tickets;
pub(crate) mod updates;

/// Why some pairs of operations need no program.
const ONE_COMMITS: &str = "only the journal's thread commits, one transaction after the other";
