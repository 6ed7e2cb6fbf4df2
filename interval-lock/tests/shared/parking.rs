//! The interval lock with a user-defined way to sleep.

use std::thread;

use crate::suite::parking::Yields;
use spanlock_interval_lock::IntervalLock;
use spanlock_range_lock::RangeLockExt;

parking!(
    interval_tree,
    IntervalLock<Yields>,
    |_| IntervalLock::new().with_parking(),
    1
);

#[test]
fn an_upgrade_waits_with_user_defined_parking() {
    let lock = &IntervalLock::new().with_parking::<Yields>();
    let reader = lock.read(0..4).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| drop(lock.upgradable_read(2..8).unwrap().upgrade()));
        while lock.waiting() == 0 {
            thread::yield_now();
        }
        drop(reader);
    });
    assert!(lock.is_empty());
}

#[test]
fn holds_survive_a_change_of_parking() {
    let lock = IntervalLock::new();
    std::mem::forget(lock.write(0..1).unwrap());
    let lock = lock.with_parking::<Yields>();
    assert!(lock.try_read(0..1).is_err());
    assert!(lock.try_read(1..2).is_ok());
}
