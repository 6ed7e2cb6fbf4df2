//! Points 2 and 5 of the contract: a try takes all or nothing, and leaves no trace.

use std::thread;

use fastrand::Rng;
use spanlock_range_lock::{Access, RangeLockExt, RawRangeLock, TryLockError};

use super::{ALL, BOTH, Held, Kind, UNITS};

pub(crate) fn a_try_in_a_free_gap_succeeds<L: RawRangeLock>(kind: &Kind<L>) {
    let lock = kind.lock();
    let before = lock.write(kind.units(0..2)).unwrap();
    if !kind.is_granular() {
        assert!(lock.try_write(kind.units(2..4)).is_err());
        drop(before);
        return kind.assert_free(&lock);
    }
    let behind = lock.write(kind.units(4..UNITS)).unwrap();
    for access in BOTH {
        drop(Held::try_take(&lock, kind.units(2..4), access).expect("exactly the gap"));
        drop(Held::try_take(&lock, kind.units(2..3), access).expect("a part of the gap"));
        assert!(Held::try_take(&lock, kind.units(1..4), access).is_err());
        assert!(Held::try_take(&lock, kind.units(2..5), access).is_err());
    }
    drop((before, behind));
    kind.assert_free(&lock);
}

pub(crate) fn a_failed_try_leaves_no_trace<L: RawRangeLock>(kind: &Kind<L>) {
    let lock = kind.lock();
    for (held, tried) in [
        (Access::Read, Access::Write),
        (Access::Upgradable, Access::Upgradable),
        (Access::Upgradable, Access::Write),
        (Access::Write, Access::Read),
        (Access::Write, Access::Upgradable),
        (Access::Write, Access::Write),
    ] {
        // At the start, in the middle, and at the end of the requested range.
        for at in [0, 31, UNITS - 1] {
            let hold = Held::take(&lock, kind.units(at..at + 1), held);
            for _ in 0..100 {
                let failed = Held::try_take(&lock, kind.everything(), tried);
                assert_eq!(failed.err(), Some(TryLockError::WouldBlock));
            }
            // The rest can be locked with any access.
            for access in ALL {
                for rest in [0..at, at + 1..UNITS] {
                    let expected =
                        kind.is_granular() || rest.is_empty() || !held.conflicts_with(access);
                    let taken = Held::try_take(&lock, kind.units(rest.clone()), access);
                    assert_eq!(taken.is_ok(), expected, "{access:?} of units {rest:?}");
                }
            }
            drop(hold);
            kind.assert_free(&lock);
        }
    }
}

pub(crate) fn failed_tries_do_not_hold_up_a_waiter<L: RawRangeLock>(kind: &Kind<L>) {
    let lock = kind.lock();
    for _ in 0..20 {
        let hold = lock.read(kind.units(1..2)).unwrap();
        thread::scope(|scope| {
            let waiter = scope.spawn(|| drop(lock.write(kind.units(0..3)).unwrap()));
            for _ in 0..200 {
                assert!(lock.try_write(kind.everything()).is_err());
                assert!(lock.try_write(kind.units(1..2)).is_err());
            }
            drop(hold);
            for _ in 0..200 {
                // Either result is right now.
                drop(lock.try_write(kind.everything()));
            }
            waiter.join().unwrap();
        });
        kind.assert_free(&lock);
    }
}

pub(crate) fn tries_of_many_threads_leave_no_trace<L: RawRangeLock>(kind: &Kind<L>) {
    let lock = kind.lock();
    let granted: u32 = thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|seed| {
                let lock = &lock;
                scope.spawn(move || {
                    let mut rng = Rng::with_seed(seed);
                    let mut granted = 0;
                    let mut holds: Vec<Held<'_, L>> = Vec::new();
                    for _ in 0..2000 {
                        let start = rng.u64(..UNITS);
                        let end = start + 1 + rng.u64(..UNITS - start);
                        let access = BOTH[rng.u64(..2) as usize];
                        if let Ok(hold) = Held::try_take(lock, kind.units(start..end), access) {
                            granted += 1;
                            holds.push(hold);
                        }
                        if holds.len() == 3 || rng.u64(..3) == 0 {
                            holds.clear();
                        }
                    }
                    granted
                })
            })
            .collect();
        threads.into_iter().map(|t| t.join().unwrap()).sum()
    });
    assert!(granted > 0);
    kind.assert_free(&lock);
}
