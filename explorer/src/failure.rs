//! What a search reports when an execution is wrong.

use core::fmt;

use crate::graph::Graph;

/// Why an execution failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// A thread panicked.
    Panic,
    /// Two threads access plain memory, one of them writes, and neither access happens before the
    /// other. Or a location is created, dropped or used exclusively while another thread uses it.
    Race,
    /// No thread can ever go on: each waits for another, or spins on values that stay as they are.
    Deadlock,
    /// Repeated with the same values, the program did something else.
    NotRepeatable,
    /// A limit of the search: of threads, or of events of a thread.
    TooLarge,
    /// The program misuses the explorer: it uses a location of another execution, for example.
    Misuse,
    /// The program called [`fail`](crate::fail).
    Stated,
}

/// A wrong execution.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Why it is wrong.
    pub reason: Reason,
    /// What happened, where, and what to do about it.
    pub message: String,
    /// The execution up to the failure. [`draw`](crate::draw) draws it.
    pub graph: Graph,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.message)?;
        f.write_str(&crate::draw::text(&self.graph))
    }
}

impl std::error::Error for Failure {}
