//! Bugs that range locks in the field had, each as a test.

#![cfg(not(any(spanlock_loom, spanlock_shuttle)))]

mod common;

use std::mem::forget;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use common::{Asked, Taken};
use spanlock::Access::{Read, Upgradable, Write};
use spanlock::{RangeError, RangeLock, RangeLockExt, RawRangeLock, TryLockError};
use spanlock_interval::IntervalLock;

/// Linux range lock patches, 2019: cancelling a waiting reader decremented all that overlapped it, so another reader was granted
/// beside the writer.
#[test]
fn a_cancelled_reader_lets_nobody_in() {
    let lock = IntervalLock::new();
    let writer = Taken::lock(&lock, 0..10, Write);
    let mut first = Asked::waiting(&lock, 0..10, Read);
    let mut second = Asked::waiting(&lock, 0..10, Read);
    first.cancel();
    assert_eq!(second.wakes(), 0);
    assert!(second.poll().is_none(), "granted while a writer holds");
    writer.release();
    assert_eq!((first.wakes(), second.wakes()), (0, 1));
    second.poll().expect("nobody else is there").release();
    assert!(lock.is_empty());
}

#[test]
fn a_cancelled_waiter_unblocks_later_arrivals_only() {
    let lock = IntervalLock::new();
    let reader = Taken::lock(&lock, 0..10, Read);
    let mut before = Asked::waiting(&lock, 8..20, Write);
    let mut given_up = Asked::waiting(&lock, 0..9, Write);
    let mut behind = [
        Asked::waiting(&lock, 2..3, Read),
        Asked::waiting(&lock, 0..8, Read),
    ];
    let mut behind_both = Asked::waiting(&lock, 5..9, Read);
    given_up.cancel();
    for reader in &mut behind {
        assert_eq!(reader.wakes(), 1);
        reader.poll().expect("it waited for nobody else").release();
    }
    assert!(before.poll().is_none() && behind_both.poll().is_none());
    assert_eq!(before.wakes() + behind_both.wakes(), 0);
    reader.release();
    assert_eq!((before.wakes(), behind_both.wakes()), (1, 0));
    before.poll().expect("the reader has gone").release();
    behind_both.poll().expect("the writer has gone").release();
    assert!(lock.is_empty());
}

/// The same patches: a try looked at the hull of all ranges.
#[test]
fn a_try_in_a_free_gap_succeeds() {
    let lock = IntervalLock::new();
    let holds = [0..10, 30..40, 60..70].map(|range| lock.write(range).unwrap());
    let waiting = Asked::waiting(&lock, 35..50, Write);
    for gap in [10..30, 50..60, 15..16, 70..u64::MAX] {
        drop(lock.try_write(gap.clone()).expect("a free gap"));
        drop(lock.try_read(gap).expect("a free gap"));
    }
    // Exactly: one position more, on either side, is one too many. Of those who wait, too.
    for (start, end) in [(9, 30), (10, 31), (49, 60), (69, 71)] {
        let tried = lock.try_read(start..end).err();
        assert_eq!(tried, Some(TryLockError::WouldBlock), "{start}..{end}");
    }
    drop((holds, waiting));
}

/// ZFS: the end of a file was read before the range was locked, and two appends got the same place. So: lock from the end that was
/// seen to infinity, look again, and keep what is needed.
#[test]
fn appends_get_places_of_their_own() {
    const THREADS: u64 = 8;
    const APPENDS: u64 = 500;
    let lock = IntervalLock::new();
    let end = AtomicU64::new(0);
    let mut places: Vec<(u64, u64)> = thread::scope(|scope| {
        let threads = Vec::from_iter((0..THREADS).map(|me| {
            let (lock, end) = (&lock, &end);
            scope.spawn(move || {
                let append = |i| {
                    let len = 1 + (me + i) % 7;
                    let tail = Taken::lock(lock, end.load(Relaxed)..u64::MAX, Write);
                    // Only who holds this position moves the end past it.
                    let start = end.load(Relaxed);
                    let mine = tail.shrink(start..u64::MAX);
                    end.store(start + len, Relaxed);
                    // From here on others may append.
                    let mine = mine.shrink(start..start + len);
                    if i % 16 == 0 {
                        thread::yield_now();
                    }
                    mine.release();
                    (start, len)
                };
                Vec::from_iter((0..APPENDS).map(append))
            })
        }));
        let places = threads.into_iter().flat_map(|t| t.join().unwrap());
        places.collect()
    });
    places.sort();
    let mut expected = 0;
    for (start, len) in places {
        assert_eq!(start, expected, "a gap, or two in one place");
        expected += len;
    }
    assert_eq!(end.into_inner(), expected);
    assert!(lock.is_empty());
}

