//! Sleeping until a condition holds.
//!
//! # Protocol
//! A waiter checks the condition, registers its waker, checks again, and then sleeps. A thread that
//! has changed the condition then wakes the waiters, with [`wake_all`](Signal::wake_all) or
//! [`wake_some`](Signal::wake_some). A wake holds the mutex only briefly and never waits for a
//! sleeper.
//!
//! ```text
//!   check ──false──► register ──► check again ──false──► sleep ──woken──┐
//!     │                 ▲             │                                 │
//!     │ true            │             │ true                            │
//!     ▼                 └─────────────┼─────────────────────────────────┘
//!   return ◄──────────────────────────┘
//! ```
//!
//! # Invariants
//! - **J-S1** No wake is lost. The waiter makes its second check after its registration, and
//!   registration and wake take the same mutex. If the registration comes first, the wake finds it,
//!   and the waiter's parker keeps the wake until the waiter sleeps. If the wake comes first, the
//!   second check sees the change.
//! - **J-S2** A waiter is registered at most once, and its registration is removed when it stops
//!   waiting. So `wake_some` never spends a wake on a thread that no longer waits.
//!
//! # Not guaranteed
//! Woken waiters continue in no particular order. A waiter may wake spuriously, so it always checks
//! the condition again.

use core::task::Waker;
use std::time::Instant;

use spanlock_sync::wait::is_wake_left_out;
use spanlock_sync::{Mutex, Park, Parker, Wakeup, injected_bug};

/// A place where threads sleep until other threads have made a condition true.
#[derive(Debug, Default)]
pub struct Signal {
    waiting: Mutex<Vec<Waker>>,
}

impl Signal {
    /// Creates a signal at which no thread waits.
    pub fn new() -> Self {
        Signal {
            waiting: Mutex::new(Vec::new()),
        }
    }

    /// Blocks until `look` returns `Some`, and returns its value.
    ///
    /// `look` is called without locks, and at least once more after each wake. `look` must not
    /// sleep, because it could consume the wake that is meant for this wait.
    pub fn wait_until<T>(&self, look: impl FnMut() -> Option<T>) -> T {
        self.wait(None, look).expect("there is no deadline")
    }

    /// Blocks as [`wait_until`](Self::wait_until) does, but no later than `deadline`.
    pub fn wait_until_deadline<T>(
        &self,
        deadline: Instant,
        look: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        self.wait(Some(deadline), look)
    }

    fn wait<T>(&self, deadline: Option<Instant>, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        if let Some(found) = look() {
            return Some(found);
        }
        Parker::with(|parker| {
            let registered = Registered {
                signal: self,
                waker: parker.waker(),
            };
            loop {
                registered.again();
                if !injected_bug!(
                    "no-recheck",
                    "a thread that has registered its waker sleeps without rechecking the condition",
                    killed_by = "wake-each, wake-deadline, wake-3"
                ) && let Some(found) = look()
                {
                    return Some(found);
                }
                if parker.park_until(deadline) == Wakeup::TimedOut {
                    return None;
                }
            }
        })
    }

    /// Wakes all threads that are waiting now.
    #[track_caller]
    pub fn wake_all(&self) {
        if is_wake_left_out() {
            return;
        }
        let all = core::mem::take(&mut *self.waiting.lock());
        for waker in all {
            waker.wake();
        }
    }

    /// Wakes up to `count` of the waiting threads, in the order in which they registered.
    #[track_caller]
    pub fn wake_some(&self, count: usize) {
        if is_wake_left_out() {
            return;
        }
        let mut waiting = self.waiting.lock();
        let count = count.min(waiting.len());
        let some: Vec<Waker> = waiting.drain(..count).collect();
        drop(waiting);
        for waker in some {
            waker.wake();
        }
    }
}

/// A waiter's registration. Dropping this value removes the registration, even if the waiter's
/// check panics (J-S2).
struct Registered<'a> {
    signal: &'a Signal,
    waker: &'a Waker,
}

impl Registered<'_> {
    fn again(&self) {
        let mut waiting = self.signal.waiting.lock();
        if !waiting.iter().any(|it| it.will_wake(self.waker)) {
            waiting.push(self.waker.clone());
        }
    }
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        let mut waiting = self.signal.waiting.lock();
        if let Some(at) = waiting.iter().position(|it| it.will_wake(self.waker)) {
            waiting.remove(at);
        }
    }
}
