//! The targets of the locks, and whether a run meets them, computed from its rows.

use std::fmt;

use serde::Serialize;

use super::{FAIR, PEER, Row};

/// A case under a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Cell {
    /// The case's name.
    pub case: &'static str,
    /// The lock's name.
    pub lock: &'static str,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.case, self.lock)
    }
}

/// A figure of a row that a target limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// [`Row::ns`].
    Ns,
    /// [`Row::longest_ns`].
    LongestNs,
}

impl Figure {
    fn of(self, row: &Row) -> Option<f64> {
        match self {
            Figure::Ns => Some(row.ns),
            Figure::LongestNs => row.longest_ns,
        }
    }
}

/// A limit on a cell's figure, relative to the same figure of another cell of the same run.
#[derive(Clone, Debug, Serialize)]
pub struct Target {
    /// The cell that is judged.
    #[serde(skip)]
    pub of: Cell,
    /// The figure of both cells.
    pub figure: Figure,
    /// The limit, as a multiple of the other cell's figure.
    pub at_most: f64,
    /// The cell that it is compared with.
    pub times: Cell,
    /// The multiple in this run; `None` if one of the two cells was not measured.
    pub measured: Option<f64>,
    /// Whether the target is met; `None` if one of the two cells was not measured.
    pub met: Option<bool>,
}

impl Target {
    /// Returns the cells that the verdict needs but the run lacks.
    pub fn missing(&self, rows: &[Row]) -> Vec<Cell> {
        let both = [self.of, self.times].into_iter();
        both.filter(|&cell| find(rows, cell).is_none()).collect()
    }
}

const fn cell(case: &'static str, lock: &'static str) -> Cell {
    Cell { case, lock }
}

const WRITE: &str = "write/1-segment";
const READ: &str = "read/1-segment";

/// The targets of individual locks: a cell, its limit, and the cell it is compared with.
const SINGLE: [(Cell, f64, Cell); 9] = [
    (cell(WRITE, "srl-array"), 0.6, cell(WRITE, "parking_lot")),
    (cell(READ, "srl-array"), 1.0, cell(READ, "parking_lot")),
    (
        cell("write/16-segments", "srl-packed"),
        1.2,
        cell(WRITE, "parking_lot"),
    ),
    (
        cell("write/256-segments", "srl-packed"),
        16.0,
        cell(WRITE, "parking_lot"),
    ),
    (cell(WRITE, "srl-tree"), 2.0, cell(WRITE, "srl-array")),
    (cell(READ, "srl-tree"), 2.0, cell(READ, "srl-array")),
    (
        cell("write/full-range", "srl-tree"),
        0.05,
        cell("write/full-range-by-segment", "srl-tree"),
    ),
    (
        cell(WRITE, "interval-tree"),
        0.95,
        cell(WRITE, "range-mutex"),
    ),
    (
        cell("write/held-10000", "interval-tree"),
        4.0,
        cell("write/held-10", "interval-tree"),
    ),
];

const TWO: &str = "contended/2-threads";
const EIGHT: &str = "contended/8-threads";

/// Returns all targets: those of individual locks, then those of every lock in `ours`.
pub(super) fn targets(rows: &[Row], ours: &[&'static str]) -> Vec<Target> {
    let each = ours.iter().flat_map(|&lock| {
        let peer = match lock {
            "interval-tree" => "range-mutex",
            _ => PEER,
        };
        [
            // Twenty times as fast.
            (cell(WRITE, lock), 0.05, cell(WRITE, "ofd")),
            (cell(READ, lock), 0.05, cell(READ, "ofd")),
            (cell(TWO, lock), 1.25, cell(TWO, peer)),
            (cell(EIGHT, lock), 1.25, cell(EIGHT, peer)),
            // At least 0.8 of the throughput.
            (cell(EIGHT, lock), 1.25, cell(TWO, lock)),
        ]
    });
    let times = SINGLE.into_iter().chain(each);
    let times = times.map(|it| (Figure::Ns, it));
    let waits = ours.iter().map(|&lock| {
        let limit = (cell(EIGHT, lock), 4.0, cell(EIGHT, FAIR));
        (Figure::LongestNs, limit)
    });
    let all = times.chain(waits);
    all.map(|(figure, (of, at_most, times))| {
        let value = |cell| find(rows, cell).and_then(|row| figure.of(row));
        let measured = value(of).zip(value(times)).map(|(of, times)| of / times);
        Target {
            of,
            figure,
            at_most,
            times,
            measured,
            met: measured.map(|it| it <= at_most),
        }
    })
    .collect()
}

/// Returns the row of a cell.
fn find(rows: &[Row], cell: Cell) -> Option<&Row> {
    rows.iter()
        .find(|row| (row.case, row.lock) == (cell.case, cell.lock))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_follow_the_rows() {
        let verdict = |array: f64| {
            let rows = [
                Row::of_test(WRITE, "srl-array", array),
                Row::of_test(WRITE, "parking_lot", 10.0),
            ];
            let all = targets(&rows, &["srl-array"]);
            assert!(all[1..].iter().all(|it| it.met.is_none()));
            assert_eq!(all[1].missing(&rows), [all[1].of, all[1].times]);
            let missing = all[9].missing(&rows);
            assert_eq!(missing, [cell(WRITE, "ofd")]);
            (all[0].measured, all[0].met)
        };
        assert_eq!(verdict(6.0), (Some(0.6), Some(true)));
        assert_eq!(verdict(8.0), (Some(0.8), Some(false)));
    }

    #[test]
    fn longest_waits_are_judged_by_the_fair_lock() {
        let row = |lock, longest_ns| Row {
            longest_ns: Some(longest_ns),
            ..Row::of_test(EIGHT, lock, 1.0)
        };
        let rows = [row("srl-tree", 9e6), row(FAIR, 2e6)];
        let all = targets(&rows, &["srl-tree"]);
        let judged = all.iter().filter(|it| it.met.is_some());
        let judged: Vec<_> = judged
            .map(|it| (it.figure, it.measured.unwrap(), it.met.unwrap()))
            .collect();
        assert_eq!(judged, [(Figure::LongestNs, 4.5, false)]);
    }
}
