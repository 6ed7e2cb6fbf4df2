//! Downgrading, upgrading, shrinking and splitting wake exactly the waiters that they unblock.

use std::thread;
use std::time::Duration;

use crate::common::{Asked, Taken};
use spanlock_interval_lock::IntervalLock;
use spanlock_range_lock::Access::{Read, Upgradable, Write};
use spanlock_range_lock::{Access, RangeLockExt, RawRangeLock};

fn ranges(list: Vec<(spanlock_range_lock::Span, Access)>) -> Vec<(u64, u64, Access)> {
    let ranges = list.into_iter();
    ranges.map(|(s, how)| (s.start(), s.end(), how)).collect()
}

#[test]
fn a_downgrade_admits_readers_but_no_writer() {
    let lock = IntervalLock::new();
    let hold = Taken::lock(&lock, 0..10, Write);
    let mut reader = Asked::waiting(&lock, 0..5, Read);
    let mut upgradable = Asked::waiting(&lock, 3..8, Upgradable);
    let mut writer = Asked::waiting(&lock, 4..6, Write);
    let mut behind = Asked::waiting(&lock, 5..6, Read);
    let mut beside = Asked::waiting(&lock, 8..20, Read);
    let hold = hold.downgrade();
    let wakes = [&reader, &upgradable, &writer, &behind, &beside].map(Asked::wakes);
    assert_eq!(wakes, [1, 1, 0, 0, 1]);
    let reader = reader.poll().expect("reads with the hold");
    let upgradable = upgradable.poll().expect("reads with the hold");
    let beside = beside.poll().expect("reads with the hold");
    assert!(writer.poll().is_none() && behind.poll().is_none());
    beside.release();
    reader.release();
    hold.release();
    assert_eq!(writer.wakes(), 0);
    // The upgradable hold still blocks the writer, and does so after its downgrade too.
    let upgradable = upgradable.downgrade();
    assert_eq!(writer.wakes(), 0);
    upgradable.release();
    assert_eq!((writer.wakes(), behind.wakes()), (1, 0));
    writer.poll().expect("every blocker has left").release();
    behind.poll().expect("every blocker has left").release();
    assert!(lock.is_empty());
}

#[test]
fn a_downgrade_of_an_upgradable_hold_admits_the_next_one() {
    let lock = IntervalLock::new();
    let hold = Taken::lock(&lock, 0..10, Upgradable);
    drop(lock.try_read(0..10).unwrap());
    let mut next = Asked::waiting(&lock, 5..15, Upgradable);
    let hold = hold.downgrade();
    assert_eq!(next.wakes(), 1);
    let next = next.poll().expect("the hold only reads now");
    hold.release();
    next.release();
    assert!(lock.is_empty());
}

#[test]
fn an_upgrade_waits_for_readers_and_keeps_new_ones_out() {
    let lock = IntervalLock::new();
    let readers = [0..4, 3..8].map(|range| Taken::lock(&lock, range, Read));
    let beside = Taken::lock(&lock, 10..20, Read);
    let hold = Taken::lock(&lock, 2..10, Upgradable);
    thread::scope(|scope| {
        let upgrade = scope.spawn(move || hold.upgrade());
        while lock.waiting() == 0 {
            thread::yield_now();
        }
        assert_eq!(
            ranges(lock.held_ranges()),
            [
                (0, 4, Read),
                (2, 10, Upgradable),
                (3, 8, Read),
                (10, 20, Read)
            ]
        );
        assert_eq!(ranges(lock.waiting_ranges()), [(2, 10, Write)]);
        // New readers wait behind the upgrade only if they overlap it.
        assert!(lock.try_read(9..10).is_err());
        drop(lock.try_read(0..2).unwrap());
        let mut reader = Asked::waiting(&lock, 9..11, Read);
        let [first, second] = readers;
        first.release();
        thread::sleep(Duration::from_millis(2));
        assert!(!upgrade.is_finished(), "a reader still holds");
        second.release();
        let hold = upgrade.join().unwrap();
        assert!(reader.poll().is_none());
        // The upgraded hold also blocks a new writer.
        let mut writer = Asked::waiting(&lock, 0..3, Write);
        hold.release();
        assert_eq!((reader.wakes(), writer.wakes()), (1, 1));
        reader.poll().expect("granted").release();
        writer.poll().expect("granted").release();
    });
    beside.release();
    assert!(lock.is_empty());
}

