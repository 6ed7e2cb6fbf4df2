//! Appends choose the end under the lock. ZFS chose it before, and two appends got the same place.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::task::{Context, Waker};
use std::thread;
use std::time::{Duration, Instant};

use spanlock_range_lock::{
    RangeError, RangeLockExt, RawRangeLockSplit, RawRangeLockWait, TimedLockError, TryLockError,
};

use super::futures::block_on;
use super::units;

pub(crate) fn appends_get_places_of_their_own<L: RawRangeLockSplit>(lock: &L) {
    const APPENDS: u64 = 100;
    let end = AtomicU64::new(3);
    let mut places: Vec<_> = thread::scope(|scope| {
        let threads = Vec::from_iter((0..4).map(|me| {
            let end = &end;
            scope.spawn(move || {
                let append = |i| {
                    let len = 1 + (me + i) % 7;
                    let hold = lock.append(len, || end.load(Relaxed)).unwrap();
                    let place = hold.span().unwrap();
                    assert_eq!(place.len(), len);
                    thread::yield_now();
                    end.store(place.end(), Relaxed);
                    place.range()
                };
                Vec::from_iter((0..APPENDS).map(append))
            })
        }));
        threads
            .into_iter()
            .flat_map(|t| t.join().unwrap())
            .collect()
    });
    places.sort_by_key(|place| place.start);
    let mut expected = 3;
    for place in places {
        assert_eq!(place.start, expected, "a gap, or two in one place");
        expected = place.end;
    }
    assert_eq!(end.into_inner(), expected);
    assert!(lock.try_write(units(lock, 0..8)).is_ok());
}

/// An end that moves forward while the append waits is followed; if it moves back, the append
/// restarts.
pub(crate) fn an_append_follows_a_moving_end<L: RawRangeLockSplit>(lock: &L) {
    for (ends, place) in [
        (vec![10, 10], 10..15),
        (vec![10, 20], 20..25),
        (vec![10, 5, 5, 5], 5..10),
        (vec![10, 5, 5, 4, 4, 6], 6..11),
    ] {
        let mut told = ends.iter().copied();
        let hold = lock.append(5, || told.next().unwrap()).unwrap();
        assert_eq!(hold.span().map(|span| span.range()), Some(place));
        assert_eq!(told.next(), None, "`end` was called too seldom");
        drop(hold);
        assert!(lock.try_write(units(lock, 0..8)).is_ok());
    }
}

pub(crate) fn an_append_past_the_last_position_is_an_error<L: RawRangeLockSplit>(lock: &L) {
    let capacity = lock.capacity();
    let error_at = |start: u64| match start.checked_add(5) {
        Some(end) => RangeError::PastCapacity {
            start,
            end,
            capacity,
        },
        None => RangeError::Overflow { start, len: 5 },
    };
    for start in [capacity - 4, capacity] {
        let error = lock.append(5, || start).err();
        assert_eq!(error, Some(error_at(start)));
    }
    // The first call of `end` leaves enough room, the second does not.
    let mut ends = [0, capacity - 1].into_iter();
    let error = lock.append(5, || ends.next().unwrap()).err();
    assert_eq!(error, Some(error_at(capacity - 1)));
    let nothing = lock.append(0, || unreachable!("not asked")).unwrap();
    assert!(nothing.span().is_none());
    let last = lock.append(5, || capacity - 5).unwrap();
    assert_eq!(last.span().map(|span| span.end()), Some(capacity));
    drop(last);
    assert!(lock.try_write(units(lock, 0..8)).is_ok());
}

pub(crate) fn an_append_that_gives_up_leaves_no_trace<L>(lock: &L)
where
    L: RawRangeLockSplit + RawRangeLockWait,
{
    let (soon, hour) = (Duration::from_millis(2), Duration::from_secs(3600));
    let end = || units(lock, 0..3).end;
    let busy = lock.write(units(lock, 3..5)).unwrap();
    assert_eq!(
        lock.try_append(5, end).err(),
        Some(TryLockError::WouldBlock)
    );
    let late = Some(TimedLockError::TimedOut);
    assert_eq!(lock.try_append_for(5, end, soon).err(), late);
    assert_eq!(lock.try_append_until(5, end, Instant::now()).err(), late);
    {
        let mut waiting = pin!(lock.append_async(5, end));
        let context = &mut Context::from_waker(Waker::noop());
        assert!(waiting.as_mut().poll(context).is_pending());
    }
    if lock.granularity() < u64::MAX {
        drop(lock.try_write(units(lock, 0..3)).unwrap());
    }
    drop(
        lock.try_append_for(0, || unreachable!("not asked"), hour)
            .unwrap(),
    );
    thread::scope(|scope| {
        let append = scope.spawn(|| lock.try_append_for(5, end, hour).map(|it| it.span()));
        thread::yield_now();
        drop(busy);
        let place = append.join().unwrap().unwrap();
        assert_eq!(place.map(|span| span.range()), Some(end()..end() + 5));
    });
    let capacity = lock.capacity();
    let past = lock.try_append_for(5, || capacity - 1, soon).err();
    assert!(matches!(past, Some(TimedLockError::Range(_))));
    drop(lock.try_append(5, end).unwrap());
    drop(lock.try_append_for(5, end, Duration::MAX).unwrap());
    assert!(lock.try_write(units(lock, 0..8)).is_ok());
}

pub(crate) fn appends_as_futures_get_places_of_their_own<L>(lock: &L)
where
    L: RawRangeLockSplit + RawRangeLockWait,
{
    let end = AtomicU64::new(0);
    thread::scope(|scope| {
        for me in 0..4 {
            let end = &end;
            scope.spawn(move || {
                for i in 0..100 {
                    let len = 1 + (me + i) % 7;
                    let append = lock.append_async(len, || end.load(Relaxed));
                    let hold = block_on(append).unwrap();
                    let place = hold.span().unwrap();
                    assert_eq!(end.load(Relaxed), place.start(), "two in one place");
                    thread::yield_now();
                    end.store(place.end(), Relaxed);
                }
            });
        }
    });
    // Each thread appends every length from 1 to 7 fourteen times, and two more.
    let each = |me: u64| (0..100).map(|i| 1 + (me + i) % 7).sum::<u64>();
    assert_eq!(end.into_inner(), (0..4).map(each).sum());
    assert!(lock.try_write(units(lock, 0..8)).is_ok());
}
