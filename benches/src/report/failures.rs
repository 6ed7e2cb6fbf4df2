//! The output of `cargo compare failures`, on the terminal and as a page.

use anyhow::Result;
use std::collections::BTreeMap;

use super::bars::Bar;
use super::findings::Findings;
use super::html_table::Line;
use super::origin::Origin;
use super::page::{Answer, Page};
use super::table::{Column, drawn};
use super::text::grouped;
use crate::failures::contestants::Maker;
use crate::failures::contestants::named;
use crate::failures::rows::{Row, Unclean};
use crate::failures::{Outcome, failed};
use crate::load::Others;
use crate::terminal::Width;

const COLUMNS: [Column; 10] = [
    Column::name("contestant"),
    Column::figure("version", 6),
    Column::figure("runs", 0),
    Column::figure("failed", 5),
    Column::figure("told", 4),
    Column::figure("false acks (runs)", 0),
    Column::figure("foreign", 3),
    Column::figure("hangs", 0),
    Column::figure("panics", 0),
    Column::figure("cannot reopen", 0),
];

/// The meaning of the columns.
const READING: &str = "runs: each has one planned failure; failed: runs in which that failure happened; told: runs in which a caller received an error, which a log that retries a failed write need not report; \
false acks: acknowledged records that are missing after a power cut, and the number of runs that have any; foreign: records that were never appended; \
hangs, panics (or aborts), cannot reopen: number of runs";

fn cells(row: &Row) -> [String; 10] {
    [
        row.contestant.to_owned(),
        row.version.to_owned(),
        row.runs.to_string(),
        row.failed.to_string(),
        row.told.to_string(),
        format!("{} ({})", row.false_acknowledgements, row.false_runs),
        row.foreign.to_string(),
        row.hangs.to_string(),
        row.panics.to_string(),
        row.cannot_reopen.to_string(),
    ]
}

impl Findings for Outcome {
    type Row = Row;

    const TITLE: &str = "failures of journals and logs";

    const IS_MEASURED: bool = false;

    fn rows(&self) -> &[Row] {
        &self.rows
    }

    fn others(&self) -> Option<Others> {
        None
    }

    fn figures(&self, width: Width) -> Vec<String> {
        let table = drawn(&COLUMNS, self.rows.iter().map(cells), width);
        vec![table, width.wrapped(READING)]
    }

    fn conclusions(&self, width: Width) -> Vec<String> {
        vec![width.wrapped(&unclean(&self.rows))]
    }

    fn answer(&self, _: &Origin) -> Answer {
        answer(&self.rows)
    }

    fn body(&self, page: &mut Page) -> Result<()> {
        page.table("Contestants", &COLUMNS, self.rows.iter().map(line));
        page.said(READING);
        page.list(self.rows.iter().map(|row| {
            let about = named(row.contestant).map_or("", |it| it.about);
            (row.contestant, about)
        }));
        Ok(())
    }

    fn losses(&self, page: &mut Page) {
        page.heading("Not clean");
        page.list(kinds(&self.rows).into_iter().map(|it| {
            let UncleanKind { kind, first, .. } = it;
            let told = format!(
                "{kind}: {}; {}: {}; again: `{}`",
                it.count(),
                first.plan,
                wrong(first).replace('`', "'"),
                it.again
            );
            (it.contestant, told)
        }));
    }

    fn failed(&self) -> Vec<&'static str> {
        failed(&self.rows)
    }
}

/// Lists each contestant and kind of failure that is not clean: the number of runs, and the command
/// that repeats the first of them.
fn unclean(rows: &[Row]) -> String {
    let lines = kinds(rows).into_iter().map(|it| {
        format!(
            "{} {}: {} not clean; {}: {}\n    again: {}",
            it.contestant,
            it.kind,
            it.count(),
            it.first.plan,
            wrong(it.first),
            it.again
        )
    });
    let lines = lines.collect::<Vec<_>>();
    if lines.is_empty() {
        return "All runs are clean: no acknowledged record was lost, and no run hung or panicked."
            .to_owned();
    }
    lines.join("\n")
}

type Count = fn(&Row) -> usize;

/// The columns of figures that are bad unless they are zero, the number of runs with such a fault,
/// and what happens in them.
const BAD: [(usize, &str, Count, Count); 5] = [
    (
        5,
        "records are lost that were acknowledged",
        |row| row.false_acknowledgements,
        |row| row.false_runs,
    ),
    (
        6,
        "there are records that were never appended",
        |row| row.foreign,
        |row| row.unclean.iter().filter(|it| it.foreign > 0).count(),
    ),
    (7, "a thread hangs", |row| row.hangs, |row| row.hangs),
    (8, "a thread panics", |row| row.panics, |row| row.panics),
    (
        9,
        "the log cannot be reopened",
        |row| row.cannot_reopen,
        |row| row.cannot_reopen,
    ),
];

