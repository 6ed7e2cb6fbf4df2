//! The output of `compare contention`, on the terminal and as a page.

use std::fmt::Write;

use anyhow::Result;

use super::findings::Findings;
use super::html::{END, begun, escaped, html_table};
use super::plots;
use super::table::{Column, drawn, drawn_in_groups, titles};
use super::text::{LOSS_MARK, duration, grouped, time};
use crate::contention::{BURNS, Case, Outcome, ROUNDS, Row};
use crate::load::Others;
use crate::micro::{FAIR, candidates};
use crate::terminal::Width;

const COLUMNS: [Column; 11] = [
    Column::name("case"),
    Column::name("lock"),
    Column::figure("ops/s", 0),
    Column::figure("p50", 7),
    Column::figure("p99", 5),
    Column::figure("p99.9", 8),
    Column::figure("longest wait", 2),
    Column::figure("CPU/op", 3),
    Column::figure("burns cores", 6),
    Column::figure("baseline", 4),
    Column::figure("ratio", 0),
];

/// The columns of the table with a line for each lock.
const BY_LOCK: [Column; 5] = [
    Column::name("lock"),
    Column::figure("losses", 0),
    Column::figure("burns cores", 0),
    Column::figure("worst ratio", 0),
    Column::name("in"),
];

impl Findings for Outcome {
    type Row = Row;

    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn others(&self) -> Option<Others> {
        Some(self.others)
    }

    fn figures(&self, width: Width) -> Vec<String> {
        let absent = absences(self).into_iter().map(|it| width.wrapped(&it));
        let mut groups: Vec<(String, Vec<Vec<String>>)> = Vec::new();
        for row in &self.rows {
            let figures = cells(row)[1..].to_vec();
            match groups.last_mut() {
                Some((case, rows)) if *case == row.name => rows.push(figures),
                _ => groups.push((row.name.clone(), vec![figures])),
            }
        }
        // The case is the title of its group.
        let tables = drawn_in_groups(&COLUMNS[1..], &groups, width).into_iter();
        tables.chain(absent).collect()
    }

    fn conclusions(&self, width: Width) -> Vec<String> {
        let said = width.wrapped(&losses(self));
        let table = drawn(&BY_LOCK, by_lock(self), width);
        vec![format!("{said}\n{table}")]
    }

    fn page(&self, command: &str) -> Result<String> {
        let title = "Spanlock: locks under contention";
        let mut page = begun(title, command, self.others, &[])?;
        reading(&mut page, self)?;
        let losses = by_lock(self).into_iter().map(|it| (String::new(), it));
        html_table(&mut page, "Locks and losses", titles(&BY_LOCK), losses)?;
        all_plots(&mut page, &self.rows)?;
        let mut last = None;
        let of_row = self.rows.iter().map(|row| {
            let first = last.replace(row.case).is_some_and(|it| it != row.case);
            let first = if first { "first " } else { "" };
            let loss = if row.is_loss() { "loss" } else { "" };
            (format!("{first}{loss}"), cells(row))
        });
        html_table(&mut page, "Figures", titles(&COLUMNS), of_row)?;
        page.push_str(END);
        Ok(page)
    }
}

fn cells(row: &Row) -> [String; 11] {
    let mark = if row.is_loss() { LOSS_MARK } else { "" };
    let ratio = row
        .ratio
        .map(|it| format!("{mark} {it:.3}").trim().to_owned());
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

/// Returns how many ratios of our locks are below 1.
fn losses(outcome: &Outcome) -> String {
    let ours = outcome
        .rows
        .iter()
        .filter(|row| row.ours && row.ratio.is_some());
    let (count, lost) = (ours.clone().count(), ours.filter(|it| it.is_loss()).count());
    match (count, lost) {
        (0, _) => "No ratios: they need a whole-file lock and a lock of ours.".to_owned(),
        (_, 0) => "No losses: no whole-file lock is faster in any case.".to_owned(),
        _ => format!(
            "{LOSS_MARK} Losses: {lost} of {count} ratios of our locks to the fastest whole-file lock are below 1. By lock:"
        ),
    }
}

/// Returns a line for each lock: its losses, and how often it burns cores to win.
fn by_lock(outcome: &Outcome) -> Vec<Vec<String>> {
    let candidates = candidates().into_iter();
    let line = |lock: &str| {
        let of_lock = outcome.rows.iter().filter(|row| row.lock == lock);
        let of_lock: Vec<&Row> = of_lock.collect();
        let compared = of_lock.iter().filter_map(|row| Some((row.ratio?, row)));
        let worst = compared.min_by(|a, b| a.0.total_cmp(&b.0));
        let count = |is: fn(&Row) -> bool| of_lock.iter().filter(|row| is(row)).count();
        let dash = || "–".to_owned();
        let cells = vec![
            lock.to_owned(),
            format!("{} of {}", count(Row::is_loss), of_lock.len()),
            count(|row| row.burns_cores).to_string(),
            worst.map_or_else(dash, |(ratio, _)| format!("{ratio:.3}")),
            worst.map_or_else(dash, |(_, row)| row.name.clone()),
        ];
        (!of_lock.is_empty()).then_some(cells)
    };
    candidates.filter_map(|it| line(it.name)).collect()
}

/// Returns a sentence for each lock without rows.
fn absences(outcome: &Outcome) -> Vec<String> {
    let absent = outcome.absent.iter();
    absent
        .map(|(lock, reason)| format!("{lock}: no rows ({reason})"))
        .collect()
}

/// Explains the figures.
fn reading(page: &mut String, outcome: &Outcome) -> Result<()> {
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
    for line in [losses(outcome)].into_iter().chain(absences(outcome)) {
        writeln!(page, "<li>{}</li>", escaped(&line))?;
    }
    page.push_str("</ul>\n");
    Ok(())
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
