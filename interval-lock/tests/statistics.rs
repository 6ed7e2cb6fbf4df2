//! The statistics of the interval tree.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

#[macro_use]
#[path = "../../range-lock/tests/suite/mod.rs"]
#[allow(dead_code, unused_macros)]
mod suite;

use std::thread;

use spanlock_interval_lock::IntervalLock;
use spanlock_range_lock::{Access, RangeLockExt, RawRangeLockStatistics};

// The last argument is the bound on overtakes.
statistics!(interval_tree, IntervalLock, |_| IntervalLock::new(), 1, 0);

/// A waiting batch counts as one wait, and as one acquisition for each span. A waiting upgrade
/// counts as a wait, but not as an acquisition.
#[test]
fn waiting_batches_and_upgrades_are_counted() {
    let _alone = suite::statistics::alone();
    let lock = &IntervalLock::new();
    let hold = lock.read(0..1).unwrap();
    thread::scope(|scope| {
        let batch = [0..1, 2..3, 4..5].map(|range| (range, Access::Write));
        scope.spawn(|| drop(lock.lock_all(batch).unwrap()));
        while lock.waiting() < 3 {
            thread::yield_now();
        }
        assert_eq!(
            lock.statistics().to_string(),
            "1 acquisitions, 1 waits, 0 overtakes"
        );
        drop(hold);
    });
    assert_eq!(lock.statistics().acquisitions, 4);
    let hold = lock.read(0..1).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| drop(lock.upgradable_read(0..1).unwrap().upgrade()));
        while lock.waiting() == 0 {
            thread::yield_now();
        }
        drop(hold);
    });
    assert_eq!(
        lock.statistics().to_string(),
        "6 acquisitions, 2 waits, 0 overtakes"
    );
}