/// Returns a row, in which each figure that is bad is marked.
fn line(row: &Row) -> Line {
    let line = Line::new(cells(row));
    BAD.iter().fold(line, |line, (column, _, count, _)| {
        line.guilty_if(count(row) > 0, *column)
    })
}

/// Returns what goes wrong in the runs of a row, and in how many.
fn bad(row: &Row) -> String {
    let all = BAD.iter().map(|(_, what, _, runs)| (runs(row), what));
    let all = all.filter(|it| it.0 > 0);
    let all = all.map(|(runs, what)| format!("in **{}**, {what}", grouped(runs as u64)));
    all.collect::<Vec<_>>().join("; ")
}

/// The number of runs in which the failure happened, or the larger number of those that are not
/// clean.
fn failed_runs(row: &Row) -> usize {
    row.failed.max(row.unclean.len())
}

fn answer(rows: &[Row]) -> Answer {
    let is_ours = |row: &&Row| row.maker != Maker::Others;
    let of_ours =
        |count: fn(&Row) -> usize| -> usize { rows.iter().filter(is_ours).map(count).sum() };
    let (failed, planned) = (of_ours(|it| it.failed), of_ours(|it| it.runs));
    let told = |row: &Row| {
        let (name, failed) = (row.contestant, grouped(failed_runs(row) as u64));
        format!("`{name}` (of {failed} runs): {}", bad(row))
    };
    let told = |ours: bool| -> Vec<String> {
        let unclean = rows
            .iter()
            .filter(|it| is_ours(it) == ours && !it.is_clean());
        unclean.map(told).collect()
    };
    let ours = match (planned, told(true)) {
        (0, _) => "No journal of Spanlock was run.".to_owned(),
        (_, bad) if bad.is_empty() => format!(
            "Spanlock's journals stay clean in all **{} runs** in which a write or flush failed (of {} planned): no acknowledged \
             record is lost, and nothing hangs or panics.",
            grouped(failed as u64),
            grouped(planned as u64)
        ),
        (_, bad) => format!("Spanlock's journals are not clean. {}.", bad.join(". ")),
    };
    let others = match told(false) {
        bad if bad.is_empty() => String::new(),
        bad => format!("Logs of other projects. {}.", bad.join(". ")),
    };
    let bar = |row: &Row| {
        let (unclean, failed) = (row.unclean.len(), failed_runs(row));
        let share = unclean as f64 / failed.max(1) as f64;
        let told = format!("{unclean} of {failed}");
        Bar {
            is_bad: unclean > 0,
            ..Bar::new(is_ours(&row), row.contestant, share, told)
        }
    };
    Answer {
        said: ours,
        cost: others,
        caption: "Runs that are not clean, of those in which a write or flush failed".to_owned(),
        bars: rows.iter().map(bar).collect(),
        note: "A run can have two faults, such as lost records and a panic. That no caller receives an error (the column “told”) \
               is no fault: a log that retries a failed write has none to report."
            .to_owned(),
        ..Answer::default()
    }
}

/// Runs that differ only in the index and are not all clean.
struct UncleanKind<'a> {
    contestant: &'a str,
    kind: &'a str,
    /// The number of runs that are not clean.
    runs: usize,
    /// The number of runs of this kind; 0 if it is unknown.
    of: usize,
    first: &'a Unclean,
    again: String,
}

impl UncleanKind<'_> {
    fn count(&self) -> String {
        match self.of {
            0 => format!("{} runs", self.runs),
            of => format!("{} of {of} runs", self.runs),
        }
    }
}

fn kinds(rows: &[Row]) -> Vec<UncleanKind<'_>> {
    rows.iter().flat_map(kinds_of).collect()
}

fn kinds_of(row: &Row) -> Vec<UncleanKind<'_>> {
    let mut kinds: BTreeMap<&str, Vec<&Unclean>> = BTreeMap::new();
    for unclean in &row.unclean {
        kinds.entry(&unclean.kind).or_default().push(unclean);
    }
    let kinds = kinds.into_iter().map(|(kind, all)| UncleanKind {
        contestant: row.contestant,
        kind,
        runs: all.len(),
        of: row.kinds.get(kind).copied().unwrap_or_default(),
        first: all[0],
        again: format!(
            "cargo compare failures --contestant {} --plan {}",
            row.contestant, all[0].plan
        ),
    });
    kinds.collect()
}

/// Returns a short description of what went wrong.
fn wrong(unclean: &Unclean) -> String {
    let mut wrong = Vec::new();
    if !unclean.lost.is_empty() {
        wrong.push(format!("{} false acknowledgements", unclean.lost.len()));
    }
    if unclean.foreign > 0 {
        wrong.push(format!(
            "{} records that were never appended",
            unclean.foreign
        ));
    }
    if unclean.hung {
        wrong.push("hangs".to_owned());
    }
    if let Some(message) = unclean.panics.first() {
        wrong.push(format!("panics: {message}"));
    }
    if let Some(why) = &unclean.cannot_reopen {
        wrong.push(format!("cannot be reopened: {why}"));
    }
    wrong.join("; ")
}
