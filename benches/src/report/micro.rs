//! The output of `--micro`, on the terminal and as a page.

use std::fmt::Write;

use anyhow::Result;

use super::findings::Findings;
use super::html::{END, begun, escaped, html_table};
use super::losses::Losses;
use super::table::{Column, drawn, titles};
use super::text::{LOSS_MARK, time};
use super::{plots, targets};
use crate::load::Others;
use crate::micro::{
    Absent, CASES, CONTENDED, FAIR, LARGEST, Outcome, PEER, ROUNDS, Row, candidates,
};
use crate::target::Target;
use crate::terminal::Width;

const COLUMNS: [Column; 9] = [
    Column::name("case"),
    Column::name("lock"),
    Column::figure("median", 0),
    Column::figure("least", 5),
    Column::figure("quartiles", 4),
    Column::figure("longest wait", 1),
    Column::figure("samples", 6),
    Column::figure("range", 3),
    Column::figure("ratio", 0),
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
        let table = drawn(&COLUMNS, self.rows.iter().map(cells), width);
        let absent = absences(&self.absent).into_iter();
        let absent = absent.map(|(lock, told)| width.wrapped(&format!("{lock}: {told}")));
        [table].into_iter().chain(absent).collect()
    }

    fn targets(&self) -> Option<Vec<Target>> {
        Some(self.targets.clone())
    }

    fn conclusions(&self, width: Width) -> Vec<String> {
        vec![losses(self).told(width)]
    }

    fn page(&self, command: &str) -> Result<String> {
        let title = "Spanlock: lock and unlock compared";
        let mut page = begun(title, command, self.others, &[])?;
        reading(&mut page, self)?;
        targets::append(&mut page, &self.targets)?;
        let mut last = None;
        let of_row = self.rows.iter().map(|row| {
            let first = last.replace(row.case).is_some_and(|it| it != row.case);
            let first = if first { "first " } else { "" };
            let loss = if row.is_loss() { "loss" } else { "" };
            (format!("{first}{loss}"), cells(row))
        });
        html_table(&mut page, "Figures", titles(&COLUMNS), of_row)?;
        page.push_str("<ul>\n");
        for (lock, told) in absences(&self.absent) {
            writeln!(page, "<li><code>{lock}</code>: {}</li>", escaped(&told))?;
        }
        page.push_str("</ul>\n");
        all_plots(&mut page, self)?;
        page.push_str(END);
        Ok(page)
    }
}

/// Returns the rows in which parking_lot is faster than one of the registry's locks.
fn losses(outcome: &Outcome) -> Losses {
    let ours = outcome
        .rows
        .iter()
        .filter(|row| outcome.ours.contains(&row.lock));
    let compared = ours.filter(|row| row.ratio.is_some());
    let compared: Vec<&Row> = compared.collect();
    let lost = compared.iter().filter(|row| row.is_loss()).map(|row| {
        let times = row.ratio.unwrap_or_default();
        let cells = [row.case.to_owned(), row.lock.to_owned(), factor(times)];
        (-times, cells.to_vec())
    });
    let rows = Losses::sorted(lost.collect());
    let said = match (compared.len(), rows.len()) {
        (0, _) => format!("No ratios: {PEER} or Spanlock's locks were not measured."),
        (count, 0) => format!("No losses: {PEER} is faster in none of {count} rows."),
        (count, lost) => {
            format!("Losses: {PEER}, which has no ranges, is faster in {lost} of {count} rows.")
        }
    };
    Losses {
        said,
        columns: vec![
            Column::name("case"),
            Column::name("lock"),
            Column::figure("ratio", 0),
        ],
        rows,
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

/// Explains the figures.
fn reading(page: &mut String, outcome: &Outcome) -> Result<()> {
    writeln!(
        page,
        "<p>Every figure is the median of samples of about a millisecond each. All rows take turns in one \
         process, for {} s per row; contended rows have {ROUNDS} rounds on {} cores. A ratio compares with <code>{PEER}</code> in the same \
         case or, for one segment among held ones, with its write of one segment; above 1 the lock is slower. A segment is \
         4 KiB. The range is what one call locks; the full range is everything that the lock covers. Contended figures are the time \
         from one acquisition to the next by any thread, including the work. The longest wait is from the half of \
         each round in which every acquisition is timed; <code>{FAIR}</code> is the yardstick for it.</p>",
        outcome.seconds, outcome.cores
    )?;
    losses(outcome).append(page)
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
    fn ratios_and_sizes_are_formatted() {
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
        let wanted = [("std", "no row a, b (no)"), ("ofd", "no row a (why)")];
        assert_eq!(absences(&all), wanted.map(|it| (it.0, it.1.to_owned())));
    }
}
