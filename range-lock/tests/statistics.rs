//! The statistics of the locks of this crate.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

#[macro_use]
#[allow(dead_code, unused_macros)]
mod suite;

use spanlock_range_lock::words::MAX_PASSES;
use spanlock_range_lock::{RangeLockExt, RawRangeLockStatistics, RwCounter, RwDistributed};

const PASSES: u64 = MAX_PASSES as u64;

statistics!(
    rw_counter,
    RwCounter,
    |_| RwCounter::new(),
    u64::MAX,
    PASSES
);
statistics!(
    rw_distributed,
    RwDistributed,
    |_| RwDistributed::with_slots(1),
    u64::MAX,
    PASSES
);

#[test]
fn a_writer_of_many_slots_counts_once() {
    let _alone = suite::statistics::alone();
    let lock = RwDistributed::with_slots(8);
    drop(lock.write(0..1).unwrap());
    assert_eq!(
        lock.statistics().acquisitions,
        1,
        "one hold, of eight words"
    );
}

/// The counts survive a change of the parking type.
#[test]
fn counts_survive_a_change_of_parking() {
    let _alone = suite::statistics::alone();
    let lock = RwDistributed::with_slots(2);
    drop(lock.write(0..1).unwrap());
    let lock = lock.with_parking::<spanlock_sync::Spin>();
    assert_eq!(lock.statistics().acquisitions, 1);
}
