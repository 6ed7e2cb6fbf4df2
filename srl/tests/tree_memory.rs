//! The tree's `memory_usage`, compared with the allocator.
//!
//! This file has only one test, so no other thread of the process allocates.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use spanlock_range_lock::RangeLockExt;
use spanlock_srl::{SrlTree, SrlTreePacked};

/// The system's allocator, with a count of the bytes in use.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is forwarded to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn memory_usage_is_what_was_allocated() {
    const LARGEST: u64 = 3 << 39;
    let touched = || (0..LARGEST).step_by(97 << 30);
    // Makes the allocations that happen only once per process or thread, such as a thread's
    // counter.
    let warm = SrlTree::new(LARGEST).unwrap();
    drop((
        warm.write(0..1).unwrap(),
        warm.write(1 << 30..LARGEST).unwrap(),
    ));
    warm.shrink();
    drop(warm);

    let before = IN_USE.load(Relaxed);
    let lock = SrlTree::new(LARGEST).unwrap();
    let packed = SrlTreePacked::new(LARGEST).unwrap();
    // `memory_usage` does not include the tables of levels.
    let idle = IN_USE.load(Relaxed) - lock.memory_usage() - packed.memory_usage();
    for at in touched() {
        drop(lock.write(at..at + 1).unwrap());
        drop(packed.write(at..at + 1).unwrap());
    }
    let nodes = lock.memory_usage() + packed.memory_usage();
    assert_eq!(IN_USE.load(Relaxed), idle + nodes);
    let (root, kept) = (48 * size_of::<usize>(), lock.memory_usage());
    // The first shrink allocates the gate's interval tree, which stays.
    assert_eq!(lock.shrink(), kept - root);
    packed.shrink();
    assert_eq!((lock.memory_usage(), packed.memory_usage()), (root, root));
    let gates = IN_USE.load(Relaxed) - idle - 2 * root;
    for at in touched() {
        drop(lock.write(at..at + 1).unwrap());
    }
    assert_eq!(lock.memory_usage(), kept);
    assert_eq!(IN_USE.load(Relaxed), idle + gates + kept + root);
    drop((lock, packed));
    assert_eq!(IN_USE.load(Relaxed), before);
}
