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
        #[cfg(any(spanlock_loom, spanlock_shuttle))]
        crate::check::trace("Sleep");
        let wakeup = world::park(&self.inner, deadline);
        #[cfg(any(spanlock_loom, spanlock_shuttle))]
        crate::check::trace("Awake");
        wakeup
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

/// Loom: a flag, and a mutex that is locked while the flag is down: who sleeps locks it once more. (A flag under a mutex, with a condition
/// variable, would be five steps instead of three, of which one sleeps in its midst.)
#[cfg(spanlock_loom)]
mod world {
    use std::sync::atomic::Ordering::AcqRel;
    use std::sync::{Arc, Mutex as StdMutex, PoisonError};
    use std::task::Wake;

    use loom::sync::atomic::AtomicBool;

    use super::{Instant, Waker, Wakeup};
    use crate::check;
    use crate::footprint::Object;
    use crate::{Mutex, MutexGuard};

    #[derive(Debug)]
    pub(super) struct Flag {
        woken: AtomicBool,
        object: Object,
        /// Of `gate`, while the flag is down. Std's, so no step of its own.
        shut: StdMutex<Option<MutexGuard<'static, ()>>>,
        // Dropped after `shut`, and never moved.
        gate: Box<Mutex<()>>,
    }

    // SAFETY: loom runs its threads on one system thread, for which alone the guard is made.
    unsafe impl Send for Flag {}
    // SAFETY: as above.
    unsafe impl Sync for Flag {}

    pub(super) type Parker = Arc<Flag>;

    impl Flag {
        /// Waits until the gate is open, and shuts it.
        fn shut(&self) {
            let gate: *const Mutex<()> = &*self.gate;
            // SAFETY: the gate is dropped after the guard, and stays where it is.
            let guard = unsafe { &*gate }.lock();
            *self.shut.lock().unwrap_or_else(PoisonError::into_inner) = Some(guard);
        }

        /// AcqRel: as a wake does in the other worlds, and to keep what earlier wakes have published.
        fn set(&self, woken: bool) -> bool {
            let before = self.woken.swap(woken, AcqRel);
            self.object.touch_value(before != woken, true);
            before
        }
    }

    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.wake_by_ref();
        }
        fn wake_by_ref(self: &Arc<Self>) {
            if !self.set(true) {
                let guard = self
                    .shut
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take();
                drop(guard);
            }
        }
    }

    pub(super) fn pair() -> (Parker, Waker) {
        let flag = Arc::new(Flag {
            woken: AtomicBool::new(false),
            object: Object::new(),
            shut: StdMutex::new(None),
            gate: Box::new(Mutex::new(())),
        });
        flag.shut();
        (flag.clone(), flag.into())
    }

    pub(super) fn with<R>(f: impl FnOnce(&super::Parker) -> R) -> R {
        f(&super::Parker::new())
    }

    pub(super) fn try_park(parker: &Parker) -> bool {
        let woken = parker.woken.load(std::sync::atomic::Ordering::Relaxed);
        parker.object.touch_value(false, true);
        if woken {
            parker.shut();
            parker.set(false);
        }
        woken
    }

    pub(super) fn park(parker: &Parker, deadline: Option<Instant>) -> Wakeup {
        if let Some(wakeup) = check::injected_wakeup(deadline.is_some()) {
            return wakeup;
        }
        parker.shut();
        // After: a wake that comes between finds the flag up, and leaves the gate shut.
        parker.set(false);
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
            self.object
                .touch_behind(if given { Access::Read } else { Access::Write });
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
        parker.object.touch_value(woken, false);
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
