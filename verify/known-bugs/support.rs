//! Helpers for several entries: a wait queue and a heap block shared by address.

use std::task::Waker;

use spanlock_sync::atomic::{AtomicU32, Ordering::*, free_slice, zeroed_slice};
use spanlock_sync::{Mutex, Park, Parker};

/// A wait queue in the manner of a kernel's: enqueue, recheck the condition, sleep.
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

/// A heap block, of one word, that several threads reach by its address and one of them frees.
///
/// The checker fails an execution that uses the word after [`free`](Block::free), frees twice, or
/// uses the word without ordering that use before the freeing. The word by which a thread gives up
/// the block must lie outside of it. The facade reports a use to loom only after the operation
/// itself. For an operation that gives up the block, that would be too late: another thread may
/// have freed it by then.
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

    /// Uses the word. This stands for any access to the block's contents.
    pub(crate) fn touch(&self) {
        // SAFETY: under a checker, freed memory stays allocated until the execution ends.
        let word = unsafe { &(&*self.0)[0] };
        // Relaxed: a plain access.
        word.load(Relaxed);
    }

    /// Frees the block.
    pub(crate) fn free(&self) {
        // The checker fails this use if the block was freed before.
        self.touch();
        // SAFETY: the block was not freed before, or the line above has failed the execution.
        free_slice(unsafe { Box::from_raw(self.0) });
    }
}
