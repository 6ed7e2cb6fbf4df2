//! The output of `--micro`, on the terminal and as a page.

use std::fmt::Write;

use anyhow::Result;

use super::html::{END, begun, escaped, html_table};
use super::plots;
use super::text::{LOSS_MARK, drawn, time, verdict};
use crate::micro::{
    Absent, CASES, CONTENDED, FAIR, Figure, LARGEST, Outcome, PEER, ROUNDS, Row, Target, candidates,
};

const COLUMNS: [&str; 9] = [
    "case",
    "lock",
    "median",
    "least",
    "quartiles",
    "longest wait",
    "samples",
    "range",
    "ratio",
];

const TARGET_COLUMNS: [&str; 5] = ["case", "lock", "target", "measured", "met"];

/// Returns the table of all rows.
pub fn table(rows: &[Row]) -> String {
    drawn(COLUMNS, 2, rows.iter().map(cells))
}

/// Lists what could not be measured, one line per lock and reason. Empty if there is a row for
/// everything.
pub fn absent(absent: &[Absent]) -> String {
    let lines = absences(absent).into_iter();
    let lines = lines.map(|(lock, told)| format!("{lock}: {told}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the table of targets and verdicts.
pub fn targets(outcome: &Outcome) -> String {
    let cells = outcome.targets.iter();
    let cells = cells.map(|it| target_cells(it, &outcome.rows));
    format!("Targets\n{}", drawn(TARGET_COLUMNS, 2, cells))
}

/// Returns how often parking_lot is faster than the registry's locks, and one line per lock that
/// lists where.
pub fn losses(outcome: &Outcome) -> String {
    let of_lock = |lock: &str| {
        let rows = outcome.rows.iter().filter(move |row| row.lock == lock);
        rows.filter(|row| row.ratio.is_some()).collect::<Vec<_>>()
    };
    let (mut compared, mut lost, mut lines) = (0, 0, String::new());
    for lock in &outcome.ours {
        let rows = of_lock(lock);
        compared += rows.len();
        let told = |row: &&&Row| row.is_loss();
        let losses: Vec<_> = rows
            .iter()
            .filter(told)
            .map(|row| format!("{} ({})", row.case, factor(row.ratio.unwrap_or_default())))
            .collect();
        lost += losses.len();
        if !losses.is_empty() {
            let _ = write!(lines, "\n{LOSS_MARK} {lock}: {}", losses.join(", "));
        }
    }
    match (compared, lost) {
        (0, _) => format!("No ratios: {PEER} or Spanlock's locks were not measured."),
        (_, 0) => format!("No losses: {PEER} is faster in none of {compared} rows."),
        _ => format!(
            "Losses: {PEER}, which has no ranges, is faster in {lost} of {compared} rows.{lines}"
        ),
    }
}

fn cells(row: &Row) -> [String; 9] {
    let mark = if row.is_loss() { LOSS_MARK } else { "" };
    let ratio = row
        .ratio
        .map(|it| format!("{mark} {}", factor(it)).trim().to_owned());
    [
        row.case.to_owned(),
        row.lock.to_owned(),
        time(row.ns),
        time(row.min_ns),
        format!("{} – {}", time(row.q1_ns), time(row.q3_ns)),
        row.longest_ns.map_or_else(|| "–".to_owned(), time),
        row.samples.to_string(),
        size(row.bytes),
        ratio.unwrap_or_else(|| "–".to_owned()),
    ]
}

fn target_cells(target: &Target, rows: &[Row]) -> [String; 5] {
    let met = match target.met {
        None => {
            let missing = target.missing(rows).into_iter();
            let mut missing: Vec<_> = missing.map(|it| it.lock).collect();
            missing.dedup();
            format!("not measured: {}", missing.join(", "))
        }
        met => verdict(met),
    };
    let figure = match target.figure {
        Figure::Ns => "",
        Figure::LongestNs => "longest wait ",
    };
    [
        target.of.case.to_owned(),
        target.of.lock.to_owned(),
        format!("{figure}≤ {} × {}", target.at_most, target.times),
        target
            .measured
            .map_or_else(|| "–".to_owned(), |it| format!("{} ×", factor(it))),
        met,
    ]
}

/// Returns each lock and reason once, with the cases.
fn absences(absent: &[Absent]) -> Vec<(&'static str, String)> {
    let mut told: Vec<(&str, &str, Vec<&str>)> = Vec::new();
    for Absent { cell, reason } in absent {
        let same = told
            .iter_mut()
            .find(|(lock, why, _)| (*lock, *why) == (cell.lock, reason.as_str()));
        match same {
            Some((_, _, cases)) => cases.push(cell.case),
            None => told.push((cell.lock, reason, vec![cell.case])),
        }
    }
    let told = told.into_iter();
    told.map(|(lock, why, cases)| (lock, format!("no row {} ({why})", cases.join(", "))))
        .collect()
}

/// Formats a ratio with three digits.
fn factor(ratio: f64) -> String {
    let decimals = match ratio {
        it if it < 0.1 => 4,
        it if it < 10.0 => 2,
        it if it < 100.0 => 1,
        _ => 0,
    };
    format!("{ratio:.decimals$}")
}

/// Formats a number of bytes with a suitable unit.
fn size(bytes: u64) -> String {
    if bytes == LARGEST {
        return "1.5 TB".to_owned();
    }
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let unit = units.into_iter().find(|(shift, _)| bytes >> shift > 0);
    match unit {
        Some((shift, name)) => format!("{} {name}", bytes >> shift),
        None => format!("{bytes} B"),
    }
}

/// Returns the page. `command` is the command line that produced it.
///
/// # Errors
/// A plot cannot be drawn.
pub fn page(outcome: &Outcome, command: &str) -> Result<String> {
    let title = "Spanlock: lock and unlock compared";
    let mut page = begun(title, command, outcome.others, &[])?;
    reading(&mut page, outcome)?;
    let of_target = outcome.targets.iter().map(|it| {
        let class = if it.met == Some(false) { "loss" } else { "" };
        (class.to_owned(), target_cells(it, &outcome.rows))
    });
    html_table(&mut page, "Targets", TARGET_COLUMNS, of_target)?;
    let mut last = None;
    let of_row = outcome.rows.iter().map(|row| {
        let first = last.replace(row.case).is_some_and(|it| it != row.case);
        let first = if first { "first " } else { "" };
        let loss = if row.is_loss() { "loss" } else { "" };
        (format!("{first}{loss}"), cells(row))
    });
    html_table(&mut page, "Figures", COLUMNS, of_row)?;
    page.push_str("<ul>\n");
    for (lock, told) in absences(&outcome.absent) {
        writeln!(page, "<li><code>{lock}</code>: {}</li>", escaped(&told))?;
    }
    page.push_str("</ul>\n");
    all_plots(&mut page, outcome)?;
    page.push_str(END);
    Ok(page)
}

/// Explains the figures.
fn reading(page: &mut String, outcome: &Outcome) -> Result<()> {
    writeln!(
        page,
        "<p>Every figure is the median of samples of about a millisecond each. All rows take turns in one \
         process, for {} s per row; contended rows have {ROUNDS} rounds on {} cores. A ratio compares with <code>{PEER}</code> in the same \
         case or, for one segment among held ones, with its write of one segment; above 1 the lock is slower. A segment is \
         4 KiB. The range is what one call locks; the full range is everything that the lock covers. Contended figures are the time \
         from one acquisition to the next by any thread, including the work. The longest wait is from the half of \
         each round in which every acquisition is timed; <code>{FAIR}</code> is the yardstick for it.</p>\n<p>{}</p>",
        outcome.seconds,
        outcome.cores,
        escaped(&losses(outcome)).replace('\n', "<br>\n")
    )?;
    Ok(())
}

fn all_plots(page: &mut String, outcome: &Outcome) -> Result<()> {
    page.push_str("<h2>Locks</h2>\n<ul>\n");
    for candidate in candidates() {
        if outcome.rows.iter().any(|row| row.lock == candidate.name) {
            let about = escaped(candidate.about);
            writeln!(page, "<li><code>{}</code>: {about}</li>", candidate.name)?;
        }
    }
    page.push_str(
        "</ul>\n<h2>Medians and quartiles, on a logarithmic scale</h2>\n<div class=\"plots\">\n",
    );
    let cases = CASES.iter().map(|it| (it.name, it.about));
    for (case, about) in cases.chain(CONTENDED.iter().map(|it| (it.name, it.about))) {
        let rows: Vec<&Row> = outcome.rows.iter().filter(|row| row.case == case).collect();
        if !rows.is_empty() {
            let svg = plots::durations(&rows, &outcome.ours)?;
            writeln!(page, "<div><p>{case}: {}</p>\n{svg}</div>", escaped(about))?;
        }
    }
    page.push_str("</div>\n");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::micro::Cell;

    #[test]
    fn figures_are_formatted_with_units() {
        assert_eq!(
            [5.31, 999.9, 2_400.0].map(time),
            ["5.3 ns", "999.9 ns", "2.40 µs"]
        );
        assert_eq!(
            [0.0031, 0.7, 15.25, 262_144.4].map(factor),
            ["0.0031", "0.70", "15.2", "262144"]
        );
        let sizes = [100, 4096, 65_536, 1 << 20, 1 << 30, LARGEST].map(size);
        assert_eq!(
            sizes,
            ["100 B", "4 KiB", "64 KiB", "1 MiB", "1 GiB", "1.5 TB"]
        );
    }

    #[test]
    fn absences_are_listed_once_per_reason() {
        let absent_of = |case, lock, reason: &str| Absent {
            cell: Cell { case, lock },
            reason: reason.to_owned(),
        };
        let all = [
            absent_of("a", "std", "no"),
            absent_of("b", "std", "no"),
            absent_of("a", "ofd", "why"),
        ];
        assert_eq!(absent(&all), "std: no row a, b (no)\nofd: no row a (why)");
    }

    #[test]
    fn a_target_lists_its_missing_rows() {
        let cell = |lock| Cell { case: "case", lock };
        let target = Target {
            of: cell("a"),
            figure: Figure::Ns,
            at_most: 0.7,
            times: cell("b"),
            measured: None,
            met: None,
        };
        let told = target_cells(&target, &[Row::of_test("case", "b", 1.0)]);
        assert_eq!(
            told,
            ["case", "a", "≤ 0.7 × case of b", "–", "not measured: a"]
        );
        let target = Target {
            measured: Some(1.016),
            met: Some(false),
            ..target
        };
        assert_eq!(target_cells(&target, &[])[3..], ["1.02 ×", "▼ missed"]);
    }
}
