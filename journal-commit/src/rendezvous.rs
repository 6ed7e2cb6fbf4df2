//! The rendezvous: a commit waits briefly for the threads that the previous commit woke.
//!
//! Both the compact log ([`Group`](crate::compact::group::Group)) and the journal of blocks
//! ([`Gathering`](crate::jbd2::raw::gathering::Gathering)) use this policy. This file only decides:
//! it contains neither locks nor sleeps. "Flush" below means the flush of a batch in the compact
//! log, and the whole commit of a transaction in the journal.
//!
//! # The problem
//! A flush wakes the threads that waited for it, its *cohort*. They continue, and return with new
//! records. The first thread to return could start the next flush at once, and so could a thread
//! that was waiting already. The rest of the cohort then waits for two flushes. Alternatively the
//! first thread could wait for the rest, but this delays all threads that wait already.
//!
//! The better choice depends on how many threads of the cohort return, and how soon. This depends
//! on the time that threads work between commits (the *think time*), on the number of threads, and
//! on the length of a flush.
//!
//! ```text
//!   four threads that only commit; each line is a thread, ▒ waits, █ is being flushed
//!
//!      at once                                   rendezvous
//!   1  ████████▒▒▒▒▒▒▒▒████████▒▒▒▒▒▒▒▒          ████████▒████████▒████████▒
//!   2  ████████▒▒▒▒▒▒▒▒████████▒▒▒▒▒▒▒▒          ████████▒████████▒████████▒
//!   3  ▒▒▒▒▒▒▒▒████████▒▒▒▒▒▒▒▒████████          ████████▒████████▒████████▒
//!   4  ▒▒▒▒▒▒▒▒████████▒▒▒▒▒▒▒▒████████          ████████▒████████▒████████▒
//!      2 records a flush, two flushes each       4 records a flush, a little more than one each
//! ```
//!
//! JBD2 uses the same idea, called *piggyback*, but does not measure whether it pays: before a
//! commit, a thread sleeps so that others may join. Cui, "An Efficient Journaling Mechanism in
//! Lustre File System for Fast Storage Devices", 2018, §3.2, removes this sleep.
//!
//! # The decision
//! The policy counts arrivals whether it waits or not. The *window* begins at the end of a flush
//! and lasts for a quarter of a flush. A thread that arrives in the window is *early*; the others
//! are *late*. The policy keeps three moving means: the fraction of a cohort that is early, the
//! time at which the last early thread arrives, and the number of late threads. It holds a commit
//! back if
//!
//! > missing × (flush − wait) > (waiting + late) × wait
//!
//! Here *missing* is the number of early threads that are expected and have not arrived, *waiting*
//! is the number of threads that wait now, and *wait* is the expected duration of the wait. The
//! left side is the time that the missing threads save: each saves a flush, minus the wait. The
//! right side is the time that other threads lose: those that wait now, and those that arrive late
//! and find the flush delayed. If threads arrive independently of each other, the right side is
//! always larger. If they return at once, the left side is larger.
//!
//! The wait ends when the expected number of threads has arrived. It lasts at most about twice as
//! long as the last early thread usually takes to arrive, and never beyond the end of the window.
//!
//! # The trial
//! A prediction can be wrong, so a *trial* checks it (`trial.rs`):
//!
//! ```text
//!   part 0: current choice ──16 flushes──► part 1: other choice ──4 + 16──► part 2: current choice
//!     ▲                                           │ clear result                   │ 4 + 16
//!     │                                           ▼                                ▼
//!     └─────── 8 to 4096 waits later ────────── settled: waits, or does not ◄─── judge
//! ```
//!
//! At first the policy does not wait, and only counts how often it would have waited. After some
//! sixteen flushes it does wait, for about twenty flushes. If these twenty bring at least a tenth
//! more commits per second than the flushes before and after them, the policy keeps waiting.
//!
//! Later the policy repeats the trial from time to time. The first interval is 64 waits, including
//! those that the policy would have made while it does not wait. Each time a trial confirms the
//! current choice, the interval grows fourfold, up to 4096. If no wait was due in part 0, the trial
//! ends there, and the interval is only 8 waits. A clear result ends a trial early.
//!
//! # Not guaranteed
//! - Threads that return after more than a quarter of a flush are never waited for, although
//!   waiting could pay for think times up to about half a flush.
//! - No commit waits if flushes take less than 120 µs, because a sleep cannot be as short as a
//!   quarter of that.
//! - The policy does not wait for a gain of less than a tenth.

use std::time::{Duration, Instant};

mod trial;

use trial::Trial;

/// The window, as a fraction of a flush. No wait lasts beyond the end of the window.
const WINDOW: f64 = 0.25;
/// The shortest usable window in seconds. Linux ends a sleep some 50 µs late, so much shorter
/// sleeps are impossible.
const LEAST_WINDOW: f64 = 30e-6;
/// The weight of the newest value in a moving mean.
const NEWEST: f64 = 0.125;
/// The longest time between the ends of two flushes that a trial counts, in flushes. A longer time
/// counts as this, because it has a cause other than the choice under trial.
const LONGEST_CYCLE: f64 = 3.0;

/// Decides whether a commit waits for the cohort that was just woken. See the [module](self).
#[derive(Debug)]
pub struct Rendezvous {
    cycle: Cycle,
    means: Option<Means>,
    trial: Trial,
    /// The deadline, while a commit is held back.
    until: Option<Instant>,
}

/// The time from the end of a flush to the end of the next.
#[derive(Debug)]
struct Cycle {
    since: Instant,
    released: usize,
    early: usize,
    late: usize,
    last_early: Duration,
    started: Instant,
    /// Whether the decision was to wait, even if the trial then left the wait out.
    was_wait_due: bool,
}

