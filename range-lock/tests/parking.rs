//! The locks of this crate, waited for in ways of one's own.

#![cfg(not(any(spanlock_loom, spanlock_shuttle)))]

#[macro_use]
#[allow(dead_code, unused_macros)]
mod suite;

use spanlock_range_lock::{RangeLockExt, RwCounter, RwDistributed};
use spanlock_sync::Spin;
use suite::Kind;
use suite::parking::Yields;

parking!(
    rw_counter,
    RwCounter<Yields>,
    |_| RwCounter::default(),
    u64::MAX
);
parking!(
    rw_distributed,
    RwDistributed<Yields>,
    |_| RwDistributed::with_slots(3).with_parking(),
    u64::MAX
);

/// As where there is no std.
#[test]
fn spinning() {
    let kind: Kind<RwCounter<Spin>> = Kind {
        make: |_| RwCounter::default(),
        granule: u64::MAX,
    };
    suite::waiting::a_release_wakes_all_readers(&kind);
    suite::waiting::a_release_wakes_the_writer(&kind);
}

/// What is held stays held when the way of waiting changes.
#[test]
fn another_way_for_a_lock_that_is_held() {
    let lock = RwDistributed::with_slots(3);
    std::mem::forget(lock.read(0..1).unwrap());
    let lock = lock.with_parking::<Yields>();
    assert!(lock.try_write(0..1).is_err());
    assert!(lock.try_read(0..1).is_ok());
}
