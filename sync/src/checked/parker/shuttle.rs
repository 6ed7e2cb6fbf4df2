//! A parker for shuttle: one permit of shuttle's semaphore. Blocking and unblocking take one step
//! each.
//!
//! (A flag under a mutex would take five steps, and each step multiplies an exhaustive search.
//! Shuttle's own `park` may wake spuriously any number of times, so an exhaustive search would
//! never end. Here spurious wakes come from the fault plan.)

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Wake, Waker};

use shuttle::future::batch_semaphore::{BatchSemaphore, Fairness};

use crate::footprint::{Access, Object};

#[derive(Debug)]
pub(crate) struct Permit {
    semaphore: BatchSemaphore,
    /// Whether a permit is available, or is about to be released. In both cases, further wakes
    /// change nothing. This is std's atomic, so that an access is not a step of the search.
    given: AtomicBool,
    /// Stands for the semaphore and the flag together in [footprints](crate::footprint).
    object: Object,
}

pub(crate) type Inner = Arc<Permit>;

impl Wake for Permit {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Relaxed, here and below: the checker runs its threads on one system thread.
        let given = self.given.swap(true, Relaxed);
        self.object
            .touch_behind(if given { Access::Read } else { Access::Write });
        if !given {
            self.semaphore.release(1);
            self.object.touch(Access::Wake);
        }
    }
}

pub(crate) fn pair() -> (Inner, Waker) {
    let permit = Arc::new(Permit {
        semaphore: BatchSemaphore::new(0, Fairness::Unfair),
        given: AtomicBool::new(false),
        object: Object::new(),
    });
    (permit.clone(), permit.into())
}

pub(crate) fn try_park(parker: &Inner) -> bool {
    let woken = parker.semaphore.try_acquire(1).is_ok();
    if woken {
        parker.given.store(false, Relaxed);
    }
    parker.object.touch_value(woken, false);
    woken
}

pub(super) fn park(parker: &Inner) {
    // An error means that the execution is being torn down.
    let _ = parker.semaphore.acquire_blocking(1);
    parker.given.store(false, Relaxed);
    parker.object.touch(Access::Wait);
}
