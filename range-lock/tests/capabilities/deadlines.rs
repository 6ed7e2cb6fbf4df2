//! Requests that give up at a deadline.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use spanlock_range_lock::{RangeError, RangeLockExt, RawRangeLockWait, TimedLockError};

use super::units;

const SHORT: Duration = Duration::from_millis(3);
/// Longer than any test runs.
const LONG: Duration = Duration::from_secs(600);

pub(crate) fn a_deadline_in_the_past_is_a_try<L: RawRangeLockWait>(lock: &L) {
    let past = Instant::now();
    let all = units(lock, 0..4);
    let reader = lock.try_read_until(all.clone(), past).unwrap();
    let writer = lock.try_write_until(units(lock, 1..2), past);
    assert_eq!(writer.err(), Some(TimedLockError::TimedOut));
    let writer = lock.try_write_for(units(lock, 1..2), Duration::ZERO);
    assert_eq!(writer.err(), Some(TimedLockError::TimedOut));
    let upgradable = lock.try_upgradable_read_until(all.clone(), past).unwrap();
    let second = lock.try_upgradable_read_for(all.clone(), Duration::ZERO);
    assert_eq!(second.err(), Some(TimedLockError::TimedOut));
    drop(lock.try_read_for(all.clone(), Duration::ZERO).unwrap());
    drop((reader, upgradable));
    assert!(lock.try_write(all).is_ok());
}

pub(crate) fn a_deadline_that_passes_leaves_no_trace<L: RawRangeLockWait>(lock: &L) {
    let all = units(lock, 0..4);
    let reader = lock.read(all.clone()).unwrap();
    for _ in 0..5 {
        let begun = Instant::now();
        let writer = lock.try_write_for(all.clone(), SHORT);
        assert_eq!(writer.err(), Some(TimedLockError::TimedOut));
        assert!(begun.elapsed() >= SHORT, "gave up too early");
        // The writer has gone, so no reader waits behind it.
        drop(lock.read(all.clone()).unwrap());
    }
    drop(reader);
    let writer = lock.write(all.clone()).unwrap();
    let until = Instant::now() + SHORT;
    assert!(lock.try_read_until(all.clone(), until).is_err());
    assert!(lock.try_upgradable_read_until(all.clone(), until).is_err());
    drop(writer);
    assert!(lock.try_write(all).is_ok());
}

pub(crate) fn a_release_grants_before_the_deadline<L: RawRangeLockWait>(lock: &L) {
    let all = units(lock, 0..4);
    // The last one is too long for the clock.
    for timeout in [LONG, Duration::MAX] {
        for _ in 0..20 {
            let released = AtomicBool::new(false);
            let writer = lock.write(all.clone()).unwrap();
            thread::scope(|scope| {
                let waiters = [0..1, 1..4].map(|part| {
                    let (part, released) = (units(lock, part), &released);
                    scope.spawn(move || {
                        let hold = lock.try_read_for(part, timeout).unwrap();
                        assert!(released.load(Relaxed), "before its time");
                        drop(hold);
                    })
                });
                thread::yield_now();
                released.store(true, Relaxed);
                drop(writer);
                waiters.into_iter().for_each(|w| w.join().unwrap());
            });
        }
    }
    assert!(lock.try_write(all).is_ok());
}

/// Linux range_lock, 2019: a reader that gave up admitted another one while the writer still held.
pub(crate) fn a_reader_that_gives_up_admits_no_other<L: RawRangeLockWait>(lock: &L) {
    let all = units(lock, 0..4);
    let writing = AtomicBool::new(true);
    let writer = lock.write(all.clone()).unwrap();
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let hold = lock.read(units(lock, 1..3)).unwrap();
            assert!(!writing.load(Relaxed), "granted while a writer holds");
            drop(hold);
        });
        for _ in 0..5 {
            let reader = lock.try_read_for(all.clone(), SHORT);
            assert_eq!(reader.err(), Some(TimedLockError::TimedOut));
        }
        writing.store(false, Relaxed);
        drop(writer);
        other.join().unwrap();
    });
    assert!(lock.try_write(all).is_ok());
}

#[allow(clippy::reversed_empty_ranges)]
pub(crate) fn wrong_and_empty_ranges_with_a_deadline<L: RawRangeLockWait>(lock: &L) {
    let writer = lock.write(units(lock, 0..4)).unwrap();
    let empty = lock.try_write_for(1..1, Duration::ZERO).unwrap();
    assert_eq!(empty.span(), None);
    let expected = TimedLockError::Range(RangeError::Reversed { start: 5, end: 1 });
    assert_eq!(lock.try_read_for(5..1, LONG).err(), Some(expected));
    assert_eq!(
        lock.try_read_until(5..1, Instant::now()).err(),
        Some(expected)
    );
    drop(writer);
}

/// Deadlines that pass at about the time of the grant: a thread that reports success holds the
/// range, and no request is left behind.
pub(crate) fn deadlines_and_grants_race<L: RawRangeLockWait>(lock: &L) {
    let (held, granted) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for me in 0..8_u64 {
            let (held, granted) = (&held, &granted);
            scope.spawn(move || {
                for i in 0..200 {
                    let timeout = Duration::from_micros((me * 37 + i * 11) % 150);
                    let part = units(lock, me % 3..4);
                    if let Ok(hold) = lock.try_write_for(part, timeout) {
                        assert_eq!(held.fetch_add(1, Relaxed), 0, "two writers");
                        thread::yield_now();
                        held.fetch_sub(1, Relaxed);
                        granted.fetch_add(1, Relaxed);
                        drop(hold);
                    }
                }
            });
        }
    });
    assert!(granted.into_inner() > 0);
    assert!(lock.try_write(units(lock, 0..4)).is_ok());
}
