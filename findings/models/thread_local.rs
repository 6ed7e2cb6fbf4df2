//! `thread_local` 1.1.10: the first use by a thread, and iteration.
//!
//! Source: <https://docs.rs/crate/thread_local/1.1.10/source/src/lib.rs>

use std::ptr;

use spanlock_sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering::*};
use spanlock_sync::cell::UnsafeCell;
use spanlock_verify::{Program, Suite, note};

pub(crate) fn suite() -> Suite {
    Suite::new("thread_local")
        .without_pairs()
        .program(
            Program::new("insert-insert", "two threads share a bucket")
                .scene(ThreadLocal::new)
                .thread(["insert", "iterate"], |all| {
                    all.insert(0);
                    all.iterate();
                })
                .thread(["insert"], |all| all.insert(1)),
        )
        .program(
            Program::new("iterate", "an iterator sees whole values")
                .scene(ThreadLocal::new)
                .thread(["iterate"], |all| all.iterate())
                .thread(["insert"], |all| all.insert(0))
                .thread(["insert"], |all| all.insert(1)),
        )
}

struct Entry {
    is_present: AtomicU32,
    value: UnsafeCell<usize>,
}

struct ThreadLocal {
    bucket: AtomicPtr<[Entry; 2]>,
    values: AtomicUsize,
}

// SAFETY: if the type is correct, a value is read by others only once it is present.
unsafe impl Sync for ThreadLocal {}

impl ThreadLocal {
    fn new() -> Self {
        ThreadLocal {
            bucket: AtomicPtr::new(ptr::null_mut()),
            values: AtomicUsize::new(0),
        }
    }

    fn insert(&self, index: usize) {
        let mut bucket = self.bucket.load(Acquire);
        if bucket.is_null() {
            let entry = || Entry {
                is_present: AtomicU32::new(0),
                value: UnsafeCell::new(0),
            };
            let new = Box::into_raw(Box::new([entry(), entry()]));
            let exchanged = self
                .bucket
                .compare_exchange(ptr::null_mut(), new, AcqRel, Acquire);
            bucket = match exchanged {
                Ok(_) => new,
                Err(other) => {
                    // SAFETY: from `into_raw`, and not published.
                    drop(unsafe { Box::from_raw(new) });
                    other
                }
            };
        }
        // SAFETY: a bucket lives as long as `self`.
        let entry = unsafe { &(&*bucket)[index] };
        // SAFETY: the entry is this thread's, and not yet present.
        entry.value.with_mut(|it| unsafe { *it = index + 1 });
        entry.is_present.store(1, Release);
        self.values.fetch_add(1, Release);
    }

    fn iterate(&self) {
        let bucket = self.bucket.load(Acquire);
        if bucket.is_null() {
            return;
        }
        // SAFETY: a bucket lives as long as `self`.
        for (index, entry) in unsafe { &*bucket }.iter().enumerate() {
            if entry.is_present.load(Acquire) == 1 {
                // SAFETY: the value is present.
                let value = entry.value.with(|it| unsafe { *it });
                assert_eq!(value, index + 1);
                note(value.to_string());
            }
        }
    }
}

impl Drop for ThreadLocal {
    fn drop(&mut self) {
        let bucket = self.bucket.load(Relaxed);
        if !bucket.is_null() {
            // SAFETY: from `into_raw`, and no other thread is left.
            drop(unsafe { Box::from_raw(bucket) });
        }
    }
}
