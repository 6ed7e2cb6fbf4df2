//! The output of `cargo compare failures`, on the terminal and as a page.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::Result;

use super::findings::Findings;
use super::html::{END, escaped, facts, head, html_table};
use super::table::{Column, drawn, titles};
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
const READING: &str = "runs: each has one planned failure; failed: runs in which that failure happened; told: runs in which a caller received an error; \
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

    fn page(&self, command: &str) -> Result<String> {
        page(&self.rows, command)
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
            "{} {}: {} of {} runs not clean; {}: {}\n    again: {}",
            it.contestant,
            it.kind,
            it.runs,
            it.of,
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

fn page(rows: &[Row], command: &str) -> Result<String> {
    let mut page = head("Spanlock: failures of journals and logs", &facts(command))?;
    writeln!(page, "<p>{}</p>", escaped(READING))?;
    let of_row = rows.iter().map(|row| {
        let class = if row.is_clean() { "" } else { "loss" };
        (class.to_owned(), cells(row))
    });
    html_table(&mut page, "Contestants", titles(&COLUMNS), of_row)?;
    page.push_str("<ul>\n");
    for row in rows {
        let about = named(row.contestant).map_or("", |it| it.about);
        writeln!(
            page,
            "<li><code>{}</code>: {}</li>",
            row.contestant,
            escaped(about)
        )?;
    }
    page.push_str("</ul>\n<h2>Not clean</h2>\n<ul>\n");
    for kind in kinds(rows) {
        writeln!(
            page,
            "<li><code>{}</code> {}: {} of {} runs; {}: {}<br><code>{}</code></li>",
            kind.contestant,
            kind.kind,
            kind.runs,
            kind.of,
            kind.first.plan,
            escaped(&wrong(kind.first)),
            kind.again
        )?;
    }
    page.push_str("</ul>\n");
    page.push_str(END);
    Ok(page)
}

/// Runs that differ only in the index and are not all clean.
struct UncleanKind<'a> {
    contestant: &'a str,
    kind: &'a str,
    /// The number of runs that are not clean.
    runs: usize,
    /// The number of runs of this kind.
    of: usize,
    first: &'a Unclean,
    again: String,
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
