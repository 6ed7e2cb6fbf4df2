//! The closed loop: each thread commits, waits until the commit is durable, thinks, and commits
//! again.

use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::meter::Meter;
use crate::measure::{self, Latencies};

/// The largest relative deviation of a pause from the think time, so that threads do not run in
/// lockstep.
const JITTER: f64 = 0.1;
/// The duration of the warm-up before a round, as a share of the round. It is not counted.
const WARM_UP: f64 = 0.1;

/// The load of one round.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// The number of threads that commit.
    pub threads: usize,
    /// The pause between two commits of a thread.
    pub think: Duration,
    /// The time that is counted.
    pub time: Duration,
}

/// The figures collected over several rounds.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Commits per second of each round.
    pub rounds: Vec<f64>,
    /// The time counted in all rounds.
    pub time: Duration,
    /// The latency of each commit.
    pub latencies: Latencies,
    /// The duration of each flush.
    pub flushes: Latencies,
}

impl Default for Figures {
    fn default() -> Self {
        Figures {
            rounds: Vec::new(),
            time: Duration::ZERO,
            latencies: measure::latencies(),
            flushes: measure::latencies(),
        }
    }
}

impl Figures {
    /// Returns the number of commits.
    pub fn commits(&self) -> u64 {
        self.latencies.len()
    }

    /// Returns the number of commits per second.
    pub fn per_second(&self) -> f64 {
        self.commits() as f64 / self.time.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Returns the number of commits per flush, or `None` if there was no flush.
    pub fn per_flush(&self) -> Option<f64> {
        let flushes = self.flushes.len();
        (flushes > 0).then(|| self.commits() as f64 / flushes as f64)
    }
}

/// Repeats `commit`, which receives the thread's number, on each thread, and adds to the figures.
/// Commits that end after the warm-up are counted. `counted` is called when the counted time begins
/// and when it ends.
///
/// # Errors
/// A thread cannot be started, or a commit fails.
pub fn round(
    load: Load,
    commit: impl Fn(usize) -> Result<()> + Sync,
    meters: &[&Meter],
    mut counted: impl FnMut(),
    figures: &mut Figures,
) -> Result<()> {
    let from = Instant::now() + load.time.mul_f64(WARM_UP);
    let end = from + load.time;
    for meter in meters {
        meter.count(from..end);
    }
    let commit = &commit;
    let done = std::thread::scope(|scope| {
        let threads: Result<Vec<_>> = (0..load.threads)
            .map(|it| measure::spawn(scope, it, move || work(load, from..end, || commit(it))))
            .collect();
        for time in [from, end] {
            std::thread::sleep(time.saturating_duration_since(Instant::now()));
            counted();
        }
        let done = threads?.into_iter().map(measure::joined);
        done.collect::<Result<Vec<_>>>()
    })?;
    for meter in meters {
        figures.flushes += meter.took();
    }
    let before = figures.commits();
    for latencies in done {
        figures.latencies += latencies;
    }
    figures.time += load.time;
    let commits = figures.commits() - before;
    (figures.rounds).push(commits as f64 / load.time.as_secs_f64());
    Ok(())
}

/// Runs one thread's share. Returns the latencies of the counted commits.
fn work(load: Load, counted: Range<Instant>, commit: impl Fn() -> Result<()>) -> Result<Latencies> {
    let mut latencies = measure::latencies();
    loop {
        let began = Instant::now();
        if began >= counted.end {
            return Ok(latencies);
        }
        commit()?;
        let now = Instant::now();
        if counted.contains(&now) {
            measure::record(&mut latencies, now - began);
        }
        if !load.think.is_zero() && now < counted.end {
            let part = 1.0 + JITTER * (2.0 * fastrand::f64() - 1.0);
            std::thread::sleep(load.think.mul_f64(part));
        }
    }
}
