//! Point 6 of the contract: a release wakes the waiters it unblocks. A lost wakeup hangs its test.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use spanlock_range_lock::{Access, RangeLockExt, RawRangeLock};

use super::{BOTH, Held, Kind, UNITS};

/// Usually long enough for a thread to fall asleep. The tests stay valid if it has not.
fn let_them_sleep() {
    thread::sleep(Duration::from_millis(10));
}

pub(crate) fn a_release_wakes_all_readers<L: RawRangeLock>(kind: &Kind<L>) {
    let lock = kind.lock();
    for _ in 0..5 {
        let hold = lock.write(kind.units(0..4)).unwrap();
        // One release admits all of them at once: each waits for the others *while holding*.
        let all_hold = Barrier::new(6);
        thread::scope(|scope| {
            for reader in 0..6 {
                let (lock, all_hold) = (&lock, &all_hold);
                scope.spawn(move || {
                    let hold = lock.read(kind.units(reader % 4..4)).unwrap();
                    all_hold.wait();
                    drop(hold);
                });
            }
            let_them_sleep();
            drop(hold);
        });
        kind.assert_free(&lock);
    }
}

pub(crate) fn a_release_wakes_the_writer<L: RawRangeLock>(kind: &Kind<L>) {
    let lock = kind.lock();
    for access in BOTH {
        let holds = [0..2, 2..4].map(|units| lock.read(kind.units(units)).unwrap());
        let held = AtomicU32::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                let hold = Held::take(&lock, kind.units(1..3), Access::Write);
                assert_eq!(held.load(SeqCst), 0, "granted while readers hold");
                drop(hold);
                drop(Held::take(&lock, kind.units(0..UNITS), access));
            });
            for hold in holds {
                let_them_sleep();
                held.fetch_sub(1, SeqCst);
                drop(hold);
            }
        });
        kind.assert_free(&lock);
    }
}

pub(crate) fn more_waiters_than_cores<L: RawRangeLock>(kind: &Kind<L>) {
    let lock = kind.lock();
    let hold = lock.write(kind.everything()).unwrap();
    let granted = AtomicU32::new(0);
    thread::scope(|scope| {
        for waiter in 0..48 {
            let (lock, granted) = (&lock, &granted);
            scope.spawn(move || {
                let access = BOTH[usize::from(waiter % 3 == 0)];
                let hold = Held::take(lock, kind.units(waiter..UNITS), access);
                granted.fetch_add(1, SeqCst);
                drop(hold);
            });
        }
        let_them_sleep();
        assert_eq!(granted.load(SeqCst), 0);
        drop(hold);
    });
    assert_eq!(granted.load(SeqCst), 48);
    kind.assert_free(&lock);
}

pub(crate) fn a_wide_request_gets_all_it_waits_for<L: RawRangeLock>(kind: &Kind<L>) {
    let lock = kind.lock();
    // Conflicting holds, released in every order.
    for order in [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ] {
        let mut holds = [2..3, 7..8, 40..41].map(|u| lock.read(kind.units(u)).ok());
        let held = AtomicU32::new(3);
        thread::scope(|scope| {
            scope.spawn(|| {
                let all = lock.write(kind.everything()).unwrap();
                assert_eq!(held.load(SeqCst), 0, "granted while readers hold");
                drop(all);
            });
            for which in order {
                thread::sleep(Duration::from_millis(2));
                held.fetch_sub(1, SeqCst);
                holds[which] = None;
            }
        });
        kind.assert_free(&lock);
    }
}

pub(crate) fn overlapping_requests_never_wait_in_a_cycle<L: RawRangeLock>(kind: &Kind<L>) {
    // Chains of overlapping ranges in both directions; a cycle would hang.
    let lock = kind.lock();
    thread::scope(|scope| {
        for seed in 0..8 {
            let lock = &lock;
            scope.spawn(move || {
                let mut rng = Rng::with_seed(seed);
                for _ in 0..1000 {
                    let start = rng.u64(..6);
                    let hold = lock.write(kind.units(start..start + 2 + rng.u64(..3)));
                    if rng.u64(..8) == 0 {
                        thread::yield_now();
                    }
                    drop(hold.unwrap());
                }
            });
        }
    });
    kind.assert_free(&lock);
}
