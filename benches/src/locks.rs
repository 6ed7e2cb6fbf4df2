//! The list of all locks that can protect a file, one line each. The first part, the *registry*,
//! lists this project's locks; the second part lists those of other projects.
//!
//! All code is compiled for each lock's concrete type, as in a program that uses a single lock.
//! Therefore the list is visited by generic code and not stored.
//!
//! Some locks may take memory in proportion to their capacity, so creating one can fail.

use std::fmt;
use std::sync::RwLock;

use spanlock_interval_lock::IntervalLock;
use spanlock_range_lock::{RawRangeLock, RwCounter, RwDistributed};
use spanlock_srl::{SrlArray, SrlPacked, SrlTree};

use crate::peers::{self, Guarded, ParkingLot};

/// Visits every lock of the registry, in the order in which they are reported.
#[rustfmt::skip] // A lock is one line.
pub fn visit_all(visitor: &mut impl Visitor) {
    visitor.visit(Entry { name: "rw-counter", about: "one reader-writer word for a whole file, NOVA's default", whole_file: true, reach: u64::MAX, make: |_| Ok(RwCounter::new()) });
    visitor.visit(Entry { name: "rw-distributed", about: "the same, with a reader count for each core", whole_file: true, reach: u64::MAX, make: |_| Ok(RwDistributed::new()) });
    visitor.visit(Entry { name: "srl-array", about: "a reader-writer word for each 4 KiB of a file", whole_file: false, reach: 1 << 30, make: |capacity| SrlArray::new(capacity).map_err(NoLock::because) });
    visitor.visit(Entry { name: "srl-packed", about: "the states of sixteen 4 KiB segments in one word", whole_file: false, reach: 1 << 30, make: |capacity| SrlPacked::new(capacity).map_err(NoLock::because) });
    visitor.visit(Entry { name: "srl-tree", about: "a word for each 4 KiB, in the leaves of a radix tree that grows", whole_file: false, reach: u64::MAX, make: |capacity| SrlTree::new(capacity).map_err(NoLock::because) });
    visitor.visit(Entry { name: "interval-tree", about: "trees of exact ranges, in eight shards with a mutex each, first come, first served except for bounded overtaking", whole_file: false, reach: u64::MAX, make: |_| Ok(IntervalLock::new()) });
}

/// Visits the locks of other projects, in the order in which they are reported.
#[rustfmt::skip] // A lock is one line.
pub fn visit_peers(visitor: &mut impl Visitor) {
    visitor.visit(Entry { name: "parking_lot", about: "one parking_lot::RwLock 0.13 for a whole file", whole_file: true, reach: u64::MAX, make: |_| Ok(ParkingLot::new()) });
    visitor.visit(Entry { name: "std", about: "one std::sync::RwLock for a whole file", whole_file: true, reach: u64::MAX, make: |_| Ok(Guarded(RwLock::new(()))) });
    visitor.visit(Entry { name: "range-mutex", about: "range_mutex::RangeMutex 0.1.7: a sorted vector of ranges under a mutex; reads are exclusive", whole_file: false, reach: u64::MAX, make: |capacity| Ok(peers::slice_mutex(capacity)) });
    visitor.visit(Entry { name: "range-lock", about: "range_lock::VecRangeLock 0.2.4: a tree of ranges under a mutex; reads are exclusive, and waiting threads yield and retry", whole_file: false, reach: u64::MAX, make: |capacity| Ok(peers::vec_range(capacity)) });
}

/// Visits locks that only `papers` measures: what [SRL] compares with, and other segment sizes.
///
/// [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905
#[rustfmt::skip] // A lock is one line.
pub fn visit_of_papers(visitor: &mut impl Visitor) {
    visitor.visit(Entry { name: "interval-tree-1", about: "a tree of exact ranges under one mutex, as in Linux's range lock", whole_file: false, reach: u64::MAX, make: |_| Ok(IntervalLock::with_shards(1, 1 << 16)) });
    visitor.visit(Entry { name: "srl-tree-16k", about: "srl-tree with a word for each 16 KiB", whole_file: false, reach: u64::MAX, make: |capacity| SrlTree::with_segment_size(capacity, 16 << 10).map_err(NoLock::because) });
    visitor.visit(Entry { name: "srl-tree-64k", about: "srl-tree with a word for each 64 KiB", whole_file: false, reach: u64::MAX, make: |capacity| SrlTree::with_segment_size(capacity, 64 << 10).map_err(NoLock::because) });
    visitor.visit(Entry { name: "srl-tree-256k", about: "srl-tree with a word for each 256 KiB", whole_file: false, reach: u64::MAX, make: |capacity| SrlTree::with_segment_size(capacity, 256 << 10).map_err(NoLock::because) });
}

/// A lock in the list.
#[derive(Clone, Copy, Debug)]
pub struct Entry<L> {
    /// The name for selection and reports.
    pub name: &'static str,
    /// A short description.
    pub about: &'static str,
    /// Whether the lock has no ranges and always locks everything. The best of these in a run is
    /// the baseline of its ratios.
    pub whole_file: bool,
    /// The largest capacity in bytes with which the lock is measured on its own. It is 1 GiB for a
    /// lock whose memory grows with its capacity, and `u64::MAX` for others.
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

/// The properties of a contestant that do not depend on its type.
#[derive(Clone, Copy, Debug)]
pub struct Contestant {
    /// The name for selection and reports.
    pub name: &'static str,
    /// A short description.
    pub about: &'static str,
    /// Whether the lock is in the registry.
    pub ours: bool,
    /// Whether the lock always locks everything.
    pub whole_file: bool,
}

/// Locks, and whether the next ones are in the registry.
struct List(Vec<Contestant>, bool);

impl Visitor for List {
    fn visit<L: RawRangeLock + 'static>(&mut self, entry: Entry<L>) {
        self.0.push(Contestant {
            name: entry.name,
            about: entry.about,
            ours: self.1,
            whole_file: entry.whole_file,
        });
    }
}

/// Returns all locks that can protect a file: the registry, then those of other projects.
pub fn contestants() -> Vec<Contestant> {
    let mut list = List(Vec::new(), true);
    visit_all(&mut list);
    list.1 = false;
    visit_peers(&mut list);
    list.0
}

/// Returns the contestant with this name, which may be one of `papers` alone.
///
/// # Panics
/// Panics if there is none.
pub fn contestant(name: &str) -> Contestant {
    let mut list = List(contestants(), true);
    visit_of_papers(&mut list);
    let found = list.0.into_iter().find(|it| it.name == name);
    found.unwrap_or_else(|| panic!("no lock is named {name:?}"))
}

/// Returns the names of the registry's locks, each with a description.
pub fn all() -> Vec<(&'static str, &'static str)> {
    let ours = contestants().into_iter().filter(|it| it.ours);
    ours.map(|it| (it.name, it.about)).collect()
}

/// Runs `task` with the lock `name`.
///
/// # Panics
/// Panics if no lock has this name. Names come from [`contestants`] and [`visit_of_papers`].
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
    visit_peers(&mut select);
    visit_of_papers(&mut select);
    select
        .output
        .unwrap_or_else(|| panic!("no lock is named {name:?}"))
}
