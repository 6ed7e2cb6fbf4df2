//! Point 1 of the contract: ranges and their errors. Point 9: unusual ranges work.

use std::ops::Range;

use spanlock_range_lock::{RangeError, RangeLockExt, RawRangeLock, TryLockError};

use super::{BOTH, Held, Kind, UNITS};

/// Asserts that all four methods refuse `range` with `expected`.
fn assert_refused<L: RawRangeLock>(lock: &L, range: Range<u64>, expected: RangeError) {
    let r = || range.clone();
    assert_eq!(lock.read(r()).err(), Some(expected));
    assert_eq!(lock.write(r()).err(), Some(expected));
    let expected = TryLockError::Range(expected);
    assert_eq!(lock.try_read(r()).err(), Some(expected));
    assert_eq!(lock.try_write(r()).err(), Some(expected));
}

#[allow(clippy::reversed_empty_ranges)]
pub(crate) fn a_reversed_range_is_an_error<L: RawRangeLock>(kind: &Kind<L>) {
    let lock = kind.lock();
    for range in [1..0, 7..3, u64::MAX..0, u64::MAX..u64::MAX - 1] {
        let Range { start, end } = range;
        assert_refused(&lock, range, RangeError::Reversed { start, end });
    }
    kind.assert_free(&lock);
}

pub(crate) fn past_the_capacity_is_an_error<L: RawRangeLock>(kind: &Kind<L>) {
    // Not a multiple of the granule, so the last one may be short.
    for capacity in [1, 3, kind.unit(), 2 * kind.unit() + 1] {
        let lock = (kind.make)(capacity);
        assert!(lock.capacity() >= capacity);
        let capacity = lock.capacity();
        drop(lock.write(0..capacity).expect("exactly the capacity"));
        drop(
            lock.write(capacity - 1..capacity)
                .expect("the last position"),
        );
        // An unbounded lock has nothing to refuse: no range ends past `u64::MAX`.
        let Some(end) = capacity.checked_add(1) else {
            continue;
        };
        for (start, end) in [
            (0, end),
            (capacity, end),
            (end, end + 1),
            (0, u64::MAX),
            (u64::MAX - 1, u64::MAX),
        ] {
            let expected = RangeError::PastCapacity {
                start,
                end,
                capacity,
            };
            assert_refused(&lock, start..end, expected);
        }
        drop(lock.try_write(0..capacity).expect("nothing was taken"));
    }
}

pub(crate) fn an_empty_range_holds_nothing<L: RawRangeLock>(kind: &Kind<L>) {
    let lock = kind.lock();
    let last = kind.everything().end;
    let everything = lock.write(0..last).unwrap();
    // Inside the held range, at its end, and past the capacity: none of them waits.
    let empty: Vec<_> = [0, 1, last / 2, last - 1, last, last + 1, u64::MAX]
        .iter()
        .flat_map(|&at| BOTH.map(|access| Held::take(&lock, at..at, access)))
        .collect();
    for at in [0, last / 2, last, u64::MAX] {
        for access in BOTH {
            assert!(Held::try_take(&lock, at..at, access).is_ok());
        }
    }
    drop(everything);
    // Nor does any request wait for them.
    kind.assert_free(&lock);
    drop(empty);
    kind.assert_free(&lock);
}

pub(crate) fn an_error_holds_nothing<L: RawRangeLock>(kind: &Kind<L>) {
    let lock = kind.lock();
    let capacity = lock.capacity();
    if let Some(past) = capacity.checked_add(1) {
        for _ in 0..10 {
            assert!(lock.write(0..past).is_err());
            assert!(lock.try_write(kind.unit()..past).is_err());
        }
    }
    kind.assert_free(&lock);
    // An invalid range does not wait for a hold either.
    let hold = lock.write(kind.everything()).unwrap();
    if let Some(past) = capacity.checked_add(1) {
        assert!(lock.read(0..past).is_err());
    }
    drop(hold);
    kind.assert_free(&lock);
}

pub(crate) fn a_range_may_end_at_the_last_position<L: RawRangeLock>(kind: &Kind<L>) {
    let lock = kind.lock();
    let end = lock.capacity();
    // For an unbounded lock this is `u64::MAX`.
    let last = lock.write(end - 1..end).unwrap();
    assert_eq!(last.span().map(|span| span.range()), Some(end - 1..end));
    assert_eq!(
        lock.try_read(end - 2..end).err(),
        Some(TryLockError::WouldBlock)
    );
    drop(last);
    drop(lock.write(0..end).unwrap());
    kind.assert_free(&lock);
}

pub(crate) fn a_single_position<L: RawRangeLock>(kind: &Kind<L>) {
    let lock = kind.lock();
    for at in [0, 1, kind.unit(), kind.everything().end - 1] {
        let reading = lock.read(at..at + 1).unwrap();
        drop(lock.try_read(at..at + 1).unwrap());
        assert!(lock.try_write(at..at + 1).is_err());
        drop(reading);
        let writing = lock.write(at..at + 1).unwrap();
        assert!(lock.try_read(at..at + 1).is_err());
        drop(writing);
    }
    // A lock that covers a single position.
    let lock = (kind.make)(1);
    let hold = lock.write(0..1).unwrap();
    assert!(lock.try_read(0..1).is_err());
    drop(hold);
    assert!(lock.try_read(0..1).is_ok());
}

pub(crate) fn the_full_range<L: RawRangeLock>(kind: &Kind<L>) {
    let lock = kind.lock();
    let full = 0..lock.capacity();
    for access in BOTH {
        let all = Held::take(&lock, full.clone(), access);
        for unit in 0..UNITS {
            assert!(lock.try_write(kind.units(unit..unit + 1)).is_err());
        }
        assert!(lock.try_write(full.end - 1..full.end).is_err());
        drop(all);
    }
    kind.assert_free(&lock);
}
