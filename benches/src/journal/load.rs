//! The closed loop: each thread commits, waits until it is durable, thinks, and commits again.

use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::Result;

use super::meter::Meter;
use crate::measure::{self, Latencies};

/// How far a pause is from the think time, at most: nobody thinks like a clock.
const JITTER: f64 = 0.1;
/// Of a round, what does not count.
const WARM_UP: f64 = 0.1;

/// One round of one contestant.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// That commit.
    pub threads: usize,
    /// Between a commit and the next.
    pub think: Duration,
    /// That count.
    pub time: Duration,
}

/// What rounds have come to.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Commits a second, of each round.
    pub rounds: Vec<f64>,
    /// That counted, of all rounds.
    pub time: Duration,
    /// Of each commit.
    pub latencies: Latencies,
    /// Of each flush.
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
    /// Commits.
    pub fn commits(&self) -> u64 {
        self.latencies.len()
    }

    /// Commits a second.
    pub fn per_second(&self) -> f64 {
        self.commits() as f64 / self.time.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Commits a flush; `None` if there was no flush.
    pub fn per_flush(&self) -> Option<f64> {
        let flushes = self.flushes.len();
        (flushes > 0).then(|| self.commits() as f64 / flushes as f64)
    }
}

/// Runs `commit`, which is given the thread's number, on each thread again and again, and adds to the figures. Counted is what ends after a tenth of the
/// time to warm up; `counted` is called when that begins, and when it ends.
///
/// # Errors
/// A thread cannot be started; the first error of a commit.
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

/// One thread's part: the latencies of the commits that count.
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
