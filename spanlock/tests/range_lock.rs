//! `spanlock::RangeLock` locks ranges, not the whole slice.

use std::sync::Arc;

use spanlock::{OwnedRangeWriteGuard, RangeError, RangeLock, TryLockError};

#[test]
fn disjoint_writes_in_one_thread_do_not_wait() {
    let lock = RangeLock::new(vec![0_u8; 100]);
    let mut low = lock.write(0..50).unwrap();
    let mut high = lock.write(50..100).unwrap();
    low.fill(1);
    high.fill(2);
    drop((low, high));
    assert_eq!(lock.read(49..51).unwrap()[..], [1, 2]);
}

#[test]
fn adjacent_single_elements_are_disjoint() {
    let lock = RangeLock::new([1, 2, 3]);
    let guards: Vec<_> = (0..3).map(|i| lock.write(i..i + 1).unwrap()).collect();
    assert_eq!(guards.iter().map(|guard| guard[0]).sum::<i32>(), 6);
}

#[test]
fn trying_to_lock_an_overlapping_range_fails() {
    let lock = RangeLock::new(vec![0_u8; 100]);
    let _held = lock.write(10..20).unwrap();
    for range in [0..11, 19..30, 10..20, 12..13, 0..100] {
        assert_eq!(
            lock.try_write(range.clone()).err(),
            Some(TryLockError::WouldBlock),
            "{range:?}"
        );
        assert_eq!(
            lock.try_read(range.clone()).err(),
            Some(TryLockError::WouldBlock),
            "{range:?}"
        );
    }
    assert!(lock.try_write(0..10).is_ok());
    assert!(lock.try_write(20..100).is_ok());
}

#[test]
fn owned_guards_accept_the_type_alias() {
    let lock = Arc::new(RangeLock::new(vec![0_u8; 4]));
    let mut guard = OwnedRangeWriteGuard::lock(lock.clone(), 0..2).unwrap();
    guard.fill(7);
    drop(guard);
    assert_eq!(lock.read(0..4).unwrap()[..], [7, 7, 0, 0]);
}

#[test]
fn empty_slices_and_zero_sized_elements() {
    let none = RangeLock::<u8>::new([]);
    assert!(none.write(0..0).is_ok());
    let past = RangeError::PastCapacity {
        start: 0,
        end: 1,
        capacity: 0,
    };
    assert_eq!(none.read(0..1).err(), Some(past));
    let units = RangeLock::new(vec![(); 10]);
    assert_eq!(units.read(3..7).unwrap().len(), 4);
}
