//! The rendezvous: a commit waits briefly for the threads that the previous commit woke.
//!
//! Both the compact log ([`Group`](crate::compact::group::Group)) and the journal of blocks
//! ([`Gathering`](crate::jbd2::raw::gathering::Gathering)) use this policy. It contains neither
//! locks nor sleeps. "Flush" below means the flush of a batch, or the whole commit of a
//! transaction.
//!
//! # The problem
//! After a flush, the threads it woke, its *cohort*, leave and return with new records. A thread
//! that returns first, or was waiting already, could start the next flush at once; the rest of the
//! cohort then waits for two flushes. Or it could wait for the rest, which delays the threads that
//! are present.
//!
//! The better choice depends on how soon the cohort returns, and how much of it. That in turn
//! depends on the work between commits (the *think time*), on the number of threads, and on the
//! length of a flush.
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
//! JBD2's piggyback rests on the same idea without a measurement: it sleeps a fixed time for any
//! thread that may come. Cui, "An Efficient Journaling Mechanism in Lustre File System for Fast
//! Storage Devices", 2018, §3.2, switches it off.
//!
//! # The decision
//! The policy counts arrivals whether it waits or not. A thread that arrives within a quarter of a
//! flush after the last flush (the *window*) is early; the others are late. The policy keeps three
//! moving means: the fraction of a cohort that is early, the time at which the last early thread
//! arrives, and the number of late threads. It holds a commit back if
//!
//! > missing × (flush − wait) > (waiting + late) × wait
//!
//! The left side is the time saved by the missing threads: a flush each, less the wait. The right
//! side is the time lost by the threads that wait, and by those that come too late and find the
//! flush delayed. For independent arrivals the right side is always larger; for threads that return
//! at once the left side is.
//!
//! The hold ends when the expected number of threads has arrived. It lasts no longer than about
//! twice the usual time, and never beyond the end of the window.
//!
//! # The trial
//! A prediction can be wrong, so a *trial* checks it (`trial.rs`):
//!
//! ```text
//!   part 0: as it is ──16 flushes──► part 1: the other way ──4 + 16──► part 2: as it is
//!     ▲                                       │ clear result                 │ 4 + 16
//!     │                                       ▼                              ▼
//!     └──── 64 to 4096 waits later ──── settled: waits, or does not ◄───── judge
//! ```
//!
//! At first the policy does not wait and only counts when it would have. After some sixteen flushes
//! it makes the waits, for about twenty more. If that brings at least a tenth more commits per
//! second than the flushes before and after, it keeps waiting.
//!
//! Later it tries the other way from time to time: at first after 64 waits, made or left out. Each
//! time a trial confirms the current way, that number grows fourfold, up to 4096. A clear result
//! ends a trial early.
//!
//! # Not guaranteed
//! - Threads that return after more than a quarter of a flush are never waited for, although
//!   waiting could pay for think times up to about half a flush.
//! - No commit waits if flushes take less than 120 µs: a sleep cannot be that short.
//! - A gain of less than a tenth is not pursued.

use std::time::{Duration, Instant};

mod trial;

use trial::Trial;

/// The window, as a fraction of a flush. No wait lasts longer after the last flush.
const WINDOW: f64 = 0.25;
/// The shortest usable window in seconds. Linux ends a sleep some 50 µs late, so much shorter
/// sleeps are impossible.
const LEAST_WINDOW: f64 = 30e-6;
/// The weight of the newest value in a moving mean.
const NEWEST: f64 = 0.125;
/// The longest time, in flushes, that a trial counts from the end of one flush to the end of the
/// next. A longer pause has another cause.
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
    /// Waiting seemed right, whether or not it was left out.
    was_wait_due: bool,
}

#[derive(Clone, Copy, Debug)]
struct Means {
    /// The length of a flush in seconds.
    flush: f64,
    /// The fraction of a cohort that is early, from 0 to 1.
    returning: f64,
    /// The seconds until its last early thread arrives.
    lag: f64,
    /// The number of late threads.
    late: f64,
}

impl Rendezvous {
    /// Creates a policy that has seen nothing, and does not wait until it has.
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

    /// Creates a policy that has learnt that whole cohorts return at once, and that waiting pays.
    ///
    /// For models: if `flush` is long, it decides the same whatever the clock says.
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
        // A flush that lasts long because the machine or the device stalled says little about the
        // next.
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
    /// Returns the time that all threads together save if `waiting` threads wait for `wait`
    /// seconds, and `missing` threads arrive meanwhile.
    fn gain(&self, missing: usize, waiting: usize, wait: f64) -> f64 {
        missing as f64 * (self.flush - wait) - (waiting as f64 + self.late) * wait
    }
}

fn mean(mean: &mut f64, newest: f64) {
    *mean += (newest - *mean) * NEWEST;
}

#[cfg(test)]
mod tests;
