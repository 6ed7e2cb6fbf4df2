//! `append-only-vec` 0.1.10: `push` and reads.
//!
//! A pusher reserves an index. The pusher of a bucket's first index allocates the bucket; others
//! wait until that index is published. Each publishes its index by raising `count` in order.
//!
//! Source: <https://docs.rs/crate/append-only-vec/0.1.10/source/src/lib.rs>

use spanlock_sync::atomic::{AtomicUsize, Ordering::*};
use spanlock_sync::cell::UnsafeCell;
use spanlock_sync::hint;
use spanlock_verify::{Program, Suite, note};

pub(crate) fn suite() -> Suite {
    Suite::new("append-only-vec")
        .without_pairs()
        .program(
            Program::new("push-push", "each push has an index of its own")
                .scene(Vec::new)
                .thread(["push"], |all| all.push())
                .thread(["push"], |all| all.push())
                .at_end(Vec::read),
        )
        .program(
            Program::new("push-read", "a reader sees what was pushed")
                .scene(Vec::new)
                .thread(["read"], Vec::read)
                .thread(["push"], |all| all.push())
                .thread(["push"], |all| all.push()),
        )
}

/// A vector with one bucket of two elements.
struct Vec {
    count: AtomicUsize,
    reserved: AtomicUsize,
    is_allocated: UnsafeCell<bool>,
    bucket: [UnsafeCell<usize>; 2],
}

// SAFETY: if the vector is correct, elements are written before they are published.
unsafe impl Sync for Vec {}

impl Vec {
    fn new() -> Self {
        Vec {
            count: AtomicUsize::new(0),
            reserved: AtomicUsize::new(0),
            is_allocated: UnsafeCell::new(false),
            bucket: [UnsafeCell::new(0), UnsafeCell::new(0)],
        }
    }

    fn push(&self) {
        let index = self.reserved.fetch_add(1, Relaxed);
        if index == 0 {
            // SAFETY: only the first pusher writes it, before the others read it.
            self.is_allocated.with_mut(|it| unsafe { *it = true });
        } else {
            while self.count.load(Acquire) < 1 {
                hint::pause();
            }
            self.assert_allocated();
        }
        // SAFETY: no other thread has this index.
        self.bucket[index].with_mut(|it| unsafe { *it = index + 1 });
        while self
            .count
            .compare_exchange(index, index + 1, Release, Relaxed)
            .is_err()
        {
            hint::pause();
        }
    }

    fn read(&self) {
        let count = self.count.load(Acquire);
        note(count.to_string());
        for (index, element) in self.bucket[..count].iter().enumerate() {
            self.assert_allocated();
            // SAFETY: the element was published.
            assert_eq!(element.with(|it| unsafe { *it }), index + 1);
        }
    }

    fn assert_allocated(&self) {
        // SAFETY: an element of the bucket was published.
        assert!(self.is_allocated.with(|it| unsafe { *it }));
    }
}
