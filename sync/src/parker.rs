//! A sleeping thread, and the [`Waker`] that wakes it.

use core::task::Waker;
use std::time::Instant;

use crate::Park;
use crate::world::parker as world;

/// Why a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wakeup {
    /// The waker was used, or the sleep ended spuriously: recheck the condition.
    Woken,
    /// The deadline has passed.
    TimedOut,
}

/// A place for one thread to sleep. One wake that comes before the sleep is kept, so no wake is
/// lost between the check of a condition and the sleep.
///
/// An ordinary [`Waker`] wakes the thread, so one queue can hold both threads and futures.
#[derive(Debug)]
pub struct Parker {
    inner: world::Inner,
    waker: Waker,
}

impl Park for Parker {
    fn with<R>(f: impl FnOnce(&Parker) -> R) -> R {
        world::with(f)
    }

    #[inline]
    fn waker(&self) -> &Waker {
        &self.waker
    }

    fn park(&self) {
        self.park_until(None);
    }

    #[inline]
    fn try_park(&self) -> bool {
        world::try_park(&self.inner)
    }

    fn park_briefly(&self) {
        world::park_briefly(&self.inner);
    }
}

impl Parker {
    pub(crate) fn new() -> Self {
        let (inner, waker) = world::pair();
        Parker { inner, waker }
    }

    /// Sleeps until woken, or until `deadline` if there is one. The thread first yields its core
    /// once: if the wake comes soon, yielding is cheaper than a sleep.
    ///
    /// Under a checker no clock runs: a deadline passes exactly when the model's fault plan says
    /// so, or, without a plan, the explorer.
    pub fn park_until(&self, deadline: Option<Instant>) -> Wakeup {
        world::park(&self.inner, deadline)
    }

    /// Returns whether a deadline has passed. Under a checker, returns false: a deadline passes in
    /// [`park_until`](Self::park_until) only.
    pub fn has_passed(deadline: Instant) -> bool {
        world::has_passed(deadline)
    }
}
