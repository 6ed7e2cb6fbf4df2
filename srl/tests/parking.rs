//! The segment locks, with a user-defined way for waiters to sleep.

use crate::suite::parking::Yields;
use spanlock_range_lock::RangeLockExt;
use spanlock_srl::{SrlArray, SrlPacked, SrlTree, SrlTreePacked};

parking!(
    array,
    SrlArray<Yields>,
    |capacity| SrlArray::with_segment_size(capacity, 1)
        .unwrap()
        .with_parking(),
    1
);
parking!(
    packed,
    SrlPacked<Yields>,
    |capacity| SrlPacked::with_segment_size(capacity, 1)
        .unwrap()
        .with_parking(),
    1
);
parking!(
    tree,
    SrlTree<Yields>,
    |capacity| SrlTree::with_segment_size(capacity, 1)
        .unwrap()
        .with_parking(),
    1
);
parking!(
    tree_packed,
    SrlTreePacked<Yields>,
    |capacity| SrlTreePacked::with_segment_size(capacity, 1)
        .unwrap()
        .with_parking(),
    1
);
// A request for two segments is already wide, so nearly every request goes through the gate.
parking!(
    gate,
    SrlArray<Yields>,
    |capacity| {
        let lock = SrlArray::with_segment_size(capacity, 1).unwrap();
        lock.wide_above(1).with_parking()
    },
    1
);

/// Small and wide holds survive `with_parking`.
#[test]
fn holds_survive_a_change_of_parking() {
    let lock = SrlArray::with_segment_size(100, 1).unwrap().wide_above(10);
    std::mem::forget(lock.write(0..5).unwrap());
    std::mem::forget(lock.write(20..60).unwrap());
    let lock = lock.with_parking::<Yields>();
    for held in [4, 20, 59] {
        assert!(lock.try_read(held..held + 1).is_err());
    }
    assert!(lock.try_write(5..20).is_ok());
}
