//! The output of `--micro`, on the terminal and as a page.

use anyhow::Result;

use super::bars::{Bar, Kind, Unit};
use super::findings::Findings;
use super::html_table::Line;
use super::losses::Losses;
use super::origin::Origin;
use super::page::{Answer, Page};
use super::plots;
use super::table::{Column, drawn};
use super::text::{LOSS_MARK, grouped, time, times};
use crate::load::Others;
use crate::micro::{Absent, CASES, CONTENDED, FAIR, LARGEST, Outcome, PEER, ROUNDS, Row};
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

    const TITLE: &str = "lock and unlock compared";

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

    fn answer(&self, _: &Origin) -> Answer {
        answer(self)
    }

    fn body(&self, page: &mut Page) -> Result<()> {
        all_plots(page, self);
        page.figures(
            &COLUMNS,
            self.rows
                .iter()
                .map(|row| Line::new(cells(row)).guilty_if(is_guilty(self, row), 8)),
        );
        page.list(absences(&self.absent));
        reading(page, self);
        Ok(())
    }

    fn losses(&self, page: &mut Page) {
        losses(self).append(page);
    }
}

/// Whether a row is a loss of ours.
fn is_guilty(outcome: &Outcome, row: &Row) -> bool {
    row.is_loss() && outcome.ours.contains(&row.lock)
}

/// Compares the locks in the first case.
fn answer(outcome: &Outcome) -> Answer {
    let rows = &outcome.rows;
    let Some(case) = rows.first().map(|it| it.case) else {
        return Answer::default();
    };
    let is_ours = |row: &&Row| outcome.ours.contains(&row.lock);
    let mut shown: Vec<&Row> = rows.iter().filter(|it| it.case == case).collect();
    shown.sort_by(|a, b| a.ns.total_cmp(&b.ns));
    let ours = shown.iter().copied().find(is_ours);
    let Some(best) = ours.or(shown.first().copied()) else {
        return Answer::default();
    };
    let rival = shown.iter().copied().find(|it| !is_ours(it));
    let rival = rival.map(|it| {
        let fastest = format!("`{}`, the fastest lock of another project, takes", it.lock);
        format!("; {fastest} **{}**", time(it.ns))
    });
    // The worst case with several threads.
    let contended = rows
        .iter()
        .filter(|it| it.lock == best.lock && it.longest_ns.is_some());
    let contended = contended.max_by(|a, b| a.ratio.partial_cmp(&b.ratio).expect("no NaN"));
    let contended = contended.and_then(|it| {
        let ratio = it.ratio?;
        Some(format!(
            "Under contention, it takes **{}** as long as `{PEER}` at worst (`{}`). ",
            times(ratio),
            it.case
        ))
    });
    Answer {
        said: format!(
            "`{}` locks and unlocks in **{}**{} (`{case}`).",
            best.lock,
            time(best.ns),
            rival.unwrap_or_default()
        ),
        cost: contended.unwrap_or_default() + &worst(outcome),
        caption: format!("Time of lock and unlock in {case}; shorter is better"),
        bars: shown
            .iter()
            .map(|it| Bar::new(is_ours(it), it.lock, it.ns, time(it.ns)))
            .collect(),
        unit: Unit::Time,
        ..Answer::default()
    }
}

/// Returns the losses in a sentence, with the worst.
fn worst(outcome: &Outcome) -> String {
    let losses = losses(outcome);
    let about = |name: &str| {
        let all = CASES.iter().map(|it| (it.name, it.about));
        let mut all = all.chain(CONTENDED.iter().map(|it| (it.name, it.about)));
        let about = all.find(|it| it.0 == name).map_or("", |it| it.1);
        about.split(',').next().unwrap_or(about)
    };
    match losses.rows.first() {
        None => losses.said,
        Some(row) => format!(
            "It costs: {} At worst, `{}` takes **{} times** as long as `{PEER}` (`{}`: {}).",
            losses.said.trim_start_matches("Losses: "),
            row[1],
            row[2],
            row[0],
            about(&row[0]),
        ),
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
        _ => return grouped(ratio.round() as u64),
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
fn reading(page: &mut Page, outcome: &Outcome) {
    page.said(&format!(
        "Every figure is the median of samples of about a millisecond each. All rows take turns in one \
         process, for {} s per row; contended rows have {ROUNDS} rounds on {} cores. A ratio compares with `{PEER}` in the same \
         case or, for one segment among held ones, with its write of one segment; above 1 the lock is slower. A segment is \
         4 KiB. The range is what one call locks; the full range is everything that the lock covers. Contended figures are the time \
         from one acquisition to the next by any thread, including the work. The longest wait is from the half of \
         each round in which every acquisition is timed; `{FAIR}` is the yardstick for it.",
        outcome.seconds, outcome.cores
    ));
}

/// Shows the medians of each case.
fn all_plots(page: &mut Page, outcome: &Outcome) {
    page.heading("Locks");
    plots::lock_keys(page, |it| outcome.rows.iter().any(|row| row.lock == it));
    page.heading("Medians");
    page.put("<div class=\"plots\">\n");
    let cases = CASES.iter().map(|it| (it.name, it.about));
    for (case, about) in cases.chain(CONTENDED.iter().map(|it| (it.name, it.about))) {
        let of_case = outcome.rows.iter().filter(|row| row.case == case);
        let bars = of_case.map(|row| Bar {
            name: row.lock.to_owned(),
            value: row.ns,
            told: time(row.ns),
            is_bad: is_guilty(outcome, row),
            second: None,
            kind: Kind::Place(plots::place(row.lock)),
        });
        let bars: Vec<_> = bars.collect();
        if !bars.is_empty() {
            page.bars(&format!("{case}: {about}"), &bars, None, Unit::Time);
        }
    }
    page.put("</div>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::micro::Cell;

    #[test]
    fn ratios_and_sizes_are_formatted() {
        assert_eq!(
            [0.0031, 0.7, 15.25, 262_144.4].map(factor),
            ["0.0031", "0.70", "15.2", "262 144"]
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
