//! The results of a run, row by row.

use serde::{Deserialize, Serialize};

use super::drive::Measured;
use super::work::Work;
use crate::measure::{Latencies, median};
use crate::target::Target;

/// The result of a contestant with a number of threads. Times are in nanoseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The case's name.
    pub case: String,
    /// `packed` or `region`, or what was measured in place of a store: `space`, `raw`, `files`,
    /// `files-synced`, `local-file-system` or `local-file-system-synced`.
    pub layout: &'static str,
    /// The store's mode; `None` if it is none.
    pub mode: Option<&'static str>,
    /// The device's name.
    pub device: &'static str,
    /// The number of threads.
    pub threads: usize,
    /// Objects, files, vectors, writes or reads per second of all threads together: the median of
    /// the rounds.
    pub per_s: f64,
    /// The bytes of a write or read.
    #[serde(skip)]
    pub bytes: Option<usize>,
    /// MiB per second, for writes and reads.
    pub mib_per_s: Option<f64>,
    /// `per_s` divided by that of durable files on the disk with as many threads, for creations and
    /// puts; by that of batches with one vector, for batches.
    pub ratio: Option<f64>,
    /// `per_s` divided by that of files that are not flushed on the same device, for creations and
    /// puts.
    pub to_not_durable: Option<f64>,
    /// `per_s` divided by that of creations without the optimisation.
    pub to_off: Option<f64>,
    /// `per_s` divided by that of the layout `region`, in rows of the layout `packed`.
    pub to_region: Option<f64>,
    /// `per_s` divided by that of raw bytes, for writes and reads.
    pub to_raw: Option<f64>,
    /// What the paper has for the one of these ratios that it states.
    pub paper: Option<f64>,
    /// The median latency, of a batch in the case of vectors.
    pub p50_ns: u64,
    /// The 99th percentile of the latencies.
    pub p99_ns: u64,
    /// The longest latency.
    pub max_ns: u64,
    /// Checkpoints that the store made meanwhile.
    pub checkpoints: u64,
    /// `per_s` of each round.
    pub rounds: Vec<f64>,
    /// The targets of this row.
    #[serde(skip_deserializing)]
    pub targets: Vec<Target>,
}

impl Row {
    /// Returns a row without figures.
    pub(super) fn empty(work: &Work, device: &'static str, threads: usize) -> Self {
        Row {
            case: work.case(),
            layout: work.layout(),
            mode: work.mode(),
            device,
            threads,
            per_s: 0.0,
            bytes: work.bytes(),
            mib_per_s: None,
            ratio: None,
            to_not_durable: None,
            to_off: None,
            to_region: None,
            to_raw: None,
            paper: None,
            p50_ns: 0,
            p99_ns: 0,
            max_ns: 0,
            checkpoints: 0,
            rounds: Vec::new(),
            targets: Vec::new(),
        }
    }

    /// Adds a round.
    pub(super) fn add(&mut self, measured: &Measured, latencies: &mut Latencies) {
        self.rounds.push(measured.per_s);
        self.checkpoints += measured.checkpoints;
        *latencies += &measured.latencies;
    }

    /// Fills in what follows from all rounds.
    pub(super) fn finish(&mut self, latencies: &Latencies) {
        self.per_s = median(&self.rounds);
        let mebibytes = |bytes| self.per_s * bytes as f64 / f64::from(1 << 20);
        self.mib_per_s = self.bytes.map(mebibytes);
        self.p50_ns = latencies.value_at_quantile(0.5);
        self.p99_ns = latencies.value_at_quantile(0.99);
        self.max_ns = latencies.max();
    }
}
