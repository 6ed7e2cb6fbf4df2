//! Deadlock detection: a thread that would wait for itself panics, and so does a thread that takes
//! two locks in the opposite order. The detector forgets a lock when the lock is dropped.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use std::panic::{AssertUnwindSafe, catch_unwind};

use spanlock_interval_lock::IntervalLock;
use spanlock_range_lock::RangeLockExt;

fn panics<R>(f: impl FnOnce() -> R) -> bool {
    catch_unwind(AssertUnwindSafe(f)).is_err()
}

#[test]
fn a_thread_that_would_wait_for_itself() {
    let lock = IntervalLock::new();
    let reader = lock.read(0..10).unwrap();
    assert!(panics(|| drop(lock.write(9..20).unwrap())));
    assert_eq!((lock.len(), lock.waiting()), (1, 0));
    drop(reader);
    let hold = lock.upgradable_read(0..10).unwrap();
    let reader = lock.read(0..1).unwrap();
    assert!(panics(|| drop(hold.upgrade())));
    drop(reader);
    assert!(lock.is_empty());
}

#[test]
fn opposite_orders_panic() {
    let (one, mut two) = (IntervalLock::new(), IntervalLock::new());
    let first = one.write(0..1).unwrap();
    drop((two.write(0..1).unwrap(), first));
    let first = two.write(0..1).unwrap();
    assert!(panics(|| drop(one.write(0..1).unwrap())));
    drop(first);
    two = IntervalLock::new();
    let first = two.write(0..1).unwrap();
    drop((one.write(0..1).unwrap(), first));
}
