//! The targets of the locks, and whether a run meets them, computed from its rows.

use super::rows::{Cell, FAIR, PEER, Row};
use crate::target::Target;

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

/// Adds their targets to the rows. Returns all targets, with verdicts: those of individual locks,
/// then those of every lock in `ours`.
pub fn judge(rows: &mut [Row], ours: &[&'static str]) -> Vec<Target> {
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
    let ns: Figure = ("ns", |row| Some(row.ns));
    let mut targets: Vec<_> = times.map(|limit| judged(rows, ns, limit)).collect();
    let longest: Figure = ("longest_ns", |row| row.longest_ns);
    let waits = ours.iter().map(|&lock| {
        let limit = (cell(EIGHT, lock), 4.0, cell(EIGHT, FAIR));
        judged(rows, longest, limit)
    });
    targets.extend(waits);
    for row in rows {
        let of_row = targets.iter().filter(|it| it.0 == row.cell());
        row.targets = of_row.map(|it| it.1.clone()).collect();
    }
    targets.into_iter().map(|it| it.1).collect()
}

/// The name of a row's field, and its value.
type Figure = (&'static str, fn(&Row) -> Option<f64>);

/// Judges a limit on a cell's figure, relative to the same figure of another cell of the same run.
/// Returns the cell, and its target.
fn judged(
    rows: &[Row],
    (figure, value): Figure,
    (of, at_most, times): (Cell, f64, Cell),
) -> (Cell, Target) {
    let found = |cell| find(rows, cell).and_then(value);
    let measured = found(of).zip(found(times)).map(|(of, times)| of / times);
    // The common part of both cells goes without saying.
    let other = match (times.case == of.case, times.lock == of.lock) {
        (true, _) => times.lock.to_owned(),
        (_, true) => times.case.to_owned(),
        _ => times.to_string(),
    };
    let figure = format!("{figure}, times {other}");
    let missing = [of, times]
        .into_iter()
        .filter(|&it| find(rows, it).is_none());
    let mut missing: Vec<_> = missing.map(|it| it.lock.to_owned()).collect();
    missing.dedup();
    let target = Target::at_most(of.to_string(), figure, at_most, measured);
    (of, target.lacking(missing))
}

/// Returns the row of a cell.
fn find(rows: &[Row], cell: Cell) -> Option<&Row> {
    rows.iter().find(|row| row.cell() == cell)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_follow_the_rows() {
        let verdict = |array: f64| {
            let mut rows = [
                Row::of_test(WRITE, "srl-array", array),
                Row::of_test(WRITE, "parking_lot", 10.0),
            ];
            let all = judge(&mut rows, &["srl-array"]);
            assert!(all[1..].iter().all(|it| it.met.is_none()));
            assert_eq!(all[1].missing, ["srl-array", "parking_lot"]);
            assert_eq!(all[9].missing, ["ofd"]);
            assert_eq!(rows[0].targets[0], all[0]);
            assert!(rows[1].targets.is_empty());
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
        let mut rows = [row("srl-tree", 9e6), row(FAIR, 2e6)];
        let all = judge(&mut rows, &["srl-tree"]);
        let judged = all.iter().filter(|it| it.met.is_some());
        let judged: Vec<_> = judged
            .map(|it| (&*it.figure, it.measured.unwrap(), it.met.unwrap()))
            .collect();
        let figure = "longest_ns, times parking_lot-fair";
        assert_eq!(judged, [(figure, 4.5, false)]);
    }
}
