//! Batches: each batch is one request, and is granted as a whole.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use crate::common::{Asked, Taken};
use spanlock_interval_lock::IntervalLock;
use spanlock_range_lock::Access::{Read, Upgradable, Write};
use spanlock_range_lock::{OwnedUpgradableHold, RangeLockExt};

fn until_waiting(lock: &IntervalLock, waiting: usize) {
    while lock.waiting() < waiting {
        thread::yield_now();
    }
}

/// A waiting batch does not hold its free spans, but later requests cannot overtake it there.
#[test]
fn a_batch_that_waits_holds_nothing_and_keeps_its_place() {
    let lock = IntervalLock::new();
    let reader = Taken::lock(&lock, 0..1, Read);
    let writer = Taken::lock(&lock, 10..20, Write);
    let granted = AtomicBool::new(false);
    thread::scope(|scope| {
        let batch = scope.spawn(|| {
            let parts = [(15..16, Write), (0..5, Write), (30..40, Read)];
            let batch = lock.lock_all(parts).unwrap();
            granted.store(true, Relaxed);
            batch
        });
        until_waiting(&lock, 3);
        assert_eq!(lock.held_ranges().len(), 2);
        // Later requests wait only where they overlap a span of the batch.
        drop(lock.try_read(30..35).unwrap());
        drop(lock.try_write(5..10).unwrap());
        let mut behind = [3..4, 35..36, 15..50].map(|range| Asked::waiting(&lock, range, Write));
        reader.release();
        assert_eq!(lock.held_ranges().len(), 1, "the batch was granted in part");
        assert!(!granted.load(Relaxed));
        writer.release();
        let batch = batch.join().unwrap();
        assert_eq!(lock.held_ranges().len(), 3);
        assert!(behind.iter_mut().all(|asked| asked.poll().is_none()));
        drop(batch);
        let [low, middle, high] = &mut behind;
        low.poll().expect("the batch has left").release();
        middle.poll().expect("the batch has left").release();
        high.poll().expect("both blockers have left").release();
    });
    assert!(lock.is_empty());
}

/// If a batch took its free spans at once, it would hold 0..4 and wait for 5..10. The upgrade would
/// then wait for the batch, and the batch for the upgrade.
#[test]
fn a_batch_and_an_upgrade_do_not_deadlock() {
    for _ in 0..100 {
        let lock = IntervalLock::new();
        let hold = lock.upgradable_read(0..7).unwrap();
        let writer = Taken::lock(&lock, 7..8, Write);
        thread::scope(|scope| {
            let batch = scope.spawn(|| drop(lock.lock_all([(0..4, Read), (5..10, Read)]).unwrap()));
            until_waiting(&lock, 2);
            let hold = hold.upgrade();
            writer.release();
            assert_eq!(lock.waiting(), 2);
            drop(hold);
            batch.join().unwrap();
        });
        assert!(lock.is_empty());
    }
}

/// The spans of a granted batch are independent holds: each blocks and unblocks its own waiters.
#[test]
fn each_span_of_a_batch_unblocks_its_own_waiters() {
    let lock = IntervalLock::new();
    let writer = Taken::lock(&lock, 0..100, Write);
    thread::scope(|scope| {
        let batch = scope.spawn(|| lock.lock_all([(0..1, Upgradable), (9..10, Write)]).unwrap());
        until_waiting(&lock, 2);
        writer.release();
        let batch = batch.join().unwrap();
        let mut low = Asked::waiting(&lock, 0..1, Write);
        let mut both = Asked::waiting(&lock, 0..10, Write);
        assert_eq!(lock.waiting(), 2);
        drop(batch);
        assert_eq!((low.wakes(), both.wakes()), (1, 0));
        low.poll().expect("the batch has left").release();
        both.poll().expect("every blocker has left").release();
    });
    assert!(lock.is_empty());
}

/// Six threads make requests of every kind at once. Some of these time out.
#[test]
fn batches_run_beside_requests_of_every_kind() {
    let lock = std::sync::Arc::new(IntervalLock::new());
    thread::scope(|scope| {
        for me in 0..6_u64 {
            let lock = &lock;
            scope.spawn(move || {
                for i in 0..300 {
                    let at = (me * 7 + i * 5) % 20;
                    match (me + i) % 4 {
                        0 => {
                            let parts = [(at..at + 2, Write), (20 - at..22 - at, Read)];
                            drop(lock.lock_all(parts).unwrap());
                        }
                        1 => {
                            let hold = OwnedUpgradableHold::lock(lock.clone(), at..at + 9).unwrap();
                            drop(hold.upgrade());
                        }
                        2 => {
                            let timeout = std::time::Duration::from_micros(i % 50);
                            drop(lock.try_write_for(at..at + 5, timeout));
                        }
                        _ => drop(lock.try_lock_all([(0..at, Read), (at..20, Write)])),
                    }
                }
            });
        }
    });
    assert!(lock.is_empty());
}
