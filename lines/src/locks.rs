//! The locks, by name.

use spanlock_interval_lock::IntervalLock;
use spanlock_range_lock::{RawRangeLock, RwCounter, RwDistributed};
use spanlock_srl::{SrlArray, SrlPacked, SrlTree};

/// Something to do with a lock, whichever it is.
pub(crate) trait Task {
    type Output;

    /// Does it. `make` creates a lock for this capacity.
    fn run<L: RawRangeLock + 'static>(self, make: fn(Needs) -> L) -> Self::Output;
}

/// How far the disjoint pages of two cores lie apart, in bytes.
pub(crate) const FAR: u64 = 8 << 20;

/// What a lock is made for.
#[derive(Clone, Copy)]
pub(crate) struct Needs {
    pub(crate) capacity: u64,
    pub(crate) cores: usize,
}

/// The names of all locks.
pub(crate) const NAMES: [&str; 7] = [
    "rw-counter",
    "rw-distributed",
    "srl-array",
    "srl-packed",
    "srl-tree",
    "interval-tree",
    "interval-tree-1",
];

/// Checks that there is a lock of this name.
///
/// # Errors
/// There is none.
pub(crate) fn check(name: &str) -> Result<(), String> {
    match NAMES.contains(&name) {
        true => Ok(()),
        false => Err(format!("no lock {name}: there are {}", NAMES.join(", "))),
    }
}

/// Does a task with the lock of this name, which is one of [`NAMES`].
pub(crate) fn with<T: Task>(name: &str, task: T) -> T::Output {
    const HAS_ROOM: &str = "the arena has room for it";
    match name {
        "rw-counter" => task.run(|_| RwCounter::new()),
        "rw-distributed" => task.run(|needs| RwDistributed::with_slots(needs.cores)),
        "srl-array" => task.run(|needs| SrlArray::new(needs.capacity).expect(HAS_ROOM)),
        "srl-packed" => task.run(|needs| SrlPacked::new(needs.capacity).expect(HAS_ROOM)),
        "srl-tree" => task.run(|needs| SrlTree::new(needs.capacity).expect(HAS_ROOM)),
        "interval-tree" => task.run(|_| IntervalLock::new()),
        "interval-tree-1" => task.run(|_| IntervalLock::with_shards(1, 1 << 16)),
        _ => unreachable!("{name} is one of the names"),
    }
}
