//! Bugs that a sanitizer must report. `.ci/sanitize` runs these tests to show that it would report
//! such bugs in a lock.
//!
//! Without a sanitizer they usually pass, which is why sanitizers are needed.

#![cfg(not(any(spanlock_loom, spanlock_shuttle)))]

use std::cell::UnsafeCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

/// A lock with exclusion but without ordering. On strongly ordered processors no test would fail.
struct Unordered {
    held: AtomicBool,
    data: UnsafeCell<u64>,
}

// SAFETY: none of this is safe: there is no happens-before between two holds of the lock.
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
                // SAFETY: none; this is the race.
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
    // SAFETY: made just now.
    drop(unsafe { Box::from_raw(node) });
    // SAFETY: none; this is the use after free.
    assert_eq!(unsafe { node.read_volatile() }, 7);
}
