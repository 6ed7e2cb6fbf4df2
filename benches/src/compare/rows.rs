//! The results of a run, row by row.

use serde::{Deserialize, Serialize};

use crate::locks;
use crate::measure::{self, Round, median};
use crate::target::Target;

/// The result for a cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The workload's name.
    pub workload: &'static str,
    /// The lock's name.
    pub lock: &'static str,
    /// The number of threads.
    pub threads: usize,
    /// Operations per second of all threads together: the median of the rounds.
    pub ops_per_s: f64,
    /// Megabytes (10⁶ bytes) per second of all threads together: the median of the rounds.
    pub mb_per_s: f64,
    /// The median latency of the sampled operations of all rounds, in nanoseconds.
    pub p50_ns: u64,
    /// The 99th percentile of these latencies.
    pub p99_ns: u64,
    /// The longest of these latencies.
    pub max_ns: u64,
    /// Whether the lock is in this project's registry.
    pub ours: bool,
    /// The fastest whole-file lock in this workload with this number of threads: the baseline.
    /// `None` if no whole-file lock was measured.
    pub baseline: Option<&'static str>,
    /// `ops_per_s` divided by the baseline's, rounded to thousandths. `None` without a baseline.
    pub ratio: Option<f64>,
    /// The targets of this row.
    #[serde(skip_deserializing)]
    pub targets: Vec<Target>,
    /// Operations per second of each round.
    pub rounds: Vec<f64>,
}

impl Row {
    /// Returns whether this lock is one of ours and the baseline is faster.
    pub fn is_loss(&self) -> bool {
        self.ours && self.ratio.is_some_and(|ratio| ratio < 1.0)
    }
}

/// Compares rows of one workload and one number of threads with the fastest whole-file lock.
pub(super) fn fill_in_ratios(rows: &mut [Row]) {
    let whole_file = rows
        .iter()
        .filter(|row| locks::contestant(row.lock).whole_file);
    let fastest = whole_file.max_by(|a, b| a.ops_per_s.total_cmp(&b.ops_per_s));
    let Some((baseline, ops_per_s)) = fastest.map(|row| (row.lock, row.ops_per_s)) else {
        return;
    };
    for row in rows {
        row.baseline = Some(baseline);
        let ratio = (ops_per_s > 0.0).then(|| row.ops_per_s / ops_per_s);
        row.ratio = ratio.map(|it| (it * 1000.0).round() / 1000.0);
    }
}

fn median_ops(rounds: &[Round]) -> f64 {
    let ops: Vec<f64> = rounds.iter().map(|round| round.ops_per_s).collect();
    median(&ops)
}

pub(super) fn summary(
    workload: &'static str,
    lock: &'static str,
    threads: usize,
    rounds: &[Round],
) -> Row {
    let bytes: Vec<f64> = rounds.iter().map(|round| round.bytes_per_s).collect();
    let mut latencies = measure::latencies();
    for round in rounds {
        latencies += &round.latencies;
    }
    Row {
        workload,
        lock,
        threads,
        ops_per_s: median_ops(rounds),
        mb_per_s: median(&bytes) / 1e6,
        p50_ns: latencies.value_at_quantile(0.5),
        p99_ns: latencies.value_at_quantile(0.99),
        max_ns: latencies.max(),
        ours: locks::contestant(lock).ours,
        baseline: None,
        ratio: None,
        targets: Vec::new(),
        rounds: rounds.iter().map(|round| round.ops_per_s).collect(),
    }
}

#[cfg(test)]
impl Row {
    pub(crate) fn of_test(
        workload: &'static str,
        lock: &'static str,
        threads: usize,
        ops_per_s: f64,
    ) -> Self {
        let round = Round {
            ops_per_s,
            whole_ops_per_s: ops_per_s,
            bytes_per_s: ops_per_s * 4096.0,
            latencies: measure::latencies(),
            cpu_ns_per_op: 0.0,
        };
        summary(workload, lock, threads, &[round])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_to_the_fastest_whole_file_lock() {
        let row = |lock, ops_per_s| Row::of_test("dwom", lock, 2, ops_per_s);
        let mut rows = [
            row("rw-counter", 50.0),
            row("srl-array", 90.0),
            row("parking_lot", 100.0),
            row("std", 80.0),
            row("range-mutex", 110.0),
        ];
        fill_in_ratios(&mut rows);
        let ratios = rows.each_ref().map(|row| row.ratio.unwrap());
        assert_eq!(ratios, [0.5, 0.9, 1.0, 0.8, 1.1]);
        assert!(rows.iter().all(|row| row.baseline == Some("parking_lot")));
        let losses = rows.each_ref().map(Row::is_loss);
        assert_eq!(losses, [true, true, false, false, false]);

        let mut ranges = [row("srl-array", 90.0), row("range-mutex", 110.0)];
        fill_in_ratios(&mut ranges);
        assert!(ranges.iter().all(|row| row.ratio.is_none()));
    }
}
