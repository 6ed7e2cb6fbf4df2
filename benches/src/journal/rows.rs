//! The results of a run, row by row.

use serde::{Deserialize, Serialize};

use super::load::Figures;
use crate::measure::Latencies;
use crate::target::Target;

/// The closed loop of small commits.
pub const COMMIT: &str = "commit";
/// The closed loop of commits of several blocks, without think time.
pub const BLOCKS: &str = "blocks";
/// How many blocks a commit of [`BLOCKS`] changes.
pub const COUNTS: [u64; 3] = [1, 16, 64];

/// The result of a contestant under one load.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// [`COMMIT`], [`BLOCKS`], or a [pattern of the thesis](super::thesis).
    pub workload: &'static str,
    /// The contestant's name.
    pub contestant: &'static str,
    /// The crate's name and version if the contestant is another project's log.
    pub version: Option<String>,
    /// The device's name.
    pub device: &'static str,
    /// The number of threads that commit.
    pub threads: usize,
    /// The think time between two commits of a thread, in flushes. `None` if the workload has none.
    pub think: Option<f64>,
    /// How many blocks a block journal changes in a commit. `None` for a pattern of the thesis.
    pub blocks: Option<u64>,
    /// Durable commits per second of all threads together.
    pub commits_per_s: f64,
    /// Commits per flush. All flushes and durable writes that the contestant makes during the
    /// measurement count. `None` if it made none.
    pub commits_per_flush: Option<f64>,
    /// The median latency of a commit, from call to return, in microseconds. `None` if no commit
    /// ended during the measurement.
    pub p50_us: Option<f64>,
    /// The 99th percentile of the latency, in microseconds.
    pub p99_us: Option<f64>,
    /// The median duration of this row's own flushes, in microseconds.
    pub flush_us: Option<f64>,
    /// Commits per second of each round.
    pub rounds: Vec<f64>,
    /// Further figures of a pattern of the thesis.
    pub transfers: Option<Transfers>,
    /// The targets of this row.
    #[serde(skip_deserializing)]
    pub targets: Vec<Target>,
}

/// Further figures of a pattern of the thesis, in which each commit is one write of a client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Transfers {
    /// Bytes per write.
    pub block_bytes: u64,
    /// Megabytes (10⁶ bytes) per second of all clients together.
    pub mb_per_s: f64,
    /// Transactions per write; at most one.
    pub transactions_per_write: Option<f64>,
    /// The percentage of the transactions' time in which a commit waited for open handles to be
    /// closed.
    pub startup_delay: Option<f64>,
}

/// The identity of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// [`COMMIT`] or [`BLOCKS`].
    pub workload: &'static str,
    /// The contestant's name.
    pub contestant: &'static str,
    /// The device's name.
    pub device: &'static str,
    /// The number of threads.
    pub threads: usize,
    /// The think time in flushes.
    pub think: f64,
    /// How many blocks a commit changes.
    pub blocks: u64,
}

impl Row {
    /// Creates a row from these figures.
    pub fn new(
        workload: &'static str,
        (contestant, version): (&'static str, Option<String>),
        device: &'static str,
        (threads, think, blocks): (usize, Option<f64>, Option<u64>),
        figures: &Figures,
    ) -> Self {
        Row {
            workload,
            contestant,
            version,
            device,
            threads,
            think,
            blocks,
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

    /// Returns the row's identity, if it belongs to a closed loop.
    pub fn place(&self) -> Option<Place> {
        let (think, blocks) = self.think.zip(self.blocks)?;
        Some(Place {
            workload: self.workload,
            contestant: self.contestant,
            device: self.device,
            threads: self.threads,
            think,
            blocks,
        })
    }

    /// Returns the median latency of a commit in units of the row's own flushes.
    pub fn p50_flushes(&self) -> Option<f64> {
        Some(self.p50_us? / self.flush_us?)
    }
}

/// Returns the row with this identity.
pub fn find(rows: &[Row], place: Place) -> Option<&Row> {
    rows.iter().find(|row| row.place() == Some(place))
}

fn micros(latencies: &Latencies, quantile: f64) -> Option<f64> {
    let at = || latencies.value_at_quantile(quantile) as f64 / 1e3;
    (!latencies.is_empty()).then(at)
}
