//! The results of a run, row by row.

use serde::{Deserialize, Serialize};

use super::drive::Measured;
use super::meter::{TIMED, Timed};
#[cfg(test)]
use super::work::CASES;
use super::work::Case;
use crate::measure::{self, Latencies, median};
use crate::papers::published::Said;
use crate::target::Target;

/// The result of a system with a number of threads. Times are in nanoseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The case's name.
    pub case: &'static str,
    /// The system's name, or in the case of lookups that of the latch.
    pub system: &'static str,
    /// `disk` or `disk-direct`.
    pub device: &'static str,
    /// The number of threads.
    pub threads: usize,
    /// Operations per second of all threads together: the median of the rounds. An operation is a
    /// write, in `dwsl` and `checkpoint` with its `fsync`; one of Filebench's; or a lookup.
    pub per_s: f64,
    /// `per_s` divided by that of the baseline, or of exclusive latches.
    pub ratio: Option<f64>,
    /// What the paper has for `ratio` on its smaller machine.
    pub paper_ratio: Option<f64>,
    /// Writes. In `oltp`, each until it is durable.
    pub write: Option<Times>,
    /// Reads.
    pub read: Option<Times>,
    /// Calls of `fsync`.
    pub fsync: Option<Times>,
    /// Checkpoints.
    pub checkpoint: Option<Times>,
    /// The longest write that a checkpoint overlapped.
    pub stall_ns: Option<u64>,
    /// `stall_ns` divided by the baseline's.
    pub stall_ratio: Option<f64>,
    /// Bytes of nodes and of their address table that were made durable, for each `fsync`.
    pub bytes_per_fsync: Option<f64>,
    /// The same divided by the baseline's.
    pub bytes_ratio: Option<f64>,
    /// The time of a lookup divided by that of a write.
    pub lookup_share: Option<f64>,
    /// `per_s` of each round.
    pub rounds: Vec<f64>,
    /// The papers' figures that have their counterpart in this row.
    #[serde(skip_deserializing)]
    pub paper: Vec<Beside>,
    /// The targets of this row.
    #[serde(skip_deserializing)]
    pub targets: Vec<Target>,
}

/// How long an operation takes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Times {
    /// Operations per second of all threads together.
    pub per_s: f64,
    /// The average.
    pub mean_ns: f64,
    /// The 99th percentile.
    pub p99_ns: u64,
    /// The longest time.
    pub max_ns: u64,
    /// Some of the times in ascending order, each with the share of the operations that took no
    /// longer.
    #[serde(skip)]
    pub shares: Vec<(u64, f64)>,
}

/// A figure of a paper, and that of this run.
#[derive(Clone, Debug, Serialize)]
pub struct Beside {
    /// Where it is.
    pub source: String,
    /// What it is.
    pub about: &'static str,
    /// The paper's, as a ratio to its baseline, or as a share. `None` if it has a plot without
    /// numbers.
    pub said: Option<f64>,
    /// This run's. `None` if what it is compared with was not measured.
    pub here: Option<f64>,
    /// Why they differ.
    pub differs_because: &'static str,
    /// The row of the list of published numbers.
    #[serde(skip)]
    pub entry: &'static Said,
}

/// All rounds of a row.
#[derive(Default)]
pub(super) struct Sums {
    rounds: Vec<f64>,
    seconds: f64,
    times: [Option<Latencies>; TIMED],
    stall_ns: Option<u64>,
    bytes_per_fsync: Vec<f64>,
    lookup_shares: Vec<f64>,
}

impl Sums {
    /// Adds a round.
    pub(super) fn add(&mut self, measured: Measured) {
        self.rounds.push(measured.per_s);
        self.seconds += measured.seconds;
        for (sum, its) in self.times.iter_mut().zip(&measured.times) {
            *sum.get_or_insert_with(measure::latencies) += its;
        }
        let stall = measured.stall.map(|it| it.as_nanos() as u64);
        self.stall_ns = self.stall_ns.max(stall);
        self.bytes_per_fsync.extend(measured.bytes_per_fsync);
        self.lookup_shares.extend(measured.lookup_share);
    }

    /// Returns the row, without what follows from comparing it with others.
    pub(super) fn row(self, case: &Case, system: &'static str, threads: usize) -> Row {
        let times = |of: Timed| {
            let times = self.times[of as usize].as_ref();
            let times = times.filter(|it| !it.is_empty());
            times.map(|it| Times::new(it, self.seconds))
        };
        let middle = |all: &[f64]| (!all.is_empty()).then(|| median(all));
        Row {
            case: case.name,
            system,
            device: case.device(),
            threads,
            per_s: median(&self.rounds),
            ratio: None,
            paper_ratio: None,
            write: times(Timed::Write),
            read: times(Timed::Read),
            fsync: times(Timed::Fsync),
            checkpoint: times(Timed::Checkpoint),
            stall_ns: self.stall_ns,
            stall_ratio: None,
            bytes_per_fsync: middle(&self.bytes_per_fsync),
            bytes_ratio: None,
            lookup_share: middle(&self.lookup_shares),
            rounds: self.rounds,
            paper: Vec::new(),
            targets: Vec::new(),
        }
    }
}

impl Times {
    fn new(latencies: &Latencies, seconds: f64) -> Self {
        let count = latencies.len() as f64;
        let mut before = 0;
        let shares = latencies.iter_quantiles(8).map(|it| {
            before += it.count_since_last_iteration();
            (it.value_iterated_to(), before as f64 / count)
        });
        Times {
            per_s: count / seconds,
            mean_ns: latencies.mean(),
            p99_ns: latencies.value_at_quantile(0.99),
            max_ns: latencies.max(),
            shares: shares.collect(),
        }
    }
}

#[cfg(test)]
impl Row {
    /// Returns a row with little in it.
    pub(super) fn of_test(case: &str, system: &'static str, threads: usize, per_s: f64) -> Self {
        let case = CASES.iter().find(|it| it.name == case);
        let sums = Sums {
            rounds: vec![per_s],
            ..Sums::default()
        };
        sums.row(case.expect("there is one"), system, threads)
    }
}
