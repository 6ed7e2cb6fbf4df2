//! Tests for known bugs of other range locks: appends and leaks. `histories.rs` has the tests for
//! the other known bugs.

use std::mem::forget;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use crate::common::{Asked, Taken};
use spanlock_interval_lock::IntervalLock;
use spanlock_range_lock::Access::Write;
use spanlock_range_lock::RangeLockExt;

/// In OpenZFS, an append read the end of the file before it locked the range, so two appends got
/// the same place. Here, an append locks everything from the end that it has read. Then it reads
/// the end again, and keeps only the range that it needs.
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
                    // Only a thread that holds the end's position moves the end. This thread now
                    // holds it.
                    let start = end.load(Relaxed);
                    let mine = tail.shrink(start..u64::MAX);
                    end.store(start + len, Relaxed);
                    // From here on, other threads may append.
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
        assert_eq!(start, expected, "a gap, or two appends in one place");
        expected += len;
    }
    assert_eq!(end.into_inner(), expected);
    assert!(lock.is_empty());
}

#[test]
fn leaked_holds_keep_their_ranges_and_nothing_else() {
    let lock = IntervalLock::new();
    forget(lock.write(3..5).unwrap());
    forget(lock.read(10..20).unwrap());
    // A forgotten request waits for ever, and is never overtaken.
    forget(Asked::waiting(&lock, 15..30, Write));
    assert!(lock.try_read(4..6).is_err());
    assert!(lock.try_read(29..40).is_err());
    drop(lock.try_read(10..15).unwrap());
    for free in [0..3, 5..10, 30..u64::MAX] {
        drop(lock.try_write(free).unwrap());
    }
    assert_eq!((lock.len(), lock.waiting()), (3, 1));
}
