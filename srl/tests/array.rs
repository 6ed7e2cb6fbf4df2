//! The segment array: errors, memory, granularity, and what requests hold while they wait.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use std::error::Error;
use std::ops::Range;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;

use spanlock_range_lock::{Access, RangeError, RangeLock, RangeLockExt, TryLockError};
use spanlock_srl::{SegmentError, Segments, SrlArray, SrlPacked};

/// The number of segments in the head of an array.
const HEAD: u64 = 256;

#[test]
fn sizes_that_are_not_powers_of_two_are_errors() {
    for size in [0, 3, 12, u64::MAX] {
        let error = SrlArray::with_segment_size(1 << 20, size).unwrap_err();
        assert_eq!(error, SegmentError::Size { size });
        assert!(error.source().is_none());
    }
}

#[test]
fn no_memory_is_an_error() {
    for (capacity, size, segments) in [
        (1 << 63, 1, 1 << 63),
        (u64::MAX, 1, u64::MAX),
        (u64::MAX, 2, 1 << 63),
        // 2⁶¹ words exceed `isize::MAX` bytes. 2⁶⁰ words exceed the memory of any system.
        (1 << 61, 1, 1 << 61),
        (1 << 60, 1, 1 << 60),
    ] {
        let error = SrlArray::with_segment_size(capacity, size).unwrap_err();
        assert_eq!(error, SegmentError::Memory { segments, capacity });
        let message = error.to_string();
        assert!(message.contains(&segments.to_string()), "{message}");
        assert!(message.contains(&capacity.to_string()), "{message}");
    }
    // With only two segments, the same capacity fits.
    let lock = SrlArray::with_segment_size(u64::MAX, 1 << 63).unwrap();
    let low = lock.write(0..1_u64 << 63).unwrap();
    drop(lock.try_write(1 << 63..u64::MAX).unwrap());
    assert!(lock.try_read((1 << 63) - 1..u64::MAX).is_err());
    drop(low);
    drop(lock.try_write(0..u64::MAX).unwrap());
}

#[test]
fn a_capacity_of_zero_grants_only_the_empty_range() {
    for lock in [
        SrlArray::new(0).unwrap(),
        SrlArray::with_segment_size(0, 1).unwrap(),
    ] {
        assert_eq!((lock.capacity(), lock.memory_usage()), (0, 0));
        assert_eq!(lock.write(0..0).unwrap().span(), None);
        let expected = RangeError::PastCapacity {
            start: 0,
            end: 1,
            capacity: 0,
        };
        assert_eq!(lock.write(0..1).err(), Some(expected));
        assert_eq!(
            lock.try_read(0..1).err(),
            Some(TryLockError::Range(expected))
        );
        let elements = RangeLock::with_lock(Vec::<String>::new(), lock).unwrap();
        assert!(elements.read(0..0).unwrap().is_empty());
    }
}

#[test]
fn memory_is_one_word_per_segment_in_use() {
    for (capacity, size) in [
        (1, 1),
        (256, 1),
        (257, 1),
        (4096, 4096),
        (4097, 4096),
        (1 << 30, 4096),
    ] {
        let lock = SrlArray::with_segment_size(capacity, size).unwrap();
        let segments = capacity.div_ceil(size);
        assert_eq!(lock.memory_usage() as u64, 4 * segments.min(HEAD));
        assert_eq!(lock.segments(), Segments::new(capacity, size).unwrap());
        assert_eq!(lock.capacity(), capacity);
        drop(lock.write(capacity - 1..capacity).unwrap());
        assert_eq!(lock.memory_usage() as u64, 4 * segments);
    }
    assert_eq!(SrlArray::new(1).unwrap().segments().size(), 4096);
}

#[test]
fn only_a_small_request_for_the_tail_creates_it() {
    let lock = SrlArray::with_segment_size(1 << 16, 1).unwrap();
    // Requests for the head, and wide requests.
    drop(lock.write(0..HEAD).unwrap());
    drop(lock.write(0..1 << 16).unwrap());
    drop(lock.try_read(HEAD..1 << 16).unwrap());
    assert_eq!(lock.memory_usage(), 1024);
    drop(lock.write(HEAD - 1..HEAD + 1).unwrap());
    assert_eq!(lock.memory_usage(), 4 << 16);

    // A word has sixteen segments, and the head 128 words.
    let packed = SrlPacked::with_segment_size(1 << 16, 1).unwrap();
    drop(packed.write(0..2048).unwrap());
    assert_eq!(packed.memory_usage(), 1024);
    assert!(packed.try_write(2048..2049).is_ok());
    assert_eq!(packed.memory_usage(), 1 << 15);
}

#[test]
fn a_tail_above_64_mib_is_allocated_with_the_lock() {
    let of_64_mib = HEAD + (16 << 20);
    let lazy = SrlArray::with_segment_size(of_64_mib, 1).unwrap();
    assert_eq!(lazy.memory_usage(), 1024);
    let lock = SrlArray::with_segment_size(of_64_mib + 1, 1).unwrap();
    assert_eq!(lock.memory_usage() as u64, 4 * (of_64_mib + 1));
    let last = lock.write(of_64_mib..of_64_mib + 1).unwrap();
    assert!(lock.try_read(0..of_64_mib + 1).is_err());
    drop(last);
    drop(lock.try_write(0..of_64_mib + 1).unwrap());
}

