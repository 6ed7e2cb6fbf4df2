//! The targets of the locks in files, and whether a run meets them, computed from its rows.

use std::fmt;

use serde::Serialize;

use super::Row;
use crate::locks;
use crate::workloads::{IMPORT, SHARED_FILE};

/// The locks built from a word for each segment, or for several.
const WORD_FORMS: [&str; 3] = ["srl-array", "srl-packed", "srl-tree"];

/// A lower limit on a row's ratio to the fastest whole-file lock.
#[derive(Clone, Debug, Serialize)]
pub struct Target {
    /// The row's workload.
    #[serde(skip)]
    pub workload: &'static str,
    /// The row's lock.
    #[serde(skip)]
    pub lock: &'static str,
    /// The row's number of threads; `None` for any.
    #[serde(skip)]
    pub threads: Option<usize>,
    /// The limit.
    pub at_least: f64,
    /// The ratio in this run, the lowest if several rows are meant; `None` if it was not measured.
    pub measured: Option<f64>,
    /// Whether the target is met; `None` if the ratio was not measured.
    pub met: Option<bool>,
}

impl Target {
    /// Returns whether the target is about `row`.
    pub fn is_of(&self, row: &Row) -> bool {
        (self.workload, self.lock) == (row.workload, row.lock)
            && self.threads.is_none_or(|it| it == row.threads)
    }

    fn judged(mut self, rows: &[Row]) -> Self {
        let ratios = rows.iter().filter(|row| self.is_of(row));
        self.measured = ratios.filter_map(|row| row.ratio).reduce(f64::min);
        self.met = self.measured.map(|it| it >= self.at_least);
        self
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Target {
            workload,
            lock,
            at_least,
            ..
        } = self;
        write!(f, "{lock} in {workload} ≥ {at_least}")
    }
}

/// Returns all targets, judged by `rows`.
pub(super) fn targets(rows: &[Row]) -> Vec<Target> {
    let mut all = Vec::new();
    let mut add = |workload, lock, threads, at_least| {
        let target = Target {
            workload,
            lock,
            threads,
            at_least,
            measured: None,
            met: None,
        };
        all.push(target.judged(rows));
    };
    for workload in SHARED_FILE.map(|it| it.name) {
        let gain = match workload {
            "dwom" => 1.9,
            "drbm" => 2.5,
            _ => 2.0,
        };
        for lock in ["srl-array", "srl-tree"] {
            add(workload, lock, Some(2), gain);
        }
        add(workload, "interval-tree", Some(2), 1.0);
        for lock in WORD_FORMS {
            add(workload, lock, Some(1), 0.95);
        }
    }
    for (lock, _) in locks::all() {
        add(IMPORT, lock, None, 0.9);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_follow_the_rows() {
        let row = |workload, lock, threads, ratio| Row {
            ratio: Some(ratio),
            ..Row::of_test(workload, lock, threads, 1.0)
        };
        let rows = [
            row("dwom", "srl-array", 1, 0.96),
            row("dwom", "srl-array", 2, 1.89),
            row("drbm", "interval-tree", 2, 1.0),
            row(IMPORT, "srl-tree", 1, 1.1),
            row(IMPORT, "srl-tree", 8, 0.8),
        ];
        let all = targets(&rows);
        let judged = all.iter().filter(|it| it.met.is_some());
        let judged: Vec<_> = judged
            .map(|it| (it.to_string(), it.measured.unwrap(), it.met.unwrap()))
            .collect();
        let wanted = [
            ("srl-array in dwom ≥ 1.9", 1.89, false),
            ("srl-array in dwom ≥ 0.95", 0.96, true),
            ("interval-tree in drbm ≥ 1", 1.0, true),
            ("srl-tree in import ≥ 0.9", 0.8, false),
        ];
        let wanted = wanted.map(|(what, measured, met)| (what.to_owned(), measured, met));
        assert_eq!(judged, wanted);
        assert_eq!(all.len(), 4 * 6 + 6);
    }
}
