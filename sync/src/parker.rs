//! One thread asleep, and the [`Waker`] that wakes it.

use core::task::Waker;
use std::time::Instant;

use crate::Park;

/// Why a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wakeup {
    /// The waker was used, or nothing happened at all: look again.
    Woken,
    /// The deadline has passed.
    TimedOut,
}

/// A place for one thread to sleep. A wake that comes before the sleep is kept (once): nothing is lost
/// between looking and sleeping.
///
/// What wakes is an ordinary [`Waker`], so that a queue serves threads and futures alike.
#[derive(Debug)]
pub struct Parker {
    inner: world::Parker,
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
}

impl Parker {
    fn new() -> Self {
        let (inner, waker) = world::pair();
        Parker { inner, waker }
    }

    /// Sleeps until woken, or until `deadline` if there is one. Before it sleeps it yields its core a few times: if the wake is
    /// near, that is cheaper than a sleep.
    ///
    /// Under a checker no clock runs: a deadline passes exactly when the fault plan says so.
    pub fn park_until(&self, deadline: Option<Instant>) -> Wakeup {
        world::park(&self.inner, deadline)
    }
}

#[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
mod world {
    use super::{Instant, Waker, Wakeup};

    pub(super) type Parker = parking::Parker;

    /// How often a waiter offers its core to others before it sleeps: some ten microseconds, if nobody takes it. To wake a core
    /// that has nothing to do takes longer, on virtual machines above all, and where locks are handed over in turn one slow wake
    /// makes the next: the waker is asleep when it is woken in turn. Who yields keeps nobody that could run from its core.
    const YIELDS: u32 = 16;

    thread_local! {
        static CURRENT: super::Parker = super::Parker::new();
    }

    pub(super) fn pair() -> (Parker, Waker) {
        let (parker, unparker) = parking::pair();
        (parker, unparker.into())
    }

    pub(super) fn with<R>(f: impl FnOnce(&super::Parker) -> R) -> R {
        let mut f = Some(f);
        let call = |parker: &super::Parker| f.take().map(|f| f(parker));
        match CURRENT.try_with(call) {
            Ok(Some(result)) => result,
            // The thread is being torn down and its parker is gone: a fresh one serves as well.
            _ => f.take().expect("not called yet")(&super::Parker::new()),
        }
    }

    pub(super) fn try_park(parker: &Parker) -> bool {
        // Looks, and does not ask the system.
        parker.park_timeout(core::time::Duration::ZERO)
    }

    pub(super) fn park(parker: &Parker, deadline: Option<Instant>) -> Wakeup {
        for _ in 0..YIELDS {
            if try_park(parker) {
                return Wakeup::Woken;
            }
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Wakeup::TimedOut;
            }
            std::thread::yield_now();
        }
        match deadline {
            None => parker.park(),
            Some(deadline) => {
                if !parker.park_deadline(deadline) {
                    return Wakeup::TimedOut;
                }
            }
        }
        Wakeup::Woken
    }
}

/// Loom: a flag under the checker's own mutex and condition variable.
#[cfg(spanlock_loom)]
mod world {
    use std::sync::Arc;
    use std::task::Wake;

    use super::{Instant, Waker, Wakeup};
    use crate::check;
    use crate::{Condvar, Mutex};

    #[derive(Debug)]
    pub(super) struct Flag {
        woken: Mutex<bool>,
        changed: Condvar,
    }

    pub(super) type Parker = Arc<Flag>;

    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.wake_by_ref();
        }
        fn wake_by_ref(self: &Arc<Self>) {
            *self.woken.lock() = true;
            self.changed.notify_one();
        }
    }

    pub(super) fn pair() -> (Parker, Waker) {
        let flag = Arc::new(Flag {
            woken: Mutex::new(false),
            changed: Condvar::new(),
        });
        (flag.clone(), flag.into())
    }

    pub(super) fn with<R>(f: impl FnOnce(&super::Parker) -> R) -> R {
        f(&super::Parker::new())
    }

    pub(super) fn try_park(parker: &Parker) -> bool {
        core::mem::take(&mut *parker.woken.lock())
    }

    pub(super) fn park(parker: &Parker, deadline: Option<Instant>) -> Wakeup {
        if let Some(wakeup) = check::injected_wakeup(deadline.is_some()) {
            return wakeup;
        }
        let mut woken = parker.woken.lock();
        while !*woken {
            woken = parker.changed.wait(woken);
        }
        *woken = false;
        Wakeup::Woken
    }
}

/// Shuttle: one permit of its semaphore, which blocks and unblocks in one step each. (A flag under a mutex
/// would be five, and an exhaustive search multiplies by each. Its own `park` may wake spuriously as
/// often as the scheduler likes: no exhaustive search of that ends; spurious wakes come from the fault plan.)
#[cfg(spanlock_shuttle)]
mod world {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::task::Wake;

    use shuttle::future::batch_semaphore::{BatchSemaphore, Fairness};

    use super::{Instant, Waker, Wakeup};
    use crate::check;
    use crate::footprint::{Access, Object};

    #[derive(Debug)]
    pub(super) struct Permit {
        semaphore: BatchSemaphore,
        /// Whether a permit is there or on its way: further wakes change nothing. Std's, so no step of its own.
        given: AtomicBool,
        /// Both together.
        object: Object,
    }

    pub(super) type Parker = Arc<Permit>;

    impl Wake for Permit {
        fn wake(self: Arc<Self>) {
            self.wake_by_ref();
        }
        fn wake_by_ref(self: &Arc<Self>) {
            // Relaxed, here and below: the checker runs its threads on one system thread.
            let given = self.given.swap(true, Relaxed);
            self.object.touch_value(!given);
            if !given {
                self.semaphore.release(1);
                self.object.touch(Access::Wake);
            }
        }
    }

    pub(super) fn pair() -> (Parker, Waker) {
        let permit = Arc::new(Permit {
            semaphore: BatchSemaphore::new(0, Fairness::Unfair),
            given: AtomicBool::new(false),
            object: Object::new(),
        });
        (permit.clone(), permit.into())
    }

    pub(super) fn with<R>(f: impl FnOnce(&super::Parker) -> R) -> R {
        f(&super::Parker::new())
    }

    pub(super) fn try_park(parker: &Parker) -> bool {
        let woken = parker.semaphore.try_acquire(1).is_ok();
        if woken {
            parker.given.store(false, Relaxed);
        }
        parker.object.touch_value(woken);
        woken
    }

    pub(super) fn park(parker: &Parker, deadline: Option<Instant>) -> Wakeup {
        if let Some(wakeup) = check::injected_wakeup(deadline.is_some()) {
            return wakeup;
        }
        // An error means that the execution is being torn down.
        let _ = parker.semaphore.acquire_blocking(1);
        parker.given.store(false, Relaxed);
        parker.object.touch(Access::Wait);
        Wakeup::Woken
    }
}
