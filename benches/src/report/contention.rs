//! The output of `compare contention`, on the terminal and as a page.

use std::fmt::Write;

use anyhow::Result;

use super::html::{END, begun, escaped, html_table};
use super::plots;
use super::text::{LOSS_MARK, drawn, duration, grouped, time};
use crate::contention::{BURNS, Case, Outcome, ROUNDS, Row};
use crate::micro::{FAIR, candidates};

const COLUMNS: [&str; 11] = [
    "case",
    "lock",
    "ops/s",
    "p50",
    "p99",
    "p99.9",
    "longest wait",
    "CPU/op",
    "burns cores",
    "baseline",
    "ratio",
];

/// Returns everything for the terminal: the table, the losses, the locks that burn cores, and the
/// locks without rows.
pub fn told(outcome: &Outcome) -> String {
    let mut told = drawn(COLUMNS, 2, outcome.rows.iter().map(cells));
    for line in findings(outcome) {
        told.push('\n');
        told.push_str(&line);
    }
    told
}

fn cells(row: &Row) -> [String; 11] {
    let mark = if row.is_loss() { LOSS_MARK } else { "" };
    let ratio = row
        .ratio
        .map(|it| format!("{mark} {it:.2}").trim().to_owned());
    [
        row.name.clone(),
        row.lock.to_owned(),
        grouped(row.ops_per_s.round() as u64),
        duration(row.p50_ns),
        duration(row.p99_ns),
        duration(row.p999_ns),
        duration(row.longest_ns),
        time(row.cpu_ns_per_op),
        if row.burns_cores { "yes" } else { "" }.to_owned(),
        row.baseline.unwrap_or("–").to_owned(),
        ratio.unwrap_or_else(|| "–".to_owned()),
    ]
}

/// Returns the sentences about losses, locks that burn cores, and locks without rows.
fn findings(outcome: &Outcome) -> Vec<String> {
    let mut lines = Vec::new();
    let mut losses = 0;
    for candidate in candidates() {
        let lock = candidate.name;
        let of_lock: Vec<&Row> = outcome.rows.iter().filter(|row| row.lock == lock).collect();
        let cases = of_lock.len();
        let lost = of_lock.iter().filter(|row| row.is_loss());
        let worst = lost
            .clone()
            .min_by(|a, b| a.ratio.unwrap_or(1.0).total_cmp(&b.ratio.unwrap_or(1.0)));
        if let Some(worst) = worst {
            let count = lost.count();
            losses += count;
            lines.push(format!(
                "{LOSS_MARK} {lock} is slower than the fastest whole-file lock in {count} of {cases} cases, most in {} ({:.2} of {})",
                worst.name,
                worst.ratio.unwrap_or_default(),
                worst.baseline.unwrap_or("–")
            ));
        }
        let burns = of_lock.iter().filter(|row| row.burns_cores).count();
        if burns > 0 {
            lines.push(format!(
                "{lock} burns cores to win in {burns} of {cases} cases"
            ));
        }
    }
    let compared = outcome
        .rows
        .iter()
        .any(|row| row.ours && row.ratio.is_some());
    if !compared {
        lines.push("No ratios: they need a whole-file lock and a lock of ours.".to_owned());
    } else if losses == 0 {
        lines.push("No losses: no whole-file lock is faster in any case.".to_owned());
    }
    for (lock, reason) in &outcome.absent {
        lines.push(format!("{lock}: no rows ({reason})"));
    }
    lines
}

/// Returns the page. `command` is the command line that produced it.
///
/// # Errors
/// A plot cannot be drawn.
pub fn page(outcome: &Outcome, command: &str) -> Result<String> {
    let title = "Spanlock: locks under contention";
    let mut page = begun(title, command, outcome.others, &[])?;
    writeln!(
        page,
        "<p>In each case, every thread repeatedly locks one segment of 4 KiB, works for the time of the section, releases it, and \
         works as long outside. The requests of two threads overlap with the given probability in percent, and the given percentage \
         of requests are reads; exclusive locks serve them exclusively. The locks take turns in {ROUNDS} rounds, for {} s per row. \
         Half of each round measures throughput and processor time, whose medians are shown; in the other half, every \
         acquisition is timed, from call to return. A lock burns cores if its processor time per operation is more than {BURNS} \
         times that of the most frugal lock in the case and it beats that lock's throughput. A ratio compares operations per second with the \
         baseline: the fastest whole-file lock in the same case. <code>{FAIR}</code> is never the baseline; it is the yardstick \
         for longest waits.</p>",
        outcome.seconds
    )?;
    page.push_str("<ul>\n");
    for line in findings(outcome) {
        writeln!(page, "<li>{}</li>", escaped(&line))?;
    }
    page.push_str("</ul>\n");
    all_plots(&mut page, &outcome.rows)?;
    let mut last = None;
    let of_row = outcome.rows.iter().map(|row| {
        let first = last.replace(row.case).is_some_and(|it| it != row.case);
        let first = if first { "first " } else { "" };
        let loss = if row.is_loss() { "loss" } else { "" };
        (format!("{first}{loss}"), cells(row))
    });
    html_table(&mut page, "Figures", COLUMNS, of_row)?;
    page.push_str(END);
    Ok(page)
}

/// Plots the cases that differ only in the number of threads together.
fn all_plots(page: &mut String, rows: &[Row]) -> Result<()> {
    let candidates = candidates().into_iter();
    let locks: Vec<_> = candidates
        .filter(|it| rows.iter().any(|row| row.lock == it.name))
        .collect();
    page.push_str("<h2>Locks</h2>\n<ul>\n");
    for (place, lock) in locks.iter().enumerate() {
        let (color, about) = (plots::html_color(place), escaped(lock.about));
        writeln!(
            page,
            "<li><span class=\"key\" style=\"background: {color}\"></span><code>{}</code>: {about}</li>",
            lock.name
        )?;
    }
    page.push_str("</ul>\n");
    let mut groups: Vec<Case> = Vec::new();
    for row in rows {
        let group = Case {
            threads: 0,
            ..row.case
        };
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    for group in groups {
        let of_group = |row: &&Row| {
            let case = Case {
                threads: 0,
                ..row.case
            };
            case == group
        };
        let lines = |figure: fn(&Row) -> f64| -> Vec<Vec<(f64, f64)>> {
            let line = |lock| {
                let of_lock = rows.iter().filter(of_group).filter(|row| row.lock == lock);
                of_lock
                    .map(|row| (row.case.threads as f64, figure(row)))
                    .collect()
            };
            locks.iter().map(|it| line(it.name)).collect()
        };
        writeln!(
            page,
            "<h2>sections of {} µs, overlap {} %, {} % reads</h2>\n<div class=\"plots\">",
            f64::from(group.section_ns) / 1e3,
            group.overlap,
            group.reads
        )?;
        let throughput = lines(|row| row.ops_per_s);
        page.push_str(&plots::amounts(
            "operations per second, by threads",
            &throughput,
        )?);
        let waits = lines(|row| row.longest_ns as f64 / 1e3);
        page.push_str(&plots::amounts(
            "µs of the longest wait, by threads",
            &waits,
        )?);
        let cpu = lines(|row| row.cpu_ns_per_op);
        page.push_str(&plots::amounts(
            "ns of CPU per operation, by threads",
            &cpu,
        )?);
        page.push_str("</div>\n");
    }
    Ok(())
}
