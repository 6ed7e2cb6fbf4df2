//! Point 2 of the contract: exactly the conflicting requests block each other.

use std::sync::Barrier;
use std::thread;

use spanlock_range_lock::{Access, RangeLockExt, RawRangeLock, TryLockError};

use super::{BOTH, Held, Kind, UNITS};

pub(crate) fn every_pair_of_ranges_conflicts_as_defined<L: RawRangeLock>(kind: &Kind<L>) {
    let lock = kind.lock();
    // Points before, on and after the borders of units.
    let unit = kind.unit();
    let mut points = vec![0, 1, unit - 1, unit, unit + 1, 2 * unit - 1, 2 * unit];
    points.extend([3 * unit, 4 * unit]);
    points.sort();
    points.dedup();
    let pairs = |from: &[u64]| -> Vec<(u64, u64)> {
        let all = from.iter().flat_map(|&a| from.iter().map(move |&b| (a, b)));
        all.filter(|(start, end)| start <= end).collect()
    };
    for (start, end) in pairs(&points) {
        for first in BOTH {
            let held = Held::take(&lock, start..end, first);
            for (start2, end2) in pairs(&points) {
                for second in BOTH {
                    let conflict = kind.conflict((&(start..end), first), (&(start2..end2), second));
                    let tried = Held::try_take(&lock, start2..end2, second);
                    let expected = conflict.then_some(TryLockError::WouldBlock);
                    assert_eq!(
                        tried.err(),
                        expected,
                        "{first:?} of {start}..{end}, then {second:?} of {start2}..{end2}"
                    );
                }
            }
            drop(held);
        }
    }
    kind.assert_free(&lock);
}

pub(crate) fn readers_share<L: RawRangeLock>(kind: &Kind<L>) {
    let lock = kind.lock();
    // In one thread: these calls return only if no reader waits for another.
    let mut holds = vec![lock.read(0..lock.capacity()).unwrap()];
    for unit in 0..UNITS {
        holds.push(lock.read(kind.units(0..unit + 1)).unwrap());
        holds.push(lock.try_read(kind.units(unit..UNITS)).unwrap());
    }
    drop(holds);
    // In eight threads, all of which hold at once.
    let all_hold = Barrier::new(8);
    thread::scope(|scope| {
        for start in 0..8 {
            let (lock, all_hold) = (&lock, &all_hold);
            scope.spawn(move || {
                let hold = lock.read(kind.units(start..UNITS)).unwrap();
                all_hold.wait();
                drop(hold);
            });
        }
    });
    kind.assert_free(&lock);
}

pub(crate) fn disjoint_writers_do_not_wait<L: RawRangeLock>(kind: &Kind<L>) {
    let lock = kind.lock();
    if !kind.is_granular() {
        // Documented: the whole range is one unit. Then any two writers must conflict.
        let hold = lock.write(kind.units(0..1)).unwrap();
        assert!(lock.try_write(kind.units(63..64)).is_err());
        drop(hold);
        return kind.assert_free(&lock);
    }
    // In one thread: these calls return only if none waits for an earlier one.
    let access = |unit| BOTH[unit as usize % 2];
    let holds: Vec<_> = (0..UNITS)
        .map(|unit| Held::take(&lock, kind.units(unit..unit + 1), access(unit)))
        .collect();
    for unit in 0..UNITS {
        let range = kind.units(unit..unit + 1);
        assert!(lock.try_write(range.clone()).is_err());
        assert_eq!(lock.try_read(range).is_ok(), access(unit) == Access::Read);
    }
    drop(holds);
    // In eight threads, all of which hold at once.
    let all_hold = Barrier::new(8);
    thread::scope(|scope| {
        for part in 0..8 {
            let (lock, all_hold) = (&lock, &all_hold);
            scope.spawn(move || {
                let hold = lock.write(kind.units(part * 8..part * 8 + 8)).unwrap();
                all_hold.wait();
                drop(hold);
            });
        }
    });
    kind.assert_free(&lock);
}

pub(crate) fn a_release_frees_its_range_only<L: RawRangeLock>(kind: &Kind<L>) {
    let lock = kind.lock();
    // Two readers of overlapping ranges: the second still holds the common part after the first
    // release.
    let first = lock.read(kind.units(0..4)).unwrap();
    let second = lock.read(kind.units(2..6)).unwrap();
    drop(first);
    assert!(lock.try_write(kind.units(2..3)).is_err());
    assert!(lock.try_write(kind.units(5..6)).is_err());
    assert_eq!(lock.try_write(kind.units(0..2)).is_ok(), kind.is_granular());
    drop(second);
    kind.assert_free(&lock);
    if kind.is_granular() {
        let [a, b, c] = [0..2, 2..4, 4..6].map(|units| lock.write(kind.units(units)).unwrap());
        drop(b);
        drop(lock.try_write(kind.units(2..4)).unwrap());
        assert!(lock.try_read(kind.units(1..3)).is_err());
        assert!(lock.try_read(kind.units(3..5)).is_err());
        drop((a, c));
        kind.assert_free(&lock);
    }
}
