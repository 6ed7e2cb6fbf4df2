//! Models of the state machines in `src/jbd2/raw/`, one file for each.

pub(crate) mod holders;
pub(crate) mod medium;
pub(crate) mod owner;
pub(crate) mod rendezvous;
pub(crate) mod signal;
pub(crate) mod submission;
pub(crate) mod tickets;
pub(crate) mod updates;

/// The reason why some pairs of operations need no program.
const ONE_COMMITS: &str = "only the journal's thread commits, one transaction after the other";
