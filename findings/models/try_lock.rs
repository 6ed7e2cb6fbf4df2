//! `try-lock` 0.2.5: `try_lock` and unlock.
//!
//! Source: <https://docs.rs/crate/try-lock/0.2.5/source/src/lib.rs>

use spanlock_sync::atomic::{AtomicBool, Ordering::*};
use spanlock_sync::cell::UnsafeCell;
use spanlock_verify::{Program, Suite, note};

pub(crate) fn suite() -> Suite {
    Suite::new("try-lock").without_pairs().program(
        Program::new("exclusion", "holders exclude each other")
            .scene(TryLock::new)
            // One try each: loom lets an unlock fall into another thread's swap, and then shows a
            // lock that stays taken.
            .thread(["try_lock"], |lock| lock.increment())
            .thread(["try_lock"], |lock| lock.increment()),
    )
}

struct TryLock {
    is_locked: AtomicBool,
    data: UnsafeCell<u32>,
}

// SAFETY: if the lock is correct, threads access `data` only under the lock.
unsafe impl Sync for TryLock {}

impl TryLock {
    fn new() -> Self {
        TryLock {
            is_locked: AtomicBool::new(false),
            data: UnsafeCell::new(0),
        }
    }

    fn increment(&self) {
        if self.is_locked.swap(true, Acquire) {
            return note("locked");
        }
        // SAFETY: the lock is held.
        self.data.with_mut(|data| unsafe { *data += 1 });
        self.is_locked.store(false, Release);
    }
}
