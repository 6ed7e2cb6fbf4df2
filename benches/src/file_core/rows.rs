//! The results of a run, row by row.

use serde::{Deserialize, Serialize};

use super::drive::{Exact, Measured};
use super::limit::Bare;
use crate::measure::{Latencies, median};
use crate::target::Target;

/// The result of a case with a lock and a number of threads. Times are in nanoseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The case's name.
    pub case: &'static str,
    /// The lock's name, or `limit` or `copy` for the [bare work](super::limit).
    pub lock: &'static str,
    /// The number of threads.
    pub threads: usize,
    /// Operations per second of all threads together: the median of the rounds.
    pub ops_per_s: f64,
    /// `ops_per_s` divided by the limit's with the same number of threads. `None` if the case has
    /// no limit.
    pub to_limit: Option<f64>,
    /// `ops_per_s` divided by that of one thread with the same lock. `None` if that was not
    /// measured.
    pub to_one_thread: Option<f64>,
    /// The fastest whole-file lock in this case with as many threads. `None` if none was measured.
    pub whole_file: Option<&'static str>,
    /// `ops_per_s` divided by that lock's.
    pub to_whole_file: Option<f64>,
    /// Lines of 64 bytes that an operation usually flushes. Streamed bytes need no flush.
    pub flushes: u64,
    /// Fences that an operation usually takes.
    pub fences: u64,
    /// The most lines that one operation flushed.
    pub most_flushes: u64,
    /// The most fences that one operation took.
    pub most_fences: u64,
    /// The median latency.
    pub p50_ns: u64,
    /// The 99th percentile of the latencies.
    pub p99_ns: u64,
    /// The longest latency.
    pub max_ns: u64,
    /// Cleanings during the rounds that copied what was live in a log.
    pub cleanings: u64,
    /// Log pages that cleanings unlinked during the rounds.
    pub unlinked_pages: u64,
    /// Operations per second of each round.
    pub rounds: Vec<f64>,
    /// The targets of this row.
    #[serde(skip_deserializing)]
    pub targets: Vec<Target>,
}

impl Row {
    /// Returns whether the row shows the bare work, without a file core.
    pub fn is_bare(&self) -> bool {
        Bare::ALL.iter().any(|it| it.name() == self.lock)
    }

    /// Returns a row without figures.
    pub(super) fn empty(case: &'static str, lock: &'static str, threads: usize) -> Self {
        Row {
            case,
            lock,
            threads,
            ops_per_s: 0.0,
            to_limit: None,
            to_one_thread: None,
            whole_file: None,
            to_whole_file: None,
            flushes: 0,
            fences: 0,
            most_flushes: 0,
            most_fences: 0,
            p50_ns: 0,
            p99_ns: 0,
            max_ns: 0,
            cleanings: 0,
            unlinked_pages: 0,
            rounds: Vec::new(),
            targets: Vec::new(),
        }
    }
}

impl Row {
    /// Adds a round.
    pub(super) fn add(&mut self, measured: &Measured, latencies: &mut Latencies) {
        self.rounds.push(measured.ops_per_s);
        self.cleanings += measured.cleanings;
        self.unlinked_pages += measured.unlinked_pages;
        *latencies += &measured.latencies;
    }

    /// Fills in what follows from all rounds.
    pub(super) fn finish(&mut self, latencies: &Latencies, exact: Exact) {
        self.ops_per_s = median(&self.rounds);
        self.p50_ns = latencies.value_at_quantile(0.5);
        self.p99_ns = latencies.value_at_quantile(0.99);
        self.max_ns = latencies.max();
        (self.flushes, self.fences) = (exact.usual.flushes, exact.usual.fences);
        (self.most_flushes, self.most_fences) = (exact.most.flushes, exact.most.fences);
    }
}
