//! Every method that takes a range takes every form of it, over several integers.

use spanlock::{
    Access, IntervalLock, PartError, RangeError, RangeLock, RangeLockExt, Span, TimedLockError,
    TryLockError,
};

const READ: Access = Access::Read;

fn held(lock: &IntervalLock) -> Vec<core::ops::Range<u64>> {
    let ranges = lock.held_ranges().into_iter();
    ranges.map(|(span, _)| span.range()).collect()
}

#[test]
fn each_form_holds_its_positions() {
    let lock = IntervalLock::new();
    let all = 0..u64::MAX;
    let holds = [
        (lock.read(3..7), 3..7),
        (lock.read(3..=7), 3..8),
        (lock.read(3..), 3..u64::MAX),
        (lock.read(..7), 0..7),
        (lock.read(..=7), 0..8),
        (lock.read(..), all),
    ];
    for (hold, expected) in holds {
        assert_eq!(hold.unwrap().span().map(Span::range), Some(expected));
    }
}

#[test]
fn each_integer_is_a_position() {
    let lock = IntervalLock::new();
    let (a, b, c, d) = (1_u32, 2_u64, 3_usize, 4_i32);
    let holds = (
        lock.read(a..a + 1).unwrap(),
        lock.read(b..b + 1).unwrap(),
        lock.read(c..=c).unwrap(),
        lock.read(d..d + 1).unwrap(),
    );
    assert_eq!(held(&lock), [1..2, 2..3, 3..4, 4..5]);
    drop(holds);
}

#[test]
fn elements_take_the_same_forms() {
    let lock = RangeLock::new((0..10).collect::<Vec<u8>>());
    assert_eq!(lock.read(7_u32..).unwrap()[..], [7, 8, 9]);
    assert_eq!(lock.read(..=1_u64).unwrap()[..], [0, 1]);
    assert_eq!(lock.read(4..=5_usize).unwrap()[..], [4, 5]);
    assert_eq!(lock.read(10..).unwrap().len(), 0);
    assert_eq!(lock.write(..).unwrap().len(), 10);
    let mut guard = lock.write(2..8).unwrap();
    guard.shrink(1..).unwrap();
    guard.shrink(..=2).unwrap();
    assert_eq!(guard[..], [3, 4, 5]);
    drop(guard);
    let mut batch = lock.lock_all([(..3, Access::Write)]).unwrap();
    assert_eq!(batch.get(..), Some(&[0, 1, 2][..]));
    assert_eq!(batch.get_mut(1..).unwrap().len(), 2);
    assert!(batch.get(..4).is_none() && batch.get(..-1).is_none());
    let [low, high] = batch.get_disjoint_mut([0..=0, 1..=2]).unwrap();
    assert_eq!((low.len(), high.len()), (1, 2));
}

#[test]
#[allow(clippy::single_range_in_vec_init)]
fn a_hold_without_a_bound_keeps_its_own() {
    let lock = IntervalLock::new();
    let mut hold = lock.write(100..200).unwrap();
    hold.shrink(..).unwrap();
    assert_eq!(held(&lock), [100..200]);
    hold.shrink(150..).unwrap();
    hold.shrink(..=159).unwrap();
    assert_eq!(held(&lock), [150..160]);
    let outside = PartError::Outside {
        start: 170,
        end: 170,
        held_start: 150,
        held_end: 160,
    };
    assert_eq!(hold.shrink(170..), Err(outside));
    assert_eq!(held(&lock), [150..160]);
}

#[test]
#[allow(clippy::reversed_empty_ranges)]
fn what_is_no_range_is_an_error() {
    let lock = IntervalLock::new();
    let negative = RangeError::Negative { at: -1 };
    assert_eq!(lock.read(-1..5).err(), Some(negative));
    assert_eq!(lock.write(..-1).err(), Some(negative));
    assert_eq!(negative.to_string(), "the position -1 is negative");
    assert_eq!(
        lock.read(0..=u64::MAX).err(),
        Some(RangeError::LastPosition)
    );
    assert_eq!(lock.read(u64::MAX..).unwrap().span(), None);
    let reversed = RangeError::Reversed { start: 5, end: 4 };
    assert_eq!(lock.read(5..=3).err(), Some(reversed));
    let batch = lock.lock_all([(0..5, READ), (-1..5, READ)]);
    assert_eq!(batch.err(), Some(negative));
    let mut hold = lock.write(0..10).unwrap();
    assert_eq!(hold.shrink(-1..5), Err(PartError::Range(negative)));
    drop(hold);
    assert_eq!(held(&lock), []);

    let elements = RangeLock::new(vec![0; 3]);
    let past = RangeError::PastCapacity {
        start: 4,
        end: 4,
        capacity: 3,
    };
    assert_eq!(elements.read(4..).err(), Some(past));
    assert_eq!(elements.read(-1..).err(), Some(negative));
}

#[test]
fn capacities_need_no_trait() {
    use spanlock::{RwCounter, RwDistributed, SrlArray, SrlTree};
    assert_eq!(RwCounter::new().capacity(), u64::MAX);
    assert_eq!(RwDistributed::new().capacity(), u64::MAX);
    assert_eq!(IntervalLock::new().capacity(), u64::MAX);
    let array = SrlArray::new(100).unwrap();
    assert_eq!(array.capacity(), 100);
    assert_eq!(array.write(..).unwrap().span().map(Span::end), Some(100));
    let past = RangeError::PastCapacity {
        start: 101,
        end: 101,
        capacity: 100,
    };
    assert_eq!(array.read(101..).err(), Some(past));
    let tree = SrlTree::new(1 << 40).unwrap();
    drop(tree.write(0..4096).unwrap());
    assert_eq!(tree.shrink_range(tree.capacity() - 1..), Ok(0));
    assert!(tree.shrink_range(..4096).unwrap() > 0);
}

#[test]
fn a_failed_try_is_a_request_without_time() {
    let timed: TimedLockError = TryLockError::WouldBlock.into();
    assert_eq!(timed, TimedLockError::TimedOut);
    let error = RangeError::LastPosition;
    assert_eq!(
        TimedLockError::from(TryLockError::Range(error)),
        TimedLockError::Range(error)
    );
}
