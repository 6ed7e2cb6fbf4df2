//! Locks under contention: a grid of critical sections, overlaps, shares of reads and threads, with
//! every lock of `--micro` that can wait.
//!
//! A *case* is one point of the grid, and a *row* is a case under a lock. The locks take turns, and
//! each round begins with a different lock. Half of each round measures throughput and processor
//! time; in the other half every acquisition is timed, because reading the clock twice would
//! distort the throughput of short sections.

pub mod args;
pub mod case;
pub mod round;

use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};

pub use case::{Case, cases};

use crate::load::{LoadWatch, Others};
use crate::locks;
use crate::measure::{self, Latencies, median};
use crate::micro::cases::{MeasuredLock, candidates};

/// Rounds of each row.
pub const ROUNDS: usize = 3;

/// A lock burns cores if its processor time per operation is more than this multiple of the most
/// frugal lock's in the same case, and it beats that lock's throughput.
pub const BURNS: f64 = 1.5;

/// The measurements to perform.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The cases, in the order in which they are reported.
    pub cases: Vec<Case>,
    /// Names of [`candidates`].
    pub locks: Vec<&'static str>,
    /// Seconds for each row.
    pub seconds: f64,
}

/// The result of a case under a lock. Times are in nanoseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The case's name.
    pub name: String,
    /// The case.
    #[serde(flatten)]
    pub case: Case,
    /// The lock's name.
    pub lock: &'static str,
    /// Whether the lock is in this project's registry.
    pub ours: bool,
    /// Operations per second of all threads together: the median of the rounds.
    pub ops_per_s: f64,
    /// The median wait for an acquisition, from call to return.
    pub p50_ns: u64,
    /// The 99th percentile of the waits.
    pub p99_ns: u64,
    /// The 99.9th percentile of the waits.
    pub p999_ns: u64,
    /// The longest wait of all rounds.
    pub longest_ns: u64,
    /// Processor time of all threads per operation: the median of the rounds.
    pub cpu_ns_per_op: f64,
    /// Whether the lock wins by [burning cores](BURNS).
    pub burns_cores: bool,
    /// The fastest whole-file lock in this case. `None` if none was measured.
    pub baseline: Option<&'static str>,
    /// `ops_per_s` divided by the baseline's.
    pub ratio: Option<f64>,
    /// Operations per second of each round.
    pub rounds: Vec<f64>,
}

impl Row {
    /// Returns whether this lock is one of ours and the baseline is faster.
    pub fn is_loss(&self) -> bool {
        self.ours && self.ratio.is_some_and(|ratio| ratio < 1.0)
    }
}

/// The result of a whole run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The rows by case, then lock.
    pub rows: Vec<Row>,
    /// The locks that could not be measured, each with the reason.
    pub absent: Vec<(&'static str, String)>,
    /// The seconds for which each row was measured.
    pub seconds: f64,
    /// The load caused by other programs.
    pub others: Others,
}

/// Runs everything that is planned. `bar` shows the progress.
///
/// # Errors
/// No thread can be started, or a lock admitted a thread that it should have excluded.
pub fn run(plan: &Plan, bar: &ProgressBar) -> Result<Outcome> {
    let watch = LoadWatch::start();
    let (mut locks, mut absent) = (Vec::new(), Vec::new());
    for candidate in candidates() {
        if !plan.locks.contains(&candidate.name) {
            continue;
        }
        let lock = candidate.make().map_err(|error| format!("{error:#}"));
        let lock = lock.and_then(|it| match it.cannot_wait() {
            Some(reason) => Err(reason.to_owned()),
            None => Ok(it),
        });
        match lock {
            Ok(lock) => locks.push(Contestant {
                name: candidate.name,
                ours: candidate.ours,
                lock,
            }),
            Err(reason) => absent.push((candidate.name, reason)),
        }
    }
    let steps_per_us = measure::steps_per_us();
    bar.set_length((plan.cases.len() * locks.len() * ROUNDS) as u64);
    let mut rows = Vec::new();
    for case in &plan.cases {
        bar.set_message(case.name());
        let mut of_case = rows_of(case, steps_per_us, plan.seconds, &locks, bar)?;
        compare(&mut of_case);
        rows.append(&mut of_case);
    }
    Ok(Outcome {
        rows,
        absent,
        seconds: plan.seconds,
        others: watch.others(),
    })
}

/// A lock that takes part.
struct Contestant {
    name: &'static str,
    ours: bool,
    lock: Box<dyn MeasuredLock>,
}

/// The figures of a lock in the rounds of a case.
struct Rounds {
    ops_per_s: Vec<f64>,
    cpu_ns_per_op: Vec<f64>,
    waits: Latencies,
}

