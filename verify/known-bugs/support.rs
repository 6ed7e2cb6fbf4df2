//! Helpers for several entries: a wait queue, and a heap block that threads share.

use std::task::Waker;

use spanlock_sync::atomic::{AtomicU32, Ordering::*, free_slice, zeroed_slice};
use spanlock_sync::{Mutex, Park, Parker};

/// A wait queue like those of kernels: a waiter enqueues, rechecks its condition, and sleeps.
pub(crate) struct Waiters(Mutex<Vec<Waker>>);

impl Waiters {
    pub(crate) fn new() -> Self {
        Waiters(Mutex::new(Vec::new()))
    }

    /// Adds a waker for the next [`wake_all`](Waiters::wake_all).
    pub(crate) fn enqueue(&self, waker: &Waker) {
        self.0.lock().push(waker.clone());
    }

    /// Sleeps until `done` returns true.
    pub(crate) fn wait_until(&self, mut done: impl FnMut() -> bool) {
        Parker::with(|parker| {
            loop {
                self.enqueue(parker.waker());
                if done() {
                    return;
                }
                parker.park();
            }
        });
    }

    /// Wakes every thread that has enqueued itself.
    pub(crate) fn wake_all(&self) {
        let all = std::mem::take(&mut *self.0.lock());
        all.into_iter().for_each(Waker::wake);
    }
}

/// A heap block of one word. Several threads have its address, and one of them frees it.
///
/// An execution fails under a checker if a thread uses the word after [`free`](Block::free), or if
/// threads free the block twice. It also fails if a use is not ordered before the call of `free`,
/// except under shuttle. To give up the block, a thread must use a word outside of it, not this
/// one: the facade performs an operation first and then reports it to loom. In between, another
/// thread may already have freed the block.
pub(crate) struct Block(*mut [AtomicU32]);

// SAFETY: the words are atomics.
unsafe impl Send for Block {}
// SAFETY: as above.
unsafe impl Sync for Block {}

impl Block {
    /// Allocates a block.
    pub(crate) fn new() -> Self {
        Block(Box::into_raw(zeroed_slice(1).expect("a few bytes")))
    }

    /// Uses the word. The call stands for any access to the block's contents.
    pub(crate) fn touch(&self) {
        // SAFETY: under a checker, freed memory stays allocated until the execution ends.
        let word = unsafe { &(&*self.0)[0] };
        // Relaxed: stands for a plain access.
        word.load(Relaxed);
    }

    /// Frees the block.
    pub(crate) fn free(&self) {
        // If the block was freed before, the execution fails here.
        self.touch();
        // SAFETY: the block was not freed before, or the execution has failed in the line above.
        free_slice(unsafe { Box::from_raw(self.0) });
    }
}
