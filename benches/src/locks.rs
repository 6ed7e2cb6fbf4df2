//! Every lock that is measured, each listed on one line here and nowhere else.
//!
//! All code is compiled for each lock's concrete type, as in a program that uses a single lock.
//! Therefore the list is visited by generic code and not stored.
//!
//! Some locks take memory in proportion to their capacity, so creating one can fail.

use std::fmt;

use spanlock_interval_lock::IntervalLock;
use spanlock_range_lock::{RawRangeLock, RwCounter, RwDistributed};
use spanlock_srl::{SrlArray, SrlPacked, SrlTree};

/// The lock that all others are compared with.
pub const BASELINE: &str = "rw-counter";

/// Visits every lock, in the order in which they are reported.
#[rustfmt::skip] // A lock is one line.
pub fn visit_all(visitor: &mut impl Visitor) {
    visitor.visit(Entry { name: "rw-counter", about: "one reader-writer word for a whole file, NOVA's default", reach: u64::MAX, make: |_| Ok(RwCounter::new()) });
    visitor.visit(Entry { name: "rw-distributed", about: "the same, with a reader count for each core", reach: u64::MAX, make: |_| Ok(RwDistributed::new()) });
    visitor.visit(Entry { name: "srl-array", about: "a reader-writer word for each 4 KiB of a file", reach: 1 << 30, make: |capacity| SrlArray::new(capacity).map_err(NoLock::because) });
    visitor.visit(Entry { name: "srl-packed", about: "the states of sixteen 4 KiB segments in one word", reach: 1 << 30, make: |capacity| SrlPacked::new(capacity).map_err(NoLock::because) });
    visitor.visit(Entry { name: "srl-tree", about: "a word for each 4 KiB, in the leaves of a radix tree that grows", reach: u64::MAX, make: |capacity| SrlTree::new(capacity).map_err(NoLock::because) });
    visitor.visit(Entry { name: "interval-tree", about: "a tree of exact ranges under one mutex, first come, first served", reach: u64::MAX, make: |_| Ok(IntervalLock::new()) });
}

/// A lock in the list.
#[derive(Clone, Copy, Debug)]
pub struct Entry<L> {
    /// The name for selection and reports.
    pub name: &'static str,
    /// A short description.
    pub about: &'static str,
    /// The largest capacity in bytes with which the lock is measured on its own. It is 1 GiB for a
    /// lock that allocates memory for every segment of its capacity, and `u64::MAX` for others.
    pub reach: u64,
    /// Creates a lock.
    pub make: Make<L>,
}

/// Creates a lock for positions below a capacity in bytes.
pub type Make<L> = fn(u64) -> Result<L, NoLock>;

/// The reason that a lock could not be created.
#[derive(Debug)]
pub struct NoLock(String);

impl NoLock {
    fn because(why: impl fmt::Display) -> Self {
        NoLock(why.to_string())
    }
}

impl fmt::Display for NoLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (or leave this lock out with --locks)", self.0)
    }
}

impl std::error::Error for NoLock {}

/// An action for each lock.
pub trait Visitor {
    /// Visits the next lock of the list.
    fn visit<L: RawRangeLock + 'static>(&mut self, entry: Entry<L>);
}

/// An action to perform once with one lock.
pub trait Task {
    /// The result of the action.
    type Output;

    /// Performs the action with a lock created by `make`.
    fn run<L: RawRangeLock + 'static>(self, make: Make<L>) -> Self::Output;
}

/// Returns the names of all locks, each with a description.
pub fn all() -> Vec<(&'static str, &'static str)> {
    struct Names(Vec<(&'static str, &'static str)>);
    impl Visitor for Names {
        fn visit<L: RawRangeLock + 'static>(&mut self, entry: Entry<L>) {
            self.0.push((entry.name, entry.about));
        }
    }
    let mut names = Names(Vec::new());
    visit_all(&mut names);
    names.0
}

/// Runs `task` with the lock `name`.
///
/// # Panics
/// Panics if no lock has this name. Names come from [`all`].
pub fn with<T: Task>(name: &str, task: T) -> T::Output {
    struct Select<'n, T: Task> {
        name: &'n str,
        task: Option<T>,
        output: Option<T::Output>,
    }
    impl<T: Task> Visitor for Select<'_, T> {
        fn visit<L: RawRangeLock + 'static>(&mut self, entry: Entry<L>) {
            if entry.name == self.name
                && let Some(task) = self.task.take()
            {
                self.output = Some(task.run(entry.make));
            }
        }
    }
    let mut select = Select {
        name,
        task: Some(task),
        output: None,
    };
    visit_all(&mut select);
    select
        .output
        .unwrap_or_else(|| panic!("no lock is named {name:?}"))
}