/// RocksDB: the upgrader was in its own list of conflicts.
#[test]
fn an_upgrade_does_not_wait_for_itself() {
    let lock = IntervalLock::new();
    // Alone, and with a neighbour on either side.
    let neighbours = [0..10, 20..30].map(|range| lock.write(range).unwrap());
    let upgraded = Taken::lock(&lock, 10..20, Upgradable).upgrade();
    assert!(lock.try_read(15..16).is_err());
    upgraded.release();
    for access in [Read, Upgradable] {
        let (upgraded, worked) = Taken::lock(&lock, 10..20, access).try_upgrade();
        assert!(worked);
        assert!(lock.try_read(15..16).is_err());
        upgraded.release();
    }
    drop(neighbours);
    assert!(lock.is_empty());
}

#[test]
fn an_upgrade_does_not_wait_for_those_who_wait_for_it() {
    let lock = IntervalLock::new();
    let hold = Taken::lock(&lock, 0..10, Upgradable);
    let mut writer = Asked::waiting(&lock, 0..10, Write);
    let mut upgradable = Asked::waiting(&lock, 5..15, Upgradable);
    let upgraded = hold.upgrade();
    assert!(writer.poll().is_none() && upgradable.poll().is_none());
    upgraded.release();
    writer.poll().expect("it was first").release();
    upgradable.poll().expect("then this one").release();
    // A reader that tries, while a writer waits for it.
    let hold = Taken::lock(&lock, 0..10, Read);
    let mut writer = Asked::waiting(&lock, 0..10, Write);
    let (hold, worked) = hold.try_upgrade();
    assert!(worked);
    hold.release();
    writer.poll().expect("it waited for nobody else").release();
    assert!(lock.is_empty());
}

#[test]
fn a_failed_upgrade_leaves_no_trace() {
    let lock = IntervalLock::new();
    let mut hold = Taken::lock(&lock, 0..10, Upgradable);
    let reader = Taken::lock(&lock, 9..11, Read);
    for _ in 0..1000 {
        let (same, worked) = hold.try_upgrade();
        assert!(!worked);
        hold = same;
        drop(lock.try_read(0..10).expect("readers still come in"));
    }
    assert_eq!((lock.len(), lock.waiting()), (2, 0));
    reader.release();
    let (hold, worked) = hold.try_upgrade();
    assert!(worked);
    hold.release();
    assert!(lock.is_empty());
}

#[test]
fn the_least_and_the_largest_ranges() {
    let lock = IntervalLock::new();
    assert_eq!(lock.capacity(), u64::MAX);
    let last = lock.write(u64::MAX - 1..u64::MAX).unwrap();
    let rest = lock.write(0..u64::MAX - 1).unwrap();
    assert!(lock.try_read(0..u64::MAX).is_err());
    // Empty ones hold nothing and find nothing in their way, wherever they are.
    for at in [0, 5, u64::MAX - 1, u64::MAX] {
        assert_eq!(lock.write(at..at).unwrap().span(), None);
    }
    assert_eq!(lock.len(), 2);
    drop((last, rest));
    drop(lock.try_write(0..u64::MAX).unwrap());
    #[allow(clippy::reversed_empty_ranges)]
    let reversed = lock.write(u64::MAX..0).err();
    let expected = RangeError::Reversed {
        start: u64::MAX,
        end: 0,
    };
    assert_eq!(reversed, Some(expected));
    // Elements of no size, as many as can be counted.
    let units = RangeLock::with_lock(Box::new([(); usize::MAX]) as Box<[()]>, lock).unwrap();
    let all = units.write(0..usize::MAX).unwrap();
    assert!(units.try_read(usize::MAX - 1..usize::MAX).is_err());
    assert!(units.read(usize::MAX..usize::MAX).unwrap().is_empty());
    drop(all);
}

/// range-mutex: each poll of a future pushed one more waiter.
#[test]
fn a_request_polled_a_million_times_is_one_waiter() {
    let lock = IntervalLock::new();
    let hold = Taken::lock(&lock, 0..10, Write);
    let mut asked = Asked::waiting(&lock, 0..10, Write);
    let mut behind = Asked::waiting(&lock, 0..10, Read);
    let memory = lock.memory_usage();
    for _ in 0..1_000_000 {
        assert!(asked.poll().is_none());
    }
    assert_eq!((lock.len(), lock.waiting()), (3, 2));
    assert_eq!(lock.memory_usage(), memory);
    hold.release();
    // In its place, and woken once.
    assert_eq!((asked.wakes(), behind.wakes()), (1, 0));
    asked.poll().expect("the hold has gone").release();
    assert_eq!(behind.wakes(), 1);
    behind.poll().expect("the writer has gone").release();
    assert!(lock.is_empty());
}

#[test]
fn leaked_holds_keep_their_ranges_and_nothing_else() {
    let lock = IntervalLock::new();
    forget(lock.write(3..5).unwrap());
    forget(lock.read(10..20).unwrap());
    // A request that is forgotten is one that waits for ever: nobody passes it.
    forget(Asked::waiting(&lock, 15..30, Write));
    assert!(lock.try_read(4..6).is_err());
    assert!(lock.try_read(29..40).is_err());
    drop(lock.try_read(10..15).unwrap());
    for free in [0..3, 5..10, 30..u64::MAX] {
        drop(lock.try_write(free).unwrap());
    }
    assert_eq!((lock.len(), lock.waiting()), (3, 1));
}
