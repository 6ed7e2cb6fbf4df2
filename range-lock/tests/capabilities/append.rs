//! Appends choose the end under the lock. ZFS chose it before, and two appends got the same place.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use spanlock_range_lock::{RangeError, RangeLockExt, RawRangeLockSplit};

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
