//! What a run comes to, row by row.

use serde::Serialize;

use super::load::Figures;
use super::targets::Target;
use crate::measure::Latencies;

/// The closed loop of small commits.
pub const COMMIT: &str = "commit";

/// A contestant under one load, measured.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// [`COMMIT`], or a [pattern of the thesis](super::thesis).
    pub workload: &'static str,
    /// Its name.
    pub contestant: &'static str,
    /// Crate and version of what others make.
    pub version: Option<String>,
    /// The device's name.
    pub device: &'static str,
    /// That commit.
    pub threads: usize,
    /// Between two commits of a thread, in flushes; `None` if the workload has none.
    pub think: Option<f64>,
    /// Commits that became durable a second, of all threads together.
    pub commits_per_s: f64,
    /// Of the flushes and durable writes that the contestant made meanwhile, for whatever; `None` if it made none.
    pub commits_per_flush: Option<f64>,
    /// From the call until it returned, in microseconds: half of them took at most so long. `None` if none ended while it was measured.
    pub p50_us: Option<f64>,
    /// 99 of 100 took at most so long.
    pub p99_us: Option<f64>,
    /// Median of this row's own flushes, in microseconds.
    pub flush_us: Option<f64>,
    /// Commits a second of each round.
    pub rounds: Vec<f64>,
    /// Of a pattern of the thesis.
    pub transfers: Option<Transfers>,
    /// What this row is to reach.
    pub targets: Vec<Target>,
}

/// What a pattern of the thesis has besides: each commit is one write of a client.
#[derive(Clone, Debug, Serialize)]
pub struct Transfers {
    /// Bytes of a write.
    pub block_bytes: u64,
    /// 10⁶ bytes a second, of all clients together.
    pub mb_per_s: f64,
    /// Transactions for each write: at most one.
    pub transactions_per_write: Option<f64>,
    /// Percent of the transactions' time in which a commit waited for handles to leave.
    pub startup_delay: Option<f64>,
}

/// Which row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// The contestant's name.
    pub contestant: &'static str,
    /// The device's name.
    pub device: &'static str,
    /// How many.
    pub threads: usize,
    /// In flushes.
    pub think: f64,
}

impl Row {
    /// The row of these figures.
    pub fn new(
        workload: &'static str,
        (contestant, version): (&'static str, Option<String>),
        device: &'static str,
        (threads, think): (usize, Option<f64>),
        figures: &Figures,
    ) -> Self {
        Row {
            workload,
            contestant,
            version,
            device,
            threads,
            think,
            commits_per_s: figures.per_second(),
            commits_per_flush: figures.per_flush(),
            p50_us: micros(&figures.latencies, 0.5),
            p99_us: micros(&figures.latencies, 0.99),
            flush_us: micros(&figures.flushes, 0.5),
            rounds: figures.rounds.clone(),
            transfers: None,
            targets: Vec::new(),
        }
    }

    /// Which it is, if it is of the closed loop.
    pub fn place(&self) -> Option<Place> {
        let think = self.think.filter(|_| self.workload == COMMIT)?;
        Some(Place {
            contestant: self.contestant,
            device: self.device,
            threads: self.threads,
            think,
        })
    }

    /// Half of the commits took at most so many of its own flushes.
    pub fn p50_flushes(&self) -> Option<f64> {
        Some(self.p50_us? / self.flush_us?)
    }
}

/// The row at a place.
pub fn find(rows: &[Row], place: Place) -> Option<&Row> {
    rows.iter().find(|row| row.place() == Some(place))
}

fn micros(latencies: &Latencies, quantile: f64) -> Option<f64> {
    let at = || latencies.value_at_quantile(quantile) as f64 / 1e3;
    (!latencies.is_empty()).then(at)
}
