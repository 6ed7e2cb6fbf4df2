//! The output of `compare contention`, on the terminal and as a page.

use std::collections::BTreeSet;

use anyhow::Result;

use super::bars::Bar;
use super::findings::Findings;
use super::html_table::Line;
use super::origin::Origin;
use super::page::{Answer, Page};
use super::plots;
use super::table::{Column, drawn, drawn_in_groups};
use super::text::{LOSS_MARK, duration, grouped, listed, mean, throughput_of, time};
use crate::contention::{BURNS, Case, Outcome, ROUNDS, Row};
use crate::load::Others;
use crate::measure::thread_count;
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

    const TITLE: &str = "locks under contention";

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

    fn answer(&self, _: &Origin) -> Answer {
        answer(self)
    }

    fn body(&self, page: &mut Page) -> Result<()> {
        all_plots(page, &self.rows)?;
        page.figures(
            &COLUMNS,
            self.rows
                .iter()
                .map(|row| Line::new(cells(row)).guilty_if(row.is_loss(), 10)),
        );
        reading(page, self);
        Ok(())
    }

    fn losses(&self, page: &mut Page) {
        page.heading("Losses");
        page.said(&losses(self));
        let lines = by_lock(self).into_iter().map(|it| {
            let has_losses = !it[1].starts_with("0 ");
            Line::new(it).guilty_if(has_losses, 1)
        });
        page.bare_table(&BY_LOCK, &Vec::from_iter(lines));
    }
}

/// Compares the locks' mean ratios where requests overlap least, and where they overlap most.
fn answer(outcome: &Outcome) -> Answer {
    let rows = &outcome.rows;
    let overlaps = || rows.iter().map(|it| it.case.overlap);
    let (least, most) = (overlaps().min().unwrap_or(0), overlaps().max().unwrap_or(0));
    let ratio = |lock: &str, overlap: u32| {
        let of = rows
            .iter()
            .filter(|it| it.lock == lock && it.case.overlap == overlap);
        mean(of.filter_map(|it| it.ratio))
    };
    let mut all: Vec<_> = candidates()
        .into_iter()
        .filter_map(|it| Some((ratio(it.name, least)?, it)))
        .collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    let Some((best, lock)) = all.first() else {
        return Answer {
            said: losses(outcome),
            ..Answer::default()
        };
    };
    // Ratios that look the same are.
    let told = |ratio: f64| format!("{ratio:.2}");
    let winners = all.iter().filter(|it| told(it.0) == told(*best));
    let winners: Vec<_> = winners.map(|it| format!("`{}`", it.1.name)).collect();
    let (win, have) = match winners.len() {
        1 => ("wins", "it has"),
        _ => ("win", "they have"),
    };
    let both = most > least;
    let overlapping = ratio(lock.name, most).filter(|_| both).map(|it| {
        let costs = if it < 0.995 {
            "It costs: where"
        } else {
            "Where"
        };
        format!(
            "{costs} {most} % overlap, `{}` has {} the fastest whole-file lock. ",
            lock.name,
            throughput_of(it)
        )
    });
    let where_both = match both {
        true => {
            format!("where {least} % (the upper bar) and {most} % (the lower) of requests overlap")
        }
        false => format!("where {least} % of requests overlap"),
    };
    Answer {
        said: format!(
            "{} {win} where {least} % of requests overlap: with {}, {have} {} the fastest whole-file lock (geometric mean \
             over {} cases).",
            listed(&winners),
            loads(rows, least),
            throughput_of(*best),
            cases(rows, least).len(),
        ),
        cost: overlapping.unwrap_or_default()
            + &losses(outcome)
                .replace(" By lock:", "")
                .replace("▼ Losses: o", "O"),
        caption: format!(
            "Throughput {where_both}, as a ratio to the fastest whole-file lock (the line): geometric means"
        ),
        bars: all
            .iter()
            .map(|(first, it)| {
                let second = ratio(it.name, most).filter(|_| both);
                let text = second.map_or_else(String::new, |it| format!(", {it:.2}"));
                Bar {
                    second,
                    ..Bar::new(it.ours, it.name, *first, told(*first) + &text)
                }
            })
            .collect(),
        even: Some(1.0),
        note: "The fastest whole-file lock differs from case to case, so none need be at 1.00."
            .to_owned(),
        ..Answer::default()
    }
}

/// Returns the cases with this overlap.
fn cases(rows: &[Row], overlap: u32) -> BTreeSet<&str> {
    let of = rows.iter().filter(|it| it.case.overlap == overlap);
    of.map(|it| &*it.name).collect()
}

/// Returns the loads of the cases with this overlap: threads, sections and reads.
fn loads(rows: &[Row], overlap: u32) -> String {
    let all = |of: fn(&Case) -> u32| {
        let cases = rows.iter().map(|it| &it.case);
        let all: BTreeSet<u32> = cases.filter(|it| it.overlap == overlap).map(of).collect();
        Vec::from_iter(all)
    };
    let texts = |all: Vec<u32>, scale: f64| {
        let texts = all
            .into_iter()
            .map(|it| (f64::from(it) / scale).to_string());
        listed(&Vec::from_iter(texts))
    };
    let threads = all(|it| it.threads as u32);
    let threads = match *threads {
        [one] => thread_count(one as usize),
        _ => format!("{} threads", texts(threads, 1.0)),
    };
    format!(
        "{threads}, sections of {} µs and {} % reads",
        texts(all(|it| it.section_ns), 1e3),
        texts(all(|it| it.reads), 1.0)
    )
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
            "{LOSS_MARK} Losses: our locks lose {lost} of {count} comparisons with the fastest whole-file lock. By lock:"
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
fn reading(page: &mut Page, outcome: &Outcome) {
    page.said(&format!(
        "In each case, every thread repeatedly locks one segment of 4 KiB, works for the time of the section, releases it, and \
         works as long outside. The requests of two threads overlap with the given probability in percent, and the given percentage \
         of requests are reads; exclusive locks serve them exclusively. The locks take turns in {ROUNDS} rounds, for {} s per row. \
         Half of each round measures throughput and processor time, whose medians are shown; in the other half, every \
         acquisition is timed, from call to return. A lock burns cores if its processor time per operation is more than {BURNS} \
         times that of the most frugal lock in the case and it beats that lock's throughput. A ratio compares operations per second with the \
         baseline: the fastest whole-file lock in the same case. `{FAIR}` is never the baseline; it is the yardstick \
         for longest waits.",
        outcome.seconds
    ));
    for absent in absences(outcome) {
        page.said(&absent);
    }
}

/// Plots the cases that differ only in the number of threads together.
fn all_plots(page: &mut Page, rows: &[Row]) -> Result<()> {
    let locks = candidates();
    page.heading("Locks");
    plots::lock_keys(page, |it| rows.iter().any(|row| row.lock == it));
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
        page.heading(&format!(
            "sections of {} µs, overlap {} %, {} % reads",
            f64::from(group.section_ns) / 1e3,
            group.overlap,
            group.reads
        ));
        page.put("<div class=\"plots\">");
        let throughput = lines(|row| row.ops_per_s);
        page.put(&plots::amounts(
            "operations per second, by threads",
            &throughput,
        )?);
        let waits = lines(|row| row.longest_ns as f64 / 1e3);
        page.put(&plots::amounts(
            "µs of the longest wait, by threads",
            &waits,
        )?);
        let cpu = lines(|row| row.cpu_ns_per_op);
        page.put(&plots::amounts(
            "ns of CPU per operation, by threads",
            &cpu,
        )?);
        page.put("</div>\n");
    }
    Ok(())
}
