//! A block of up to 64 rows allocates nothing, under any lock.
//!
//! This file has only one test, so no other thread of the process allocates.

#![cfg(all(feature = "std", feature = "srl"))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use spanlock::range_lock::{Access, Block, RawRangeLockBatchWait, RwDistributed};
use spanlock::{IntervalLock, RwCounter, SrlArray, SrlPacked, SrlTree, SrlTreePacked};

/// The system's allocator, with a count of the calls that allocate.
struct Counting;

static CALLS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is forwarded to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const STRIDE: usize = 5000;

/// Locks a block of so many rows in each way, and returns the number of allocations.
fn allocations<L: RawRangeLockBatchWait>(
    plane: &spanlock::range_lock::RangeLock<u8, L>,
    rows: usize,
) -> usize {
    let block = Block::new(0..rows, 100..164, STRIDE).unwrap();
    let before = CALLS.load(Relaxed);
    let mut guard = plane.lock_all(block.rows(Access::Write)).unwrap();
    guard.parts_mut().for_each(|row| row[0] += 1);
    drop(guard);
    drop(plane.try_lock_all(block.rows(Access::Read)).unwrap());
    let soon = Duration::from_secs(1);
    drop(
        plane
            .try_lock_all_for(block.rows(Access::Write), soon)
            .unwrap(),
    );
    {
        let future = pin!(plane.lock_all_async(block.rows(Access::Write)));
        let polled = future.poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Ready(Ok(_))));
    }
    CALLS.load(Relaxed) - before
}

fn check<L: RawRangeLockBatchWait>(lock: L) {
    let elements = vec![0_u8; 65 * STRIDE];
    let plane = spanlock::range_lock::RangeLock::with_lock(elements, lock).unwrap();
    // Lets the lock allocate what it keeps.
    allocations(&plane, 65);
    assert_eq!(allocations(&plane, 64), 0);
    // The control: one row more has no place in the guard.
    assert!(allocations(&plane, 65) > 0);
}

#[test]
fn a_block_of_64_rows_allocates_nothing() {
    check(RwCounter::new());
    check(RwDistributed::new());
    let capacity = 65 * STRIDE as u64;
    check(SrlArray::new(capacity).unwrap());
    check(SrlPacked::new(capacity).unwrap());
    check(SrlTree::new(capacity).unwrap());
    check(SrlTreePacked::new(capacity).unwrap());
    check(IntervalLock::new());
    check(IntervalLock::in_one_shard());
}
