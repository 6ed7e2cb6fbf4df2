//! The statistics of the segment locks.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

#[macro_use]
#[path = "../../range-lock/tests/suite/mod.rs"]
#[allow(dead_code, unused_macros)]
mod suite;

use spanlock_range_lock::words::MAX_PASSES;
use spanlock_range_lock::{RangeLockExt, RawRangeLockStatistics};
use spanlock_srl::{SrlArray, SrlPacked, SrlTree, SrlTreePacked};

const PASSES: u64 = MAX_PASSES as u64;

statistics!(
    array,
    SrlArray,
    |capacity| SrlArray::with_segment_size(capacity, 1).unwrap(),
    1,
    PASSES
);
statistics!(
    packed,
    SrlPacked,
    |capacity| SrlPacked::with_segment_size(capacity, 1).unwrap(),
    1,
    PASSES
);
statistics!(
    tree,
    SrlTree,
    |capacity| SrlTree::with_segment_size(capacity, 1).unwrap(),
    1,
    PASSES
);
statistics!(
    tree_packed,
    SrlTreePacked,
    |capacity| SrlTreePacked::with_segment_size(capacity, 1).unwrap(),
    1,
    PASSES
);

/// A wide request counts as one acquisition. Its wait for another wide request counts as one wait.
#[test]
fn a_wide_range_counts_once() {
    let _alone = suite::statistics::alone();
    use std::task::{Context, Waker};

    let lock = SrlTree::with_segment_size(64, 1).unwrap().wide_above(4);
    let wide = lock.write(0..32).unwrap();
    let mut future = Box::pin(lock.write_async(16..64));
    let mut poll = || {
        let mut context = Context::from_waker(Waker::noop());
        future.as_mut().poll(&mut context).is_ready()
    };
    assert!(!poll());
    let waiting = lock.statistics();
    assert_eq!((waiting.acquisitions, waiting.waits), (1, 1));
    drop(wide);
    assert!(poll());
    drop(future);
    assert_eq!(
        lock.statistics().to_string(),
        "2 acquisitions, 1 waits, 0 overtakes"
    );
    // Shrinking is not an acquisition.
    lock.shrink();
    assert_eq!(lock.statistics().acquisitions, 2);
}
