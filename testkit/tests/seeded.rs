//! Bugs that a sanitizer must report. `.ci/sanitize` runs these tests to show that the sanitizers
//! would report such bugs in a lock.
//!
//! Without a sanitizer, these tests usually pass.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

/// A lock that excludes threads but orders no memory accesses. On a strongly ordered processor, no
/// ordinary test of the lock would fail.
struct Unordered {
    held: AtomicBool,
    data: UnsafeCell<u64>,
}

// SAFETY: deliberately violated: one hold of the lock does not happen-before the next.
unsafe impl Sync for Unordered {}

#[test]
#[ignore = "a data race, for ThreadSanitizer"]
fn a_lock_without_orderings() {
    let lock = Arc::new(Unordered {
        held: AtomicBool::new(false),
        data: UnsafeCell::new(0),
    });
    let threads = [(); 2].map(|()| {
        let lock = lock.clone();
        thread::spawn(move || {
            for _ in 0..1_000 {
                while lock.held.swap(true, Relaxed) {
                    thread::yield_now();
                }
                let data = lock.data.get();
                // SAFETY: deliberately violated: this access is the race.
                unsafe { data.write_volatile(data.read_volatile() + 1) };
                lock.held.store(false, Relaxed);
            }
        })
    });
    for thread in threads {
        thread.join().expect("adds");
    }
}

#[test]
#[ignore = "a use after free, for AddressSanitizer"]
fn a_node_freed_too_early() {
    let node = Box::into_raw(Box::new(7_u64));
    // SAFETY: `into_raw` has just returned the pointer.
    drop(unsafe { Box::from_raw(node) });
    // SAFETY: deliberately violated: this access is the use after free.
    assert_eq!(unsafe { node.read_volatile() }, 7);
}