/// Holds that lie in the head and in the tail are changed, moved and released in both.
#[test]
fn ranges_across_head_and_tail() {
    const LAST: u64 = HEAD - 1;
    let free = |lock: &SrlArray, range: Range<u64>| lock.try_write(range).is_ok();
    for wide_above in [1, 512] {
        let lock = SrlArray::with_segment_size(1 << 10, 1).unwrap();
        let lock = lock.wide_above(wide_above);
        // The tail is missing: this hold creates it, or needs no words.
        let hold = lock.write(LAST - 4..HEAD + 4).unwrap();
        for held in LAST - 4..HEAD + 4 {
            assert!(lock.try_read(held..held + 1).is_err());
        }
        assert!(free(&lock, 0..LAST - 4) && free(&lock, HEAD + 4..1 << 10));
        let hold = hold.downgrade().try_upgrade().unwrap();
        let (low, mut high) = hold.split(LAST).unwrap();
        drop(low);
        assert!(free(&lock, 0..LAST) && !free(&lock, LAST..HEAD));
        high.shrink(HEAD + 1..HEAD + 4).unwrap();
        assert!(free(&lock, 0..HEAD + 1) && !free(&lock, HEAD..HEAD + 2));
        drop(high);
        assert!(free(&lock, 0..1 << 10));
        let batch = [(0..LAST, Access::Read), (LAST..HEAD + 1, Access::Write)];
        drop(lock.lock_all(batch).unwrap());
        assert!(free(&lock, 0..1 << 10));
    }
}

/// Threads that create the tail at the same time use one tail.
#[test]
fn threads_create_one_tail() {
    for _ in 0..200 {
        let lock = SrlArray::with_segment_size(1 << 10, 1).unwrap();
        let (inside, start) = (AtomicUsize::new(0), Barrier::new(3));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    start.wait();
                    let hold = lock.write(HEAD - 1..HEAD + 1).unwrap();
                    assert_eq!(inside.fetch_add(1, Relaxed), 0);
                    inside.fetch_sub(1, Relaxed);
                    drop(hold);
                });
            }
        });
        assert_eq!(lock.memory_usage(), 4 << 10);
    }
}

#[test]
fn elements_past_the_capacity_are_refused_and_dropped() {
    struct Counted<'a>(&'a AtomicUsize);
    impl Drop for Counted<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, Relaxed);
        }
    }
    let drops = AtomicUsize::new(0);
    let data = || (0..5).map(|_| Counted(&drops)).collect::<Vec<_>>();
    let lock = |capacity| SrlArray::with_segment_size(capacity, 4).unwrap();
    let expected = RangeError::PastCapacity {
        start: 0,
        end: 5,
        capacity: 4,
    };
    assert_eq!(RangeLock::with_lock(data(), lock(4)).err(), Some(expected));
    assert_eq!(drops.load(Relaxed), 5);
    // A capacity equal to the number of elements, and a larger capacity, are both accepted.
    drop(RangeLock::with_lock(data(), lock(5)).unwrap());
    drop(RangeLock::with_lock(data(), lock(100)).unwrap());
    assert_eq!(drops.load(Relaxed), 15);
}

#[test]
fn granularity_is_the_segment() {
    let lock = SrlArray::with_segment_size(100, 8).unwrap();
    let hold = lock.write(3..4).unwrap();
    // Disjoint positions, but in the same segment 0..8.
    assert!(lock.try_read(0..1).is_err());
    assert!(lock.try_read(7..9).is_err());
    drop(lock.try_write(8..16).unwrap());
    drop(hold);
    // The last segment is short: 96..100.
    let hold = lock.write(99..100).unwrap();
    assert!(lock.try_read(96..97).is_err());
    drop(lock.try_write(0..96).unwrap());
    drop(hold);
}

/// A waiting request already holds its lower segments, but not its higher ones, as documented.
#[test]
fn a_waiting_request_holds_its_lower_segments() {
    let lock = SrlArray::with_segment_size(8, 1).unwrap();
    let in_the_way = lock.write(4..5).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| drop(lock.write(0..8).unwrap()));
        while lock.try_write(3..4).is_ok() {
            thread::yield_now();
        }
        for below in 0..4 {
            assert!(lock.try_read(below..below + 1).is_err());
        }
        for above in 5..8 {
            drop(lock.try_write(above..above + 1).unwrap());
        }
        drop(in_the_way);
    });
    drop(lock.try_write(0..8).unwrap());
}

#[test]
fn a_large_file_is_locked_whole_and_in_parts() {
    // 1 GiB in pages: 262,144 words.
    let lock = SrlArray::new(1 << 30).unwrap();
    drop(lock.write(0..1 << 30).unwrap());
    let whole = lock.read(0..1 << 30).unwrap();
    drop(lock.try_read(0..1 << 30).unwrap());
    assert!(lock.try_write((1 << 30) - 1..1 << 30).is_err());
    drop(whole);
    let hold = lock.write((1 << 30) - 1..1 << 30).unwrap();
    assert!(lock.try_write(0..1 << 30).is_err());
    drop(lock.try_write(0..(1 << 30) - 4096).unwrap());
    drop(hold);
}

/// After `try_reserve`, all words are there.
#[test]
fn all_words_can_be_reserved() {
    let lock = SrlArray::with_segment_size(1 << 16, 1).expect("memory");
    assert!(lock.memory_usage() < 4 << 16);
    lock.try_reserve().expect("memory");
    assert_eq!(lock.memory_usage(), 4 << 16);
    lock.try_reserve().expect("nothing to do");
    drop(lock.write(0..1 << 16).expect("in range"));
    assert_eq!(lock.memory_usage(), 4 << 16);
}