#[derive(Clone, Copy, Debug)]
struct Means {
    /// The length of a flush in seconds.
    flush: f64,
    /// The fraction of a cohort that is early, from 0 to 1.
    returning: f64,
    /// The seconds from the end of a flush until the last early thread arrives.
    lag: f64,
    /// The number of late threads.
    late: f64,
}

impl Rendezvous {
    /// Creates a policy that has not seen any commits. It begins without waiting.
    ///
    /// # Panics
    /// If the target has no clock (`wasm32-unknown-unknown`).
    pub fn new() -> Self {
        Rendezvous::at(Instant::now())
    }

    /// Creates a policy at a given time, for models, which have no clock.
    #[doc(hidden)]
    pub fn at(now: Instant) -> Self {
        Rendezvous {
            cycle: Cycle::new(now, 0),
            means: None,
            trial: Trial::new(),
            until: None,
        }
    }

    /// Creates a policy that has learnt two facts: whole cohorts return at once, and waiting pays.
    ///
    /// For models: if `flush` is long, the decisions do not depend on the clock.
    #[doc(hidden)]
    pub fn learnt(now: Instant, flush: Duration) -> Self {
        Rendezvous {
            means: Some(Means {
                flush: flush.as_secs_f64(),
                returning: 1.0,
                lag: 0.0,
                late: 0.0,
            }),
            trial: Trial::waiting_for_good(),
            ..Rendezvous::at(now)
        }
    }

    /// Returns how many more threads are expected to arrive early.
    pub(crate) fn missing(&self) -> usize {
        let returning = self.means.map_or(0.0, |means| means.returning);
        let expected = (returning * self.cycle.released as f64).round() as usize;
        expected.saturating_sub(self.cycle.early)
    }

    /// Returns whether a commit is being held back.
    #[cfg(feature = "jbd2")]
    pub(crate) fn is_holding(&self) -> bool {
        self.until.is_some()
    }

    /// Notes that a thread has arrived to wait for a commit.
    #[doc(hidden)]
    pub fn arrived_at(&mut self, now: Instant) {
        let after = now.saturating_duration_since(self.cycle.since);
        let window = self.means.map_or(0.0, |means| means.flush * WINDOW);
        if after.as_secs_f64() < window {
            self.cycle.early += 1;
            self.cycle.last_early = after;
        } else {
            self.cycle.late += 1;
        }
    }

    /// Returns the time until which to hold a commit back, or `None` if it should start now.
    /// `waiting` threads wait for it.
    #[doc(hidden)]
    pub fn hold_at(&mut self, now: Instant, waiting: usize) -> Option<Instant> {
        let means = self.means?;
        let missing = self.missing();
        if missing == 0 {
            return None;
        }
        if let Some(until) = self.until {
            return (now < until).then_some(until);
        }
        let window = means.flush * WINDOW;
        let end = (2.0 * means.lag + window / 8.0).min(window);
        let gone = now
            .saturating_duration_since(self.cycle.since)
            .as_secs_f64();
        let wait = (means.lag - gone).max(window / 16.0);
        if window < LEAST_WINDOW || gone >= end || means.gain(missing, waiting, wait) <= 0.0 {
            return None;
        }
        self.cycle.was_wait_due = true;
        if !self.trial.says_wait() {
            return None;
        }
        self.until = Some(self.cycle.since + Duration::from_secs_f64(end));
        self.until
    }

    /// Notes that a commit starts.
    #[doc(hidden)]
    pub fn started_at(&mut self, now: Instant) {
        self.cycle.started = now;
        self.until = None;
    }

    /// Notes that a commit has ended, and that `released` threads are about to continue.
    #[doc(hidden)]
    pub fn finished_at(&mut self, now: Instant, released: usize) {
        let cycle = std::mem::replace(&mut self.cycle, Cycle::new(now, released));
        let took = now.saturating_duration_since(cycle.since).as_secs_f64();
        let flush = now.saturating_duration_since(cycle.started).as_secs_f64();
        let Some(means) = &mut self.means else {
            self.means = Some(Means {
                flush,
                returning: 0.0,
                lag: 0.0,
                late: 0.0,
            });
            return;
        };
        let took = took.min(LONGEST_CYCLE * means.flush);
        self.trial.cycle(cycle.was_wait_due, released, took);
        // A very long flush shows that the machine or the device stalled. It says little about the
        // next flush, so limit its weight.
        let most = 4.0 * means.flush;
        mean(&mut means.flush, flush.min(most));
        mean(&mut means.late, cycle.late as f64);
        if cycle.released > 0 {
            let part = cycle.early as f64 / cycle.released as f64;
            mean(&mut means.returning, part.min(1.0));
        }
        if cycle.early > 0 {
            mean(&mut means.lag, cycle.last_early.as_secs_f64());
        }
    }
}

impl Default for Rendezvous {
    fn default() -> Self {
        Rendezvous::new()
    }
}

impl Cycle {
    fn new(since: Instant, released: usize) -> Self {
        Cycle {
            since,
            released,
            early: 0,
            late: 0,
            last_early: Duration::ZERO,
            started: since,
            was_wait_due: false,
        }
    }
}

impl Means {
    /// Returns the time that all threads together save if `waiting` threads wait for `wait` seconds
    /// and `missing` threads arrive during that wait.
    fn gain(&self, missing: usize, waiting: usize, wait: f64) -> f64 {
        missing as f64 * (self.flush - wait) - (waiting as f64 + self.late) * wait
    }
}

fn mean(mean: &mut f64, newest: f64) {
    *mean += (newest - *mean) * NEWEST;
}

#[cfg(test)]
mod tests;
