//! Upgrades that wait.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use spanlock_range_lock::{
    RangeLock, RangeLockExt, RawRangeLockDowngrade, RawRangeLockUpgradeWait,
};

use super::units;

pub(crate) fn an_upgrade_waits_for_the_readers<L: RawRangeLockUpgradeWait>(lock: &L) {
    let all = units(lock, 0..4);
    for _ in 0..50 {
        let reading = AtomicBool::new(true);
        let reader = lock.read(units(lock, 1..2)).unwrap();
        let hold = lock.upgradable_read(all.clone()).unwrap();
        thread::scope(|scope| {
            let upgrade = scope.spawn(|| {
                let hold = hold.upgrade();
                assert!(!reading.load(Relaxed), "a reader holds");
                assert!(lock.try_read(units(lock, 0..1)).is_err());
                drop(hold);
            });
            thread::yield_now();
            reading.store(false, Relaxed);
            drop(reader);
            upgrade.join().unwrap();
        });
    }
    drop(lock.upgradable_read(2..2).unwrap().upgrade());
    assert!(lock.try_write(all).is_ok());
}

/// Many threads read a number, pause, and write its successor: each has read the latest number.
pub(crate) fn no_writer_precedes_an_upgrade<L>(lock: &L)
where
    L: RawRangeLockUpgradeWait + RawRangeLockDowngrade,
{
    let number = AtomicU64::new(0);
    thread::scope(|scope| {
        for me in 0..8_u64 {
            let number = &number;
            scope.spawn(move || {
                for _ in 0..200 {
                    let hold = lock.upgradable_read(units(lock, me % 3..4)).unwrap();
                    let before = number.load(Relaxed);
                    let hold = hold.upgrade();
                    assert_eq!(number.load(Relaxed), before, "somebody wrote between");
                    number.store(before + 1, Relaxed);
                    let hold = hold.downgrade();
                    assert_eq!(number.load(Relaxed), before + 1, "a writer got between");
                    drop(hold);
                    drop(lock.read(units(lock, 0..2)).unwrap());
                }
            });
        }
    });
    assert_eq!(number.into_inner(), 8 * 200);
}

/// An upgrade that gives up leaves an upgradable hold, and readers that it kept out go on.
pub(crate) fn an_upgrade_that_gives_up_leaves_no_trace<L: RawRangeLockUpgradeWait>(lock: &L) {
    let all = units(lock, 0..4);
    let reader = lock.read(units(lock, 1..2)).unwrap();
    let hold = lock.upgradable_read(all.clone()).unwrap();
    let soon = Duration::from_millis(2);
    let hold = hold.try_upgrade_until(Instant::now()).unwrap_err();
    let hold = hold.try_upgrade_for(soon).unwrap_err();
    drop(lock.try_read(all.clone()).unwrap());
    assert!(lock.try_upgradable_read(all.clone()).is_err());

    let mut upgrade = hold.upgrade_async();
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..3 {
        assert!(Pin::new(&mut upgrade).poll(&mut context).is_pending());
        assert!(lock.try_read(all.clone()).is_err(), "kept out");
    }
    let hold = upgrade.cancel().unwrap();
    drop(lock.try_read(all.clone()).unwrap());

    // Dropped while it waits: releases the hold, too.
    let mut upgrade = hold.upgrade_async();
    assert!(Pin::new(&mut upgrade).poll(&mut context).is_pending());
    drop(upgrade);
    let hold = lock.try_upgradable_read(all.clone()).unwrap();

    // Granted, but cancelled before another poll: upgradable again.
    let mut upgrade = hold.upgrade_async();
    assert!(Pin::new(&mut upgrade).poll(&mut context).is_pending());
    drop(reader);
    let hold = upgrade.cancel().unwrap();
    drop(lock.try_read(all.clone()).unwrap());

    // The first poll grants it.
    let mut upgrade = hold.upgrade_async();
    let Poll::Ready(hold) = Pin::new(&mut upgrade).poll(&mut context) else {
        panic!("nobody reads");
    };
    assert!(upgrade.cancel().is_none());
    assert!(lock.try_read(all.clone()).is_err());
    drop(hold);
    drop(
        lock.upgradable_read(3..3)
            .unwrap()
            .try_upgrade_for(soon)
            .unwrap(),
    );
    assert!(lock.try_write(all).is_ok());
}

/// Upgrades with deadlines and as futures are granted when the last reader leaves.
pub(crate) fn upgrades_are_granted_in_time<L: RawRangeLockUpgradeWait>(lock: &L) {
    let hour = Duration::from_secs(3600);
    for timeout in [hour, Duration::MAX] {
        let reader = lock.read(units(lock, 1..2)).unwrap();
        let hold = lock.upgradable_read(units(lock, 0..4)).unwrap();
        thread::scope(|scope| {
            let upgrade = scope.spawn(|| hold.try_upgrade_for(timeout).is_ok());
            thread::yield_now();
            drop(reader);
            assert!(upgrade.join().unwrap());
        });
    }
    let array = RangeLock::with_lock(vec![1, 2, 3, 4], lock).unwrap();
    let reader = array.read(1..2).unwrap();
    let hold = array.upgradable_read(1..4).unwrap();
    let hold = hold.try_upgrade_for(Duration::from_millis(1)).unwrap_err();
    let hold = hold.try_upgrade_until(Instant::now()).unwrap_err();
    thread::scope(|scope| {
        let upgrade = scope.spawn(|| {
            let mut hold = super::futures::block_on(hold.upgrade_async());
            hold[0] = 7;
        });
        thread::yield_now();
        drop(reader);
        upgrade.join().unwrap();
    });
    assert_eq!(array.into_inner()[..], [1, 7, 3, 4]);
}

pub(crate) fn elements_are_upgraded<L>(lock: &L)
where
    L: RawRangeLockUpgradeWait + RawRangeLockDowngrade,
{
    let array = RangeLock::with_lock(vec![1, 2, 3, 4], lock).unwrap();
    let hold = array.upgradable_read(0..4).unwrap();
    let reader = array.read(1..2).unwrap();
    assert_eq!(hold[1], reader[0]);
    let hold = hold.try_upgrade().unwrap_err();
    drop(reader);
    let mut hold = hold.try_upgrade().unwrap();
    hold[0] = 7;
    let hold = hold.downgrade();
    let other = array.try_upgradable_read(0..4).unwrap();
    assert_eq!(hold[..], other[..]);
    let other = other.downgrade();
    drop(hold);
    let mut hold = other.try_upgrade().unwrap();
    hold[1] = 8;
    drop(hold);
    let mut hold = array.upgradable_read(0..2).unwrap().upgrade();
    hold.reverse();
    drop(hold);
    assert_eq!(array.into_inner()[..], [8, 7, 3, 4]);
}
