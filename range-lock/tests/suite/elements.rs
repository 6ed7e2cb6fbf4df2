//! `RangeLock`: elements behind a range lock.

use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use spanlock_range_lock::{RangeError, RangeLock, RawRangeLock, TryLockError};

use super::Kind;

/// Returns a lock of the numbers `0..` in so many units, and the number of elements in a unit.
fn numbers<L: RawRangeLock>(kind: &Kind<L>, units: u64) -> (RangeLock<u64, L>, usize) {
    let data: Vec<u64> = (0..kind.units(0..units).end).collect();
    let lock = RangeLock::with_lock(data, kind.lock()).unwrap();
    (lock, kind.unit() as usize)
}

pub(crate) fn guards_are_the_elements<L: RawRangeLock>(kind: &Kind<L>) {
    let (mut lock, unit) = numbers(kind, 4);
    assert_eq!(lock.len(), 4 * unit);
    assert!(!lock.is_empty());
    assert_eq!(lock.raw().capacity(), kind.lock().capacity());

    let read = lock.read(1..unit + 2).unwrap();
    assert_eq!(*read, *(1..unit as u64 + 2).collect::<Vec<_>>());
    drop(read);
    assert_eq!(format!("{:?}", lock.try_read(1..3).unwrap()), "[1, 2]");

    let mut write = lock.write(unit..2 * unit).unwrap();
    write.fill(7);
    assert_eq!(write.len(), unit);
    drop(write);
    let mut write = lock.try_write(0..1).unwrap();
    write[0] = 8;
    assert_eq!(format!("{write:?}"), "[8]");
    drop(write);

    lock.get_mut()[1] = 9;
    let data = lock.into_inner();
    for (at, &value) in data.iter().enumerate() {
        let expected = match at {
            0 => 8,
            1 => 9,
            _ if (unit..2 * unit).contains(&at) => 7,
            _ => at as u64,
        };
        assert_eq!(value, expected, "element {at}");
    }
}

#[allow(clippy::reversed_empty_ranges)]
pub(crate) fn ranges_are_checked_against_the_length<L: RawRangeLock>(kind: &Kind<L>) {
    // The lock covers more positions than there are elements.
    let (lock, unit) = numbers(kind, 2);
    let capacity = lock.len() as u64;
    for range in [0..2 * unit + 1, 2 * unit..2 * unit + 1, 5..usize::MAX] {
        let expected = RangeError::PastCapacity {
            start: range.start as u64,
            end: range.end as u64,
            capacity,
        };
        assert_eq!(lock.read(range.clone()).err(), Some(expected));
        assert_eq!(lock.write(range.clone()).err(), Some(expected));
        let expected = Some(TryLockError::Range(expected));
        assert_eq!(lock.try_read(range.clone()).err(), expected);
        assert_eq!(lock.try_write(range).err(), expected);
    }
    let reversed = RangeError::Reversed { start: 1, end: 0 };
    assert_eq!(lock.read(1..0).err(), Some(reversed));
    assert_eq!(
        lock.try_write(1..0).err(),
        Some(TryLockError::Range(reversed))
    );
    // An empty range must lie within the slice too, as with slices.
    assert!(lock.write(2 * unit..2 * unit).unwrap().is_empty());
    let end = capacity + 1;
    assert_eq!(
        lock.read(end as usize..end as usize).err(),
        Some(RangeError::PastCapacity {
            start: end,
            end,
            capacity
        })
    );
}

pub(crate) fn readers_see_the_same_elements<L: RawRangeLock>(kind: &Kind<L>) {
    let (lock, unit) = numbers(kind, 4);
    let all = lock.read(0..4 * unit).unwrap();
    let part = lock.read(unit..2 * unit).unwrap();
    assert_eq!(all[unit..2 * unit], part[..]);
    assert!(std::ptr::eq(&all[unit], &part[0]));
    assert!(lock.try_write(unit..unit + 1).is_err());
}

pub(crate) fn disjoint_writers_hold_at_once<L: RawRangeLock>(kind: &Kind<L>) {
    let (lock, unit) = numbers(kind, 4);
    let mut first = lock.write(0..unit).unwrap();
    if !kind.is_granular() {
        assert!(lock.try_write(unit..2 * unit).is_err());
        return;
    }
    let mut second = lock.write(unit..2 * unit).unwrap();
    let third = lock.read(2 * unit..4 * unit).unwrap();
    first.swap_with_slice(&mut second);
    assert_eq!((first[0], second[0]), (unit as u64, 0));
    assert_eq!(third[0], 2 * unit as u64);
    // An empty guard can coexist with a writer.
    assert!(lock.write(1..1).unwrap().is_empty());
    drop((first, second, third));
}

/// Counts its drops.
struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

