//! `thread_local` 1.1.3: an iterator loads the pointer to a bucket with Relaxed.
//!
//! A thread that has no entry yet allocates a bucket, initializes it and publishes its address. An
//! iterator in another thread loads the address and reads the bucket's entries.
//!
//! | step | owner | iterator |
//! |---|---|---|
//! | 1 | initializes the bucket's entries | |
//! | 2 | publishes the bucket with Release | |
//! | 3 | | loads the bucket's address with Relaxed |
//! | 4 | | reads an entry, although nothing orders step 1 before this read |
//!
//! - Advisory: RUSTSEC-2022-0006, <https://github.com/Amanieu/thread_local-rs/issues/33>
//! - Fix (1.1.4): an Acquire load, <https://github.com/Amanieu/thread_local-rs/pull/34>
//!
//! Only the ordering is wrong. The checkers find the race on the entry.

use std::ptr;

use spanlock_sync::atomic::{AtomicPtr, Ordering::*};
use spanlock_sync::cell::UnsafeCell;
use spanlock_verify::{Form, KnownBug, Program};

pub(crate) fn bug() -> KnownBug {
    KnownBug::new(
        "thread-local",
        "https://github.com/Amanieu/thread_local-rs/issues/33",
    )
    .program(|form| {
        Program::new("iterate", "an iterator sees initialized entries")
            .scene(move || ThreadLocal::new(form))
            .thread(["iterate"], |local| local.iterate())
            .thread(["insert"], |local| local.insert())
    })
}

type Entry = UnsafeCell<u32>;

struct ThreadLocal {
    form: Form,
    bucket: AtomicPtr<Entry>,
}

// SAFETY: if the type is correct, threads read entries only after they were published.
unsafe impl Sync for ThreadLocal {}

impl ThreadLocal {
    fn new(form: Form) -> Self {
        ThreadLocal {
            form,
            bucket: AtomicPtr::new(ptr::null_mut()),
        }
    }

    fn insert(&self) {
        let entry = Box::new(Entry::new(0));
        // SAFETY: no other thread knows the entry yet.
        entry.with_mut(|value| unsafe { *value = 7 });
        self.bucket.store(Box::into_raw(entry), Release);
    }

    fn iterate(&self) {
        let order = match self.form {
            Form::Buggy => Relaxed,
            Form::Fixed => Acquire,
        };
        let entry = self.bucket.load(order);
        if entry.is_null() {
            return;
        }
        // SAFETY: the entry lives as long as `self`.
        let value = unsafe { &*entry }.with(|value| unsafe { *value });
        assert_eq!(value, 7);
    }
}

impl Drop for ThreadLocal {
    fn drop(&mut self) {
        let entry = self.bucket.load(Relaxed);
        if !entry.is_null() {
            // SAFETY: `insert` made it by `into_raw`, and no other thread is left.
            drop(unsafe { Box::from_raw(entry) });
        }
    }
}
