//! What the explorer and its oracles say about a program, in a form that can be compared.

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};

/// One execution graph of a program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Execution {
    /// For each thread, what its statements did. Those that it did not reach are missing.
    pub(super) threads: Vec<Vec<Did>>,
    /// The coherence order of each location.
    pub(super) coherence: Vec<Vec<Place>>,
}

/// What a statement did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Did {
    /// The thread chose to skip it.
    Skipped,
    Stored,
    Fenced,
    /// It read what this statement wrote, or the initial value, and wrote nothing.
    Read(Option<Place>),
    /// It read, and wrote.
    Updated(Option<Place>),
    /// It read a value that made it wait for ever.
    Blocked(Option<Place>),
}

/// A statement of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Place {
    pub(super) thread: usize,
    pub(super) statement: usize,
}

/// The values that the statements of each thread read.
pub(super) type Values = Vec<Vec<u64>>;

/// All executions of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Executions {
    /// Those in which each thread ends.
    pub(super) complete: BTreeMap<Execution, Values>,
    /// Those in which each thread that has not ended waits, and has seen the newest value.
    pub(super) deadlocks: BTreeSet<Execution>,
}

impl Executions {
    /// Says what these executions lack and what they have too much; empty if they are `expected`.
    pub(super) fn difference(&self, expected: &Executions) -> String {
        let mut lines = String::new();
        let mut compare = |what: &str, have: &Executions, other: &Executions| {
            for (execution, values) in &have.complete {
                if other.complete.get(execution) != Some(values) {
                    lines += &format!("{what}: reads {values:?}\n{execution}");
                }
            }
            for execution in have.deadlocks.difference(&other.deadlocks) {
                lines += &format!("{what}: a deadlock\n{execution}");
            }
        };
        compare("missing", expected, self);
        compare("too much", self, expected);
        lines
    }
}

impl fmt::Display for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, thread) in self.threads.iter().enumerate() {
            write!(f, "    T{index}:")?;
            for did in thread {
                write!(f, " {did};")?;
            }
            writeln!(f)?;
        }
        for (location, order) in self.coherence.iter().enumerate() {
            write!(f, "    order of {location}:")?;
            for place in order {
                write!(f, " {place}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Did {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, source) = match self {
            Did::Skipped => return f.write_str("skipped"),
            Did::Stored => return f.write_str("stored"),
            Did::Fenced => return f.write_str("fenced"),
            Did::Read(source) => ("read", source),
            Did::Updated(source) => ("updated", source),
            Did::Blocked(source) => ("blocked on", source),
        };
        match source {
            Some(place) => write!(f, "{what} {place}"),
            None => write!(f, "{what} the initial value"),
        }
    }
}

/// For example `T0.2`, the third statement of the first thread.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "T{}.{}", self.thread, self.statement)
    }
}
