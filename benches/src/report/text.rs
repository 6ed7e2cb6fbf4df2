//! The table on the terminal, and the sentence about losses.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Row as TableRow, Table};

use crate::compare::{Outcome, Row, Target};
use crate::journal::rows::Bound;

/// The columns, on the terminal and in the report.
pub(super) const COLUMNS: [&str; 10] = [
    "workload", "lock", "threads", "ops/s", "MB/s", "p50", "p99", "max", "baseline", "ratio",
];

/// Marks a row in which one of our locks is slower.
pub(super) const LOSS_MARK: &str = "▼";

/// Returns the table of all rows.
pub fn table(rows: &[Row]) -> String {
    drawn(COLUMNS, 2, rows.iter().map(cells))
}

/// Draws a table. Columns after the first `names` are right-aligned.
pub(super) fn drawn<R: Into<TableRow>>(
    columns: impl Into<TableRow>,
    names: usize,
    rows: impl Iterator<Item = R>,
) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_header(columns);
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(names) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

/// Returns a row as text, column by column.
pub(super) fn cells(row: &Row) -> [String; 10] {
    [
        row.workload.to_owned(),
        row.lock.to_owned(),
        row.threads.to_string(),
        grouped(row.ops_per_s.round() as u64),
        grouped(row.mb_per_s.round() as u64),
        duration(row.p50_ns),
        duration(row.p99_ns),
        duration(row.max_ns),
        row.baseline.unwrap_or("–").to_owned(),
        ratio(row),
    ]
}

fn ratio(row: &Row) -> String {
    match row.ratio {
        None => "–".to_owned(),
        Some(ratio) if row.is_loss() => format!("{LOSS_MARK} {ratio:.3}"),
        Some(ratio) => format!("{ratio:.3}"),
    }
}

/// Returns a sentence that lists every cell in which the fastest whole-file lock is faster than one
/// of ours.
pub fn losses(rows: &[Row]) -> String {
    let compared: Vec<&Row> = rows
        .iter()
        .filter(|row| row.ours && row.ratio.is_some() && row.baseline != Some(row.lock))
        .collect();
    if compared.is_empty() {
        return "No ratios: they need a whole-file lock and another lock of ours.".to_owned();
    }
    let count = compared.len();
    let lost: Vec<String> = compared
        .iter()
        .filter(|row| row.is_loss())
        .map(|row| {
            let (workload, lock) = (row.workload, row.lock);
            let threads = thread_count(row.threads);
            let (ratio, baseline) = (row.ratio.unwrap_or_default(), row.baseline.unwrap_or("–"));
            format!("{lock} in {workload} at {threads} ({ratio:.3} of {baseline})")
        })
        .collect();
    if lost.is_empty() {
        format!("No losses: none of {count} ratios to the fastest whole-file lock is below 1.")
    } else {
        format!(
            "{LOSS_MARK} Losses: {} of {count} ratios to the fastest whole-file lock are below 1: {}.",
            lost.len(),
            lost.join(", ")
        )
    }
}

/// The columns of the table of targets.
pub(super) const TARGET_COLUMNS: [&str; 6] =
    ["workload", "lock", "threads", "target", "measured", "met"];

/// Returns the table of targets and verdicts.
pub fn targets(outcome: &Outcome) -> String {
    let cells = outcome.targets.iter().map(target_cells);
    let table = drawn(TARGET_COLUMNS, 2, cells);
    format!("Targets for ratios to the fastest whole-file lock\n{table}")
}

/// Returns a target as text, column by column.
pub(super) fn target_cells(target: &Target) -> [String; 6] {
    let measured = target.measured.map(|it| format!("{it:.3}"));
    [
        target.workload.to_owned(),
        target.lock.to_owned(),
        target.threads.map_or("any".to_owned(), |it| it.to_string()),
        format!("≥ {}", target.at_least),
        measured.unwrap_or_else(|| "–".to_owned()),
        verdict(target.met),
    ]
}

/// The columns of a table of targets of named rows.
pub(super) const JUDGED_COLUMNS: [&str; 5] = ["row", "figure", "asked", "measured", "met"];

/// Returns the target of the row that `row` names as text, column by column.
pub(super) fn judged_cells(row: &str, target: &crate::target::Target) -> [String; 5] {
    let sign = match target.bound {
        Bound::AtLeast => "≥",
        Bound::AtMost => "≤",
    };
    let of_figure = |number: f64| match target.figure.ends_with("_ns") {
        true => duration(number as u64),
        false if number >= 100.0 => grouped(number.round() as u64),
        false => format!("{number:.2}"),
    };
    [
        row.to_owned(),
        target.figure.to_owned(),
        format!("{sign} {}", of_figure(target.asked)),
        target.measured.map_or_else(|| "–".to_owned(), of_figure),
        verdict(target.met),
    ]
}

/// Formats whether a target is met.
pub(super) fn verdict(met: Option<bool>) -> String {
    match met {
        Some(true) => "met".to_owned(),
        Some(false) => format!("{LOSS_MARK} missed"),
        None => "not measured".to_owned(),
    }
}

/// Formats a number of threads, with singular or plural.
pub(crate) fn thread_count(threads: usize) -> String {
    format!("{threads} thread{}", if threads == 1 { "" } else { "s" })
}

/// Formats a number with a thin space between groups of three digits.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// Formats nanoseconds with a suitable unit.
pub(super) fn duration(ns: u64) -> String {
    match ns as f64 {
        ns if ns < 1e3 => format!("{ns} ns"),
        ns if ns < 1e6 => format!("{:.2} µs", ns / 1e3),
        ns if ns < 1e9 => format!("{:.2} ms", ns / 1e6),
        ns => format!("{:.2} s", ns / 1e9),
    }
}

/// Formats a ratio with two digits, or a dash for none.
pub(super) fn ratio_or_dash(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "–".to_owned(), |it| format!("{it:.2}"))
}

/// Formats nanoseconds with a suitable unit and one decimal below a microsecond.
pub(super) fn time(ns: f64) -> String {
    if ns < 1e3 {
        format!("{ns:.1} ns")
    } else {
        duration(ns as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(lock: &'static str, ratio: Option<f64>) -> Row {
        Row {
            workload: "dwom",
            lock,
            threads: 2,
            ops_per_s: 1_234_567.0,
            mb_per_s: 5_056.8,
            p50_ns: 812,
            p99_ns: 1_240,
            max_ns: 3_100_000,
            ours: true,
            baseline: ratio.map(|_| "parking_lot"),
            ratio,
            targets: Vec::new(),
            rounds: vec![1.0],
        }
    }

    #[test]
    fn cells_are_formatted_with_units() {
        let cells = cells(&row("srl-array", Some(0.93)));
        let wanted = [
            "dwom",
            "srl-array",
            "2",
            "1 234 567",
            "5 057",
            "812 ns",
            "1.24 µs",
            "3.10 ms",
            "parking_lot",
            "▼ 0.930",
        ];
        assert_eq!(cells, wanted);
    }

    #[test]
    fn the_sentence_lists_all_losses() {
        let rows = [row("rw-counter", Some(1.0)), row("srl-array", Some(0.93))];
        assert_eq!(
            losses(&rows),
            "▼ Losses: 1 of 2 ratios to the fastest whole-file lock are below 1: srl-array in dwom at 2 threads (0.930 of parking_lot)."
        );
        assert!(losses(&[row("parking_lot", Some(1.0))]).starts_with("No ratios"));
        assert!(losses(&rows[..1]).starts_with("No losses"));
        assert!(losses(&[row("srl-array", None)]).starts_with("No ratios"));
    }
}