fn counted<'a, L: RawRangeLock>(
    kind: &Kind<L>,
    drops: &'a AtomicUsize,
) -> RangeLock<Counted<'a>, L> {
    let data: Vec<_> = (0..10).map(|_| Counted(drops)).collect();
    RangeLock::with_lock(data, kind.lock()).unwrap()
}

pub(crate) fn elements_are_dropped_once<L: RawRangeLock>(kind: &Kind<L>) {
    let drops = AtomicUsize::new(0);
    let lock = counted(kind, &drops);
    drop(lock.read(0..10).unwrap());
    drop(lock.write(0..10).unwrap());
    assert_eq!(drops.load(Relaxed), 0);
    // Replacing an element drops the old one, once.
    lock.write(3..4).unwrap()[0] = Counted(&drops);
    assert_eq!(drops.load(Relaxed), 1);
    drop(lock);
    assert_eq!(drops.load(Relaxed), 11);
}

pub(crate) fn into_inner_returns_the_elements<L: RawRangeLock>(kind: &Kind<L>) {
    let drops = AtomicUsize::new(0);
    let elements = counted(kind, &drops).into_inner();
    assert_eq!((elements.len(), drops.load(Relaxed)), (10, 0));
    drop(elements);
    assert_eq!(drops.load(Relaxed), 10);
}

pub(crate) fn elements_are_dropped_after_a_forgotten_guard<L: RawRangeLock>(kind: &Kind<L>) {
    let drops = AtomicUsize::new(0);
    let lock = counted(kind, &drops);
    forget(lock.write(2..5).unwrap());
    drop(lock);
    assert_eq!(drops.load(Relaxed), 10);
    // `&mut` proves that no usable guard is left.
    let mut lock = counted(kind, &drops);
    forget(lock.read(2..5).unwrap());
    lock.get_mut()[3] = Counted(&drops);
    assert_eq!(lock.into_inner().len(), 10);
    assert_eq!(drops.load(Relaxed), 21);
}

pub(crate) fn zero_sized_elements_are_locked<L: RawRangeLock>(kind: &Kind<L>) {
    let lock = RangeLock::with_lock(vec![(); 10], kind.lock()).unwrap();
    assert_eq!(lock.len(), 10);
    let mut some = lock.write(2..7).unwrap();
    assert_eq!((some.len(), some.iter_mut().count()), (5, 5));
    // They take no memory, but are locked all the same.
    assert!(lock.try_read(6..8).is_err());
    drop(some);
    assert!(lock.read(9..11).is_err());
    assert_eq!(lock.into_inner().len(), 10);
    // As many elements as an unbounded lock, or a usize, can count.
    let data: Box<[()]> = match kind.lock().capacity() {
        u64::MAX => Box::new([(); usize::MAX]),
        capacity => vec![(); capacity as usize].into(),
    };
    let many = data.len();
    let lock = RangeLock::with_lock(data, kind.lock()).unwrap();
    assert_eq!(lock.write(0..many).unwrap().len(), many);
    assert_eq!(lock.read(many - 1..many).unwrap().len(), 1);

    /// A zero-sized type with a destructor.
    struct Nothing;
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    impl Drop for Nothing {
        fn drop(&mut self) {
            DROPS.fetch_add(1, Relaxed);
        }
    }
    let before = DROPS.load(Relaxed);
    let data: Vec<_> = (0..10).map(|_| Nothing).collect();
    let lock = RangeLock::with_lock(data, kind.lock()).unwrap();
    drop(lock.write(0..10).unwrap());
    drop(lock);
    // Tests of other locks may count at the same time.
    assert!(DROPS.load(Relaxed) >= before + 10);
}

pub(crate) fn slices_of_one_and_of_no_elements<L: RawRangeLock>(kind: &Kind<L>) {
    let one = RangeLock::with_lock([5], kind.lock()).unwrap();
    one.write(0..1).unwrap()[0] += 1;
    assert!(one.write(0..0).unwrap().is_empty());
    assert!(one.read(1..1).unwrap().is_empty());
    assert_eq!(one.into_inner()[..], [6]);

    let none = RangeLock::with_lock(Vec::<u32>::new(), kind.lock()).unwrap();
    assert!(none.is_empty());
    assert!(none.write(0..0).unwrap().is_empty());
    let expected = RangeError::PastCapacity {
        start: 0,
        end: 1,
        capacity: 0,
    };
    assert_eq!(none.read(0..1).err(), Some(expected));
    assert!(none.into_inner().is_empty());
}

pub(crate) fn a_panic_leaves_what_was_written<L: RawRangeLock>(kind: &Kind<L>) {
    let (lock, _) = numbers(kind, 4);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut guard = lock.write(0..2).unwrap();
        guard[0] = 77;
        std::panic::resume_unwind(Box::new("half written"));
    }));
    assert!(panicked.is_err());
    // No poisoning.
    assert_eq!(lock.try_read(0..2).unwrap()[..], [77, 1]);
}
