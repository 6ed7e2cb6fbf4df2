//! The rendezvous: a leader that waits briefly for the threads that the last flush woke.
//!
//! # The problem
//! After a flush its *cohort* goes off and comes back with new records. Who is there first, or was waiting already, can start the next flush at once, and
//! then the rest of the cohort waits for two; or it waits for the rest, and delays those who are there. Which is better depends on how soon the cohort
//! comes back, and how much of it: on what the threads do between commits (their *think time*), on how many there are, and on how long a flush takes.
//!
//! ```text
//!   four threads that only commit; each line a thread, ▒ waits, █ is being flushed
//!
//!      at once                                   rendezvous
//!   1  ████████▒▒▒▒▒▒▒▒████████▒▒▒▒▒▒▒▒          ████████▒████████▒████████▒
//!   2  ████████▒▒▒▒▒▒▒▒████████▒▒▒▒▒▒▒▒          ████████▒████████▒████████▒
//!   3  ▒▒▒▒▒▒▒▒████████▒▒▒▒▒▒▒▒████████          ████████▒████████▒████████▒
//!   4  ▒▒▒▒▒▒▒▒████████▒▒▒▒▒▒▒▒████████          ████████▒████████▒████████▒
//!      2 records a flush, two flushes each       4 records a flush, a little more than one each
//! ```
//!
//! The piggyback of JBD2 is the same thought without a measurement: it sleeps a fixed time for whoever may come (Cui, "An Efficient Journaling Mechanism in Lustre File
//! System for Fast Storage Devices", 2018, §3.2, switches it off).
//!
//! # How it decides
//! It counts whether it waits or not: who comes within a quarter of a flush after the last one (the *window*) was early, the others late. From that, as moving means:
//! the part of a cohort that is early, when the last of it comes, and how many are late. A leader is held if
//!
//! > those missing × (flush − wait) > (those waiting + those late) × wait
//!
//! on the left what those save who are waited for (a flush, less what is waited), on the right what those lose who are delayed: those who wait, and those who come too late and find
//! the flush so much later. For a stream of independent arrivals the right side is always larger, for threads that come back at once the left one.
//! It is held until as many have come as were expected, at most to the end of the window, and no longer than twice the usual time.
//!
//! A prediction can be wrong, so it is put to the *trial* (`trial.rs`). At first it waits for nobody, and only counts when it would have. After some sixteen flushes it makes the waits, for about
//! twenty more; and if that brings at least a tenth more commits a second than those before and after, it goes on. Later it tries the other way from time to time, whichever that is: after 64
//! waits (made, or left out), and after four times as many each time that a trial says the same, up to 4096. What is clear sooner ends a trial sooner.
//!
//! # Not promised
//! - A part of a cohort that comes back after more than a quarter of a flush is never waited for, though it could pay (it would at think times up to about half a flush).
//! - Nobody is waited for on devices whose flushes take less than 120 µs: a sleep that short is not to be had.
//! - What brings less than a tenth is left.

use std::time::{Duration, Instant};

mod trial;

use trial::Trial;

/// A part of a flush: waits end so much after the last one at the latest.
const WINDOW: f64 = 0.25;
/// Seconds that a window has at least: a sleep much shorter is not to be had, Linux ends one some 50 µs late.
const LEAST_WINDOW: f64 = 30e-6;
/// The weight of the newest in a moving mean.
const NEWEST: f64 = 0.125;
/// From the end of a flush to the end of the next a trial counts so many flushes at most: a pause of the program or the machine is nobody's fault.
const LONGEST_CYCLE: f64 = 3.0;

/// Waits for the cohort that was just woken where that has paid. See the module.
#[derive(Debug)]
pub struct Rendezvous {
    cycle: Cycle,
    means: Option<Means>,
    trial: Trial,
    /// Until when somebody waits.
    until: Option<Instant>,
}

/// From the end of a flush to the end of the next.
#[derive(Debug)]
struct Cycle {
    since: Instant,
    released: usize,
    early: usize,
    late: usize,
    last_early: Duration,
    started: Instant,
    /// Waiting seemed right, whether it was left out or not.
    was_wait_due: bool,
}

#[derive(Clone, Copy, Debug)]
struct Means {
    /// Seconds of a flush.
    flush: f64,
    /// The part of a cohort that is early, from 0 to 1.
    returning: f64,
    /// Seconds after which the last of them comes.
    lag: f64,
    /// How many are late.
    late: f64,
}

impl Rendezvous {
    /// Knows nothing, and waits for nobody until it does.
    pub fn new() -> Self {
        Rendezvous::at(Instant::now())
    }

    /// As [`new`](Self::new), at a time that is given. For models, which have no clock.
    #[doc(hidden)]
    pub fn at(now: Instant) -> Self {
        Rendezvous {
            cycle: Cycle::new(now, 0),
            means: None,
            trial: Trial::new(),
            until: None,
        }
    }

    /// Returns a policy that has learnt that whole cohorts return at once, and that waiting pays.
    ///
    /// For models: it decides the same whatever the clock says, as long as `flush` is long.
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

    /// Returns how many more threads are expected to be early.
    pub(crate) fn missing(&self) -> usize {
        let returning = self.means.map_or(0.0, |means| means.returning);
        let expected = (returning * self.cycle.released as f64).round() as usize;
        expected.saturating_sub(self.cycle.early)
    }

    /// Returns whether a commit is being held back.
    pub(crate) fn is_holding(&self) -> bool {
        self.until.is_some()
    }

    /// [`Gather::arrived`], at a time that is given. For models, which have no clock.
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

    /// [`Gather::hold`], at a time that is given. For models, which have no clock.
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

    /// [`Gather::started`], at a time that is given. For models, which have no clock.
    #[doc(hidden)]
    pub fn started_at(&mut self, now: Instant) {
        self.cycle.started = now;
        self.until = None;
    }

    /// [`Gather::finished`], at a time that is given. For models, which have no clock.
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
        // One that took for ever, because the machine or the device stood still, says little about the next.
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
    /// What all together save if `waiting` threads wait for so many seconds, and `missing` come by it.
    fn gain(&self, missing: usize, waiting: usize, wait: f64) -> f64 {
        missing as f64 * (self.flush - wait) - (waiting as f64 + self.late) * wait
    }
}

fn mean(mean: &mut f64, newest: f64) {
    *mean += (newest - *mean) * NEWEST;
}

#[cfg(test)]
mod tests;