fn rows_of(
    case: &Case,
    steps_per_us: f64,
    seconds: f64,
    locks: &[Contestant],
    bar: &ProgressBar,
) -> Result<Vec<Row>> {
    let half = Duration::from_secs_f64(seconds / ROUNDS as f64 / 2.0);
    let mut all: Vec<Rounds> = locks.iter().map(|_| Rounds::new()).collect();
    for first in 0..ROUNDS {
        for turn in 0..locks.len() {
            let place = (first + turn) % locks.len();
            let Contestant { name, lock, .. } = &locks[place];
            let told = || format!("{} under {name}", case.name());
            let plain = lock.contend(case, steps_per_us, half, false);
            let plain = plain.with_context(told)?.round;
            let timed = lock.contend(case, steps_per_us, half, true);
            let timed = timed.with_context(told)?;
            let rounds = &mut all[place];
            rounds.ops_per_s.push(plain.ops_per_s);
            rounds.cpu_ns_per_op.push(plain.cpu_ns_per_op);
            rounds.waits += &timed.waits;
            bar.inc(1);
        }
    }
    let rows = locks.iter().zip(all);
    Ok(rows.map(|(lock, rounds)| rounds.row(case, lock)).collect())
}

impl Rounds {
    fn new() -> Self {
        Rounds {
            ops_per_s: Vec::new(),
            cpu_ns_per_op: Vec::new(),
            waits: measure::latencies(),
        }
    }

    fn row(self, case: &Case, lock: &Contestant) -> Row {
        let waits = &self.waits;
        Row {
            name: case.name(),
            case: *case,
            lock: lock.name,
            ours: lock.ours,
            ops_per_s: median(&self.ops_per_s),
            p50_ns: waits.value_at_quantile(0.5),
            p99_ns: waits.value_at_quantile(0.99),
            p999_ns: waits.value_at_quantile(0.999),
            longest_ns: waits.max(),
            cpu_ns_per_op: median(&self.cpu_ns_per_op),
            burns_cores: false,
            baseline: None,
            ratio: None,
            rounds: self.ops_per_s,
        }
    }
}

/// Fills in what follows from comparing the rows of one case.
fn compare(rows: &mut [Row]) {
    let whole_file: Vec<_> = locks::contestants()
        .into_iter()
        .filter(|it| it.whole_file)
        .map(|it| it.name)
        .collect();
    let fastest = rows
        .iter()
        .filter(|row| whole_file.contains(&row.lock))
        .max_by(|a, b| a.ops_per_s.total_cmp(&b.ops_per_s))
        .map(|row| (row.lock, row.ops_per_s));
    let frugal = rows
        .iter()
        .filter(|row| row.cpu_ns_per_op > 0.0)
        .min_by(|a, b| a.cpu_ns_per_op.total_cmp(&b.cpu_ns_per_op))
        .map(|row| (row.cpu_ns_per_op, row.ops_per_s));
    for row in rows {
        row.baseline = fastest.map(|(lock, _)| lock);
        row.ratio = fastest
            .filter(|&(_, ops_per_s)| ops_per_s > 0.0)
            .map(|(_, ops_per_s)| row.ops_per_s / ops_per_s);
        row.burns_cores = frugal.is_some_and(|(cpu_ns_per_op, ops_per_s)| {
            row.cpu_ns_per_op > BURNS * cpu_ns_per_op && row.ops_per_s > ops_per_s
        });
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn row(lock: &'static str, ops_per_s: f64, cpu_ns_per_op: f64) -> Row {
        let rounds = Rounds {
            ops_per_s: vec![ops_per_s],
            cpu_ns_per_op: vec![cpu_ns_per_op],
            waits: measure::latencies(),
        };
        let candidates = candidates();
        let candidate = candidates.iter().find(|it| it.name == lock).unwrap();
        let contestant = Contestant {
            name: lock,
            ours: candidate.ours,
            lock: candidates
                .iter()
                .find(|it| it.name == "std")
                .unwrap()
                .make()
                .unwrap(),
        };
        rounds.row(&cases(false)[0], &contestant)
    }

    #[test]
    fn rows_are_compared_with_the_fastest_whole_file_lock() {
        let mut rows = [
            row("srl-tree", 120.0, 10.0),
            row("std", 90.0, 10.0),
            row("parking_lot-fair", 900.0, 10.0),
            row("parking_lot", 100.0, 10.0),
        ];
        compare(&mut rows);
        assert_eq!(rows[0].ratio, Some(1.2));
        assert!(rows.iter().all(|row| row.baseline == Some("parking_lot")));
        assert!(rows.iter().all(|row| !row.burns_cores));
        compare(&mut rows[..1]);
        assert_eq!((rows[0].baseline, rows[0].ratio), (None, None));
    }

    #[test]
    fn a_lock_that_wins_with_more_processor_time_burns_cores() {
        let mut rows = [
            row("srl-tree", 100.0, 10.0),
            row("std", 110.0, 16.0),
            row("parking_lot", 90.0, 30.0),
            row("ofd", 120.0, 15.0),
        ];
        compare(&mut rows);
        let burns = rows.each_ref().map(|row| row.burns_cores);
        assert_eq!(burns, [false, true, false, false]);
    }
}
