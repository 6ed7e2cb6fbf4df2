//! Waiting, before a commit, for the threads that the previous commit woke.
//!
//! # The problem
//! Threads that commit continuously and share commits split into two halves. While one half waits
//! for its commit, the other half joins the next transaction. The commit of that transaction starts
//! as soon as the first commit ends, before the woken threads can join. Each commit then carries
//! half of the threads, and each thread waits for two commits. If the next commit first lets the
//! woken threads join, all threads share every commit.
//!
//! The [`Rendezvous`] decides whether that wait pays and how long it may last; the compact log uses
//! the same policy. This file counts the threads and puts the journal's thread to sleep.
//!
//! # State, under one mutex
//!
//! | field | meaning | changed by |
//! |---|---|---|
//! | `here` | threads that wait for the running transaction | `arrive` adds one, `shut` sets 0 |
//! | `away` | threads that wait for the commit under way | `shut` sets it, `committed` sets 0 |
//! | `expected` | `here` + `away` at the end of the last commit | `committed` |
//! | `policy` | when to wait, and for how long | these three functions and `gather` |
//!
//! # Invariants
//! - **J-R1** The journal's thread does not keep sleeping once every expected thread has arrived:
//!   the last expected thread wakes it, after that thread has been counted.
//! - **J-R2** The journal's thread sleeps until a deadline at most. A thread that never returns
//!   delays the commit no longer than that.

use std::sync::Arc;
use std::time::Instant;

use spanlock_sync::Mutex;

use super::signal::Signal;
use crate::rendezvous::Rendezvous;

/// Counts the threads that wait for commits, and holds a commit back for them. See the
/// [module](self).
#[derive(Debug)]
pub struct Gathering {
    counts: Mutex<Counts>,
    /// The journal's thread sleeps here.
    comes: Arc<Signal>,
}

#[derive(Debug)]
struct Counts {
    here: u32,
    away: u32,
    expected: u32,
    policy: Rendezvous,
}

impl Gathering {
    /// Creates a gathering without threads. The journal's thread will sleep at `comes`.
    pub fn new(comes: Arc<Signal>) -> Self {
        Self::with_policy(comes, Rendezvous::new())
    }

    /// Creates a gathering with a policy that may have seen commits before. For models.
    #[doc(hidden)]
    pub fn with_policy(comes: Arc<Signal>, policy: Rendezvous) -> Self {
        Gathering {
            counts: Mutex::new(Counts {
                here: 0,
                away: 0,
                expected: 0,
                policy,
            }),
            comes,
        }
    }

    /// Counts a thread that waits for the running transaction. Returns true if this was the last
    /// expected thread; the caller must then [wake](Self::call) the journal's thread.
    pub fn arrive(&self) -> bool {
        let now = Instant::now();
        self.counts.lock().arrive(now)
    }

    /// Wakes the journal's thread after every expected thread has arrived (J-R1).
    pub fn call(&self) {
        self.comes.wake_all();
    }

    /// Makes the running transaction the committing one.
    pub fn shut(&self) {
        let mut counts = self.counts.lock();
        counts.away = std::mem::take(&mut counts.here);
        counts.policy.started_at(Instant::now());
    }

    /// Ends the commit. Called just before the threads that waited for it are woken.
    pub fn committed(&self) {
        let mut counts = self.counts.lock();
        let released = std::mem::take(&mut counts.away);
        counts.expected = counts.here + released;
        (counts.policy).finished_at(Instant::now(), released as usize);
    }

    /// If the policy says so, waits for the threads that the last commit woke: sleeps until they
    /// have arrived, `is_over` returns true, or the policy's deadline has passed. Returns whether
    /// they have arrived, or `None` if it did not wait.
    pub fn gather(&self, is_over: impl Fn() -> bool) -> Option<bool> {
        let until = self.counts.lock().hold(Instant::now())?;
        self.comes.wait_until_deadline(until, || {
            let is_complete = self.counts.lock().is_complete();
            (is_complete || is_over()).then_some(())
        });
        Some(self.counts.lock().is_complete())
    }
}

impl Counts {
    fn arrive(&mut self, now: Instant) -> bool {
        self.here += 1;
        self.policy.arrived_at(now);
        self.here == self.expected || (self.policy.is_holding() && self.policy.missing() == 0)
    }

    fn hold(&mut self, now: Instant) -> Option<Instant> {
        if self.is_complete() {
            return None;
        }
        self.policy.hold_at(now, self.here as usize)
    }

    fn is_complete(&self) -> bool {
        self.here >= self.expected || self.policy.missing() == 0
    }
}

#[cfg(all(test, not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))))]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Returns a gathering that expects all threads to return at once, with a deadline so late that
    /// it does not pass.
    fn gathering() -> Gathering {
        let policy = Rendezvous::learnt(Instant::now(), Duration::from_secs(36_000));
        Gathering::with_policy(Arc::new(Signal::new()), policy)
    }

    #[test]
    fn two_halves_become_one_cohort() {
        let gathering = gathering();
        (0..4).for_each(|_| assert!(!gathering.arrive()));
        gathering.shut();
        (0..4).for_each(|_| assert!(!gathering.arrive()));
        gathering.committed();
        assert!(gathering.counts.lock().hold(Instant::now()).is_some());
        let last = (0..4).map(|_| gathering.arrive()).collect::<Vec<_>>();
        assert_eq!(last, [false, false, false, true]);
        assert_eq!(gathering.gather(|| false), None);
        gathering.shut();
        gathering.committed();
        assert_eq!(gathering.counts.lock().expected, 8);
        assert!(gathering.counts.lock().hold(Instant::now()).is_some());
    }

    #[test]
    fn the_last_arrival_ends_the_sleep() {
        let gathering = &gathering();
        (0..2).for_each(|_| _ = gathering.arrive());
        gathering.shut();
        gathering.committed();
        std::thread::scope(|scope| {
            let held = scope.spawn(|| gathering.gather(|| false));
            let arrive = || {
                if gathering.arrive() {
                    gathering.call();
                }
            };
            arrive();
            assert!(!held.is_finished());
            arrive();
            assert_ne!(held.join().unwrap(), Some(false));
        });
    }

    #[test]
    fn a_new_gathering_waits_for_nobody() {
        let gathering = Gathering::new(Arc::new(Signal::new()));
        (0..4).for_each(|_| _ = gathering.arrive());
        gathering.shut();
        gathering.committed();
        assert_eq!(gathering.gather(|| false), None);
    }
}
