//! What a run of `cargo compare failures` tells, on the terminal and as a page.

use std::collections::BTreeMap;
use std::fmt::Write;

use anyhow::Result;

use super::html::{END, escaped, facts, head};
use super::text::drawn;
use crate::failures::contestants::named;
use crate::failures::rows::{Row, Unclean};

const COLUMNS: [&str; 10] = [
    "contestant",
    "version",
    "runs",
    "failed",
    "told",
    "false acks (runs)",
    "foreign",
    "hangs",
    "panics",
    "cannot reopen",
];

/// What the columns are.
const READING: &str = "runs: each with one failure planned; failed: those in which it came to that; told: runs in which a caller was told an error; false acks: records that were \
acknowledged and are not there after a power cut, and in how many runs; foreign: records that are there and nobody appended; hangs, panics (or aborts), cannot reopen: in how many runs";

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

/// The table of all rows, and what its columns are.
pub fn table(rows: &[Row]) -> String {
    let table = drawn(COLUMNS, 2, rows.iter().map(cells));
    format!("{table}\n{READING}")
}

/// For each contestant and kind of failure that is not clean: how many runs, and how to run the first of them again, alone.
pub fn unclean(rows: &[Row]) -> String {
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
        return "All runs are clean: nothing acknowledged was lost, and nobody hung or panicked."
            .to_owned();
    }
    lines.join("\n")
}

/// The page. `command` is the command line that made it.
///
/// # Errors
/// None that is known: writing to a string may fail.
pub fn page(rows: &[Row], command: &str) -> Result<String> {
    let mut page = head("Spanlock: failures of journals and logs", &facts(command))?;
    writeln!(page, "<p>{}</p>\n<table>\n<tr>", escaped(READING))?;
    for column in COLUMNS {
        write!(page, "<th>{column}</th>")?;
    }
    page.push_str("</tr>\n");
    for row in rows {
        page.push_str(if row.is_clean() {
            "<tr>"
        } else {
            "<tr class=\"loss\">"
        });
        for cell in cells(row) {
            write!(page, "<td>{}</td>", escaped(&cell))?;
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</table>\n<ul>\n");
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

/// Runs that differ in the index only, some of which are not clean.
struct Kind<'a> {
    contestant: &'a str,
    kind: &'a str,
    /// That are not clean.
    runs: usize,
    /// All of this kind.
    of: usize,
    first: &'a Unclean,
    again: String,
}

fn kinds(rows: &[Row]) -> Vec<Kind<'_>> {
    rows.iter().flat_map(kinds_of).collect()
}

fn kinds_of(row: &Row) -> Vec<Kind<'_>> {
    let mut kinds: BTreeMap<&str, Vec<&Unclean>> = BTreeMap::new();
    for unclean in &row.unclean {
        kinds.entry(&unclean.kind).or_default().push(unclean);
    }
    let kinds = kinds.into_iter().map(|(kind, all)| Kind {
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

/// What was wrong, in a few words.
fn wrong(unclean: &Unclean) -> String {
    let mut wrong = Vec::new();
    if !unclean.lost.is_empty() {
        wrong.push(format!("{} false acknowledgements", unclean.lost.len()));
    }
    if unclean.foreign > 0 {
        wrong.push(format!("{} records that nobody appended", unclean.foreign));
    }
    if unclean.hung {
        wrong.push("hangs".to_owned());
    }
    if let Some(message) = unclean.panics.first() {
        wrong.push(format!("panics: {message}"));
    }
    if let Some(why) = &unclean.cannot_reopen {
        wrong.push(format!("cannot be opened again: {why}"));
    }
    wrong.join("; ")
}
