//! The locks of this crate with user-defined parking.

use crate::suite::parking::Yields;
use crate::suite::{self, Kind};
use spanlock_range_lock::{RangeLockExt, RwCounter, RwDistributed};
use spanlock_sync::Spin;

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

/// Parking by [`Spin`], the default without std.
#[test]
fn spinning() {
    let kind: Kind<RwCounter<Spin>> = Kind {
        make: |_| RwCounter::default(),
        granule: u64::MAX,
    };
    suite::waiting::a_release_wakes_all_readers(&kind);
    suite::waiting::a_release_wakes_the_writer(&kind);
}

/// A held range stays held when the parking type changes.
#[test]
fn a_held_lock_may_change_its_way_of_parking() {
    let lock = RwDistributed::with_slots(3);
    std::mem::forget(lock.read(0..1).unwrap());
    let lock = lock.with_parking::<Yields>();
    assert!(lock.try_write(0..1).is_err());
    assert!(lock.try_read(0..1).is_ok());
}
