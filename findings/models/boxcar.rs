//! `boxcar` 0.2.14: `push` and `get`.
//!
//! Two pushers allocate a bucket at the same time, and one of them frees its own again.
//!
//! Sources: <https://docs.rs/crate/boxcar/0.2.14/source/src/buckets.rs>, `src/vec/raw.rs`.

use std::ptr;

use spanlock_sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering::*};
use spanlock_sync::cell::UnsafeCell;
use spanlock_verify::{Program, Suite, note};

pub(crate) fn suite() -> Suite {
    Suite::new("boxcar")
        .without_pairs()
        .program(
            Program::new("push-get", "a get sees a whole entry")
                .scene(Vec::new)
                .thread(["push", "get"], |all| {
                    all.push();
                    all.get(1);
                })
                .thread(["push", "get"], |all| {
                    all.push();
                    all.get(0);
                }),
        )
        .program(
            Program::new("push-push-get", "a reader sees whole entries")
                .scene(Vec::new)
                .thread(["get"], |all| all.get(0))
                .thread(["push"], |all| all.push())
                .thread(["push"], |all| all.push()),
        )
}

struct Entry {
    is_active: AtomicU32,
    value: UnsafeCell<usize>,
}

struct Vec {
    inflight: AtomicUsize,
    count: AtomicUsize,
    bucket: AtomicPtr<[Entry; 2]>,
}

// SAFETY: if the vector is correct, an entry is read only once it is active.
unsafe impl Sync for Vec {}

impl Vec {
    fn new() -> Self {
        Vec {
            inflight: AtomicUsize::new(0),
            count: AtomicUsize::new(0),
            bucket: AtomicPtr::new(ptr::null_mut()),
        }
    }

    fn get_or_alloc(&self) -> &[Entry; 2] {
        let mut bucket = self.bucket.load(Acquire);
        if bucket.is_null() {
            let entry = || Entry {
                is_active: AtomicU32::new(0),
                value: UnsafeCell::new(0),
            };
            let new = Box::into_raw(Box::new([entry(), entry()]));
            let exchanged = self
                .bucket
                .compare_exchange(ptr::null_mut(), new, Release, Acquire);
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
        unsafe { &*bucket }
    }

    fn push(&self) {
        let index = self.inflight.fetch_add(1, Relaxed);
        let entry = &self.get_or_alloc()[index];
        // SAFETY: no other thread has this index.
        entry.value.with_mut(|it| unsafe { *it = index + 1 });
        entry.is_active.store(1, Release);
        self.count.fetch_add(1, Release);
    }

    fn get(&self, index: usize) {
        let bucket = self.bucket.load(Acquire);
        if bucket.is_null() {
            return;
        }
        // SAFETY: a bucket lives as long as `self`.
        let entry = unsafe { &(&*bucket)[index] };
        if entry.is_active.load(Acquire) == 1 {
            // SAFETY: the entry is active.
            let value = entry.value.with(|it| unsafe { *it });
            assert_eq!(value, index + 1);
            note(value.to_string());
        }
    }
}

impl Drop for Vec {
    fn drop(&mut self) {
        let bucket = self.bucket.load(Relaxed);
        if !bucket.is_null() {
            // SAFETY: from `into_raw`, and no other thread is left.
            drop(unsafe { Box::from_raw(bucket) });
        }
    }
}
