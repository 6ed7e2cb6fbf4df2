//! Sleeping until something is so.
//!
//! # Properties
//! Who changes something calls [`wake_all`](Signal::wake_all) (or [`wake_some`](Signal::wake_some)) afterwards; who waits looks, registers, looks again, sleeps.
//! Waking takes a lock for a moment and never waits for a sleeper.
//!
//! # Invariants
//! - **S1** No wake is lost: the second look comes after the registration, both under or after the lock that the waker takes. Either the waker finds the
//!   waiter registered, and its parker keeps the wake until it sleeps; or the waiter registered later, and its look sees the change.
//! - **S2** A waiter is registered at most once, and not at all once it has left: a wake for some is not spent on who is gone.
//!
//! # Not promised
//! Order, and that a sleeper wakes for a reason: the look decides.

use core::task::Waker;
use std::time::Instant;

use spanlock_sync::wait::is_wake_left_out;
use spanlock_sync::{Mutex, Park, Parker, Wakeup, injected_bug};

/// Where threads sleep until something that others change is as they want it.
#[derive(Debug, Default)]
pub struct Signal {
    waiting: Mutex<Vec<Waker>>,
}

impl Signal {
    /// Where nobody waits yet.
    pub fn new() -> Self {
        Signal {
            waiting: Mutex::new(Vec::new()),
        }
    }

    /// Sleeps until `look` finds what it is for. It is called without locks, at least once more after each wake. It must not sleep itself: the wake
    /// that ends that sleep could be this one's.
    pub fn wait_until<T>(&self, look: impl FnMut() -> Option<T>) -> T {
        self.wait(None, look).expect("there is no deadline")
    }

    /// The same, but until the deadline at most.
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

    /// Wakes all who wait now.
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

    /// Wakes up to `count` of those who wait, who came first first.
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

/// A waiter's registration, which ends with it, by a panic of its look too (S2).
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