/// A reader arrives before the upgrade and waits for a writer elsewhere in its range. The reader
/// holds nothing yet, so the upgrade precedes it.
#[test]
fn an_upgrade_precedes_waiters_that_arrived_earlier() {
    let lock = IntervalLock::new();
    let writer = Taken::lock(&lock, 0..2, Write);
    let mut reader = Asked::waiting(&lock, 0..10, Read);
    for blocking in [false, true] {
        let hold = Taken::lock(&lock, 5..8, Upgradable);
        let hold = match blocking {
            true => hold.upgrade(),
            false => hold.try_upgrade().0,
        };
        assert!(lock.try_read(6..7).is_err());
        hold.release();
        assert_eq!(reader.wakes(), 0);
    }
    let hold = Taken::lock(&lock, 5..8, Upgradable).upgrade();
    writer.release();
    assert_eq!(reader.wakes(), 0, "granted while a writer holds");
    hold.release();
    reader.poll().expect("every blocker has left").release();
    assert!(lock.is_empty());
}

#[test]
fn two_readers_cannot_both_upgrade() {
    let lock = IntervalLock::new();
    let first = Taken::lock(&lock, 0..10, Read);
    let second = Taken::lock(&lock, 5..15, Upgradable);
    let (first, worked) = first.try_upgrade();
    assert!(!worked);
    let (second, worked) = second.try_upgrade();
    assert!(!worked);
    // While one upgrade waits for the other reader, that reader cannot upgrade.
    thread::scope(|scope| {
        let upgrade = scope.spawn(move || second.upgrade());
        while lock.waiting() == 0 {
            thread::yield_now();
        }
        let (first, worked) = first.try_upgrade();
        assert!(!worked);
        first.release();
        upgrade.join().unwrap().release();
    });
    assert!(lock.is_empty());
}

#[test]
fn a_shrink_wakes_waiters_outside_the_kept_part() {
    let lock = IntervalLock::new();
    let hold = Taken::lock(&lock, 10..40, Write);
    let mut low = Asked::waiting(&lock, 0..15, Read);
    let mut middle = Asked::waiting(&lock, 20..22, Write);
    let mut high = Asked::waiting(&lock, 30..50, Write);
    let mut across = Asked::waiting(&lock, 14..20, Read);
    let mut behind = Asked::waiting(&lock, 49..60, Read);
    // Shrink at the start, at the end, not at all, and to one position.
    let hold = hold.shrink(15..40);
    let wakes = [&low, &middle, &high, &across, &behind].map(Asked::wakes);
    assert_eq!(wakes, [1, 0, 0, 0, 0]);
    let hold = hold.shrink(15..30);
    let wakes = [&low, &middle, &high, &across, &behind].map(Asked::wakes);
    assert_eq!(wakes, [1, 0, 1, 0, 0]);
    let hold = hold.shrink(15..30).shrink(22..23);
    let wakes = [&low, &middle, &high, &across, &behind].map(Asked::wakes);
    assert_eq!(wakes, [1, 1, 1, 1, 0]);
    assert!(lock.try_read(22..23).is_err());
    hold.release();
    for asked in [&mut low, &mut middle, &mut high, &mut across] {
        asked.poll().expect("nothing blocks it").release();
    }
    assert_eq!(behind.wakes(), 1);
    behind.poll().expect("the writer has left").release();
    assert!(lock.is_empty());
}

#[test]
fn the_parts_of_a_split_hold_are_independent() {
    let lock = IntervalLock::new();
    assert_eq!(lock.granularity(), 1);
    for access in [Read, Upgradable, Write] {
        let hold = Taken::lock(&lock, 0..30, access);
        let mut left = Asked::waiting(&lock, 5..6, Write);
        let mut both = Asked::waiting(&lock, 8..12, Write);
        let mut right = Asked::waiting(&lock, 15..20, Write);
        let mut last = Asked::waiting(&lock, 29..30, Write);
        let (low, rest) = hold.split(10);
        let (middle, high) = rest.split(20);
        let expected = [(0, 10, access), (10, 20, access), (20, 30, access)];
        assert_eq!(ranges(lock.held_ranges()), expected);
        let wakes = |asked: [&Asked<'_>; 4]| asked.map(Asked::wakes);
        assert_eq!(wakes([&left, &both, &right, &last]), [0; 4]);
        low.release();
        assert_eq!(wakes([&left, &both, &right, &last]), [1, 0, 0, 0]);
        middle.release();
        assert_eq!(wakes([&left, &both, &right, &last]), [1, 1, 1, 0]);
        // A part can be downgraded and shrunk like any hold.
        let high = match access {
            Read => high,
            _ => high.downgrade(),
        };
        assert_eq!(last.wakes(), 0);
        high.shrink(20..21).release();
        for asked in [&mut left, &mut both, &mut right, &mut last] {
            asked.poll().expect("every blocker has left").release();
        }
        assert!(lock.is_empty());
    }
}
