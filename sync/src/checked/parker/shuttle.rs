//! A parker for shuttle: one permit of shuttle's semaphore. Blocking and unblocking take one step
//! each.
//!
//! (Shuttle's own `park` may wake spuriously any number of times. Here spurious wakes come from the
//! fault plan.)

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Wake, Waker};

use shuttle::future::batch_semaphore::{BatchSemaphore, Fairness};

use crate::world::operations::{Access, note};

#[derive(Debug)]
pub(crate) struct Permit {
    semaphore: BatchSemaphore,
    /// Whether a permit is available, or is about to be released. In both cases, further wakes
    /// change nothing. This is std's atomic, so that an access is not a step of the search.
    given: AtomicBool,
}

pub(crate) type Inner = Arc<Permit>;

impl Wake for Permit {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Relaxed, here and below: the checker runs its threads on one system thread.
        let given = self.given.swap(true, Relaxed);
        note(Access::Write);
        if !given {
            self.semaphore.release(1);
        }
    }
}

pub(crate) fn pair() -> (Inner, Waker) {
    let permit = Arc::new(Permit {
        semaphore: BatchSemaphore::new(0, Fairness::Unfair),
        given: AtomicBool::new(false),
    });
    (permit.clone(), permit.into())
}

pub(crate) fn try_park(parker: &Inner) -> bool {
    let woken = parker.semaphore.try_acquire(1).is_ok();
    if woken {
        parker.given.store(false, Relaxed);
    }
    note(Access::Read);
    woken
}

pub(super) fn park(parker: &Inner) {
    // An error means that the execution is being torn down.
    let _ = parker.semaphore.acquire_blocking(1);
    parker.given.store(false, Relaxed);
    note(Access::Write);
}
