//! The locks that are modelled. A new lock is one line here.

use std::sync::Arc;

use spanlock::{RawRangeLock, RwCounter, RwDistributed};
use spanlock_interval::IntervalLock;
use spanlock_srl::{SrlArray, SrlPacked};

/// The lock under test, as every model sees it. Std's `Arc` in every world: the models are about the lock, and
/// a reference count of the checker's own would multiply executions.
pub type Lock = Arc<dyn RawRangeLock>;

/// A lock to model.
pub struct Primitive {
    /// Its name, as in the comparison: `srl-array`.
    pub name: &'static str,
    /// Whether disjoint ranges never block each other: a range lock with units of one position.
    pub granular: bool,
    /// Whether it changes words by weak compare-exchanges, and a waiter that was woken may have to sleep again. Neither is so if its
    /// state is under a mutex: then it can meet no fault but one, a sleep that ends by itself.
    pub words: bool,
    /// A fresh lock that covers at least positions `0..4`.
    pub make: fn() -> Lock,
}

/// Every lock.
pub const PRIMITIVES: &[Primitive] = &[
    Primitive {
        name: "rw-counter",
        granular: false,
        words: true,
        make: || Arc::new(RwCounter::new()),
    },
    Primitive {
        name: "rw-distributed",
        granular: false,
        words: true,
        make: || Arc::new(RwDistributed::with_slots(2)),
    },
    Primitive {
        name: "srl-array",
        granular: true,
        words: true,
        make: || Arc::new(array()),
    },
    Primitive {
        name: "srl-packed",
        granular: true,
        words: true,
        make: || Arc::new(SrlPacked::with_segment_size(4, 1).expect("1 is a power of two")),
    },
    Primitive {
        name: "srl-gate",
        granular: true,
        words: true,
        make: || Arc::new(array().wide_above(1)),
    },
    Primitive {
        name: "interval-tree",
        granular: true,
        words: false,
        make: || Arc::new(IntervalLock::new()),
    },
];

fn array() -> SrlArray {
    SrlArray::with_segment_size(4, 1).expect("1 is a power of two")
}
