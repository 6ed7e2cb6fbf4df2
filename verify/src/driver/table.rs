//! Tables and summaries for the terminal.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write};

use comfy_table::{Cell, CellAlignment, Color, Table, presets};

use super::models::Task;
use crate::mode::Mode;
use crate::rows::row::{Agreement, Row};

/// A column of a table: its heading, and a function that makes its cell for an item.
pub(super) type Column<T> = (&'static str, fn(&T) -> Cell);

/// Returns a table without rows.
pub(super) fn table<'a>(head: impl IntoIterator<Item = &'a str>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(head);
    table
}

/// Returns a table with a row for each item.
pub(super) fn of<'a, T: 'a>(
    columns: &[Column<T>],
    items: impl IntoIterator<Item = &'a T>,
) -> Table {
    let mut table = table(columns.iter().map(|column| column.0));
    for item in items {
        table.add_row(columns.iter().map(|column| column.1(item)));
    }
    table
}

pub(super) fn number(text: impl ToString) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

pub(super) fn optional(text: Option<impl ToString>) -> Cell {
    Cell::new(text.map_or(String::new(), |it| it.to_string()))
}

/// Returns a verdict in green or in red.
pub(super) fn colored(verdict: impl ToString, is_well: bool) -> Cell {
    Cell::new(verdict).fg(if is_well { Color::Green } else { Color::Red })
}

/// Returns a verdict in upper case, as tables show it.
pub(super) fn name(verdict: impl Debug) -> String {
    format!("{verdict:?}").to_uppercase()
}

/// Counts the verdicts of each kind: `3 KILLED, 1 SURVIVED`.
pub(super) fn tally<V: Debug + Ord>(verdicts: impl Iterator<Item = V>) -> String {
    let mut counts: BTreeMap<V, usize> = BTreeMap::new();
    for verdict in verdicts {
        *counts.entry(verdict).or_default() += 1;
    }
    let counts = counts
        .into_iter()
        .map(|(it, n)| format!("{n} {}", name(it)));
    Vec::from_iter(counts).join(", ")
}

/// Returns a row's bound with its unit.
fn bound(bound: Option<u64>, mode: Mode) -> Cell {
    let unit = match mode.is_random() {
        true => "schedules",
        false => "preemptions",
    };
    number(bound.map_or("none".to_owned(), |n| format!("{n} {unit}")))
}

/// Returns the table of rows that would run.
pub(super) fn list(tasks: &[Task]) -> Table {
    let columns: &[Column<Task>] = &[
        ("row", |task| Cell::new(task.job.name())),
        ("threads", |task| number(task.job.program.threads)),
        ("bound", |task| bound(task.job.bound, task.job.mode)),
        ("claim", |task| Cell::new(&task.job.program.claim)),
    ];
    of(columns, tasks)
}

/// Returns the table of rows that ran.
pub(super) fn rows(rows: &[Row]) -> Table {
    let columns: &[Column<Row>] = &[
        ("row", |row| Cell::new(&row.name)),
        ("threads", |row| number(row.threads)),
        ("bound", |row| bound(row.bound, row.mode)),
        ("faults", |row| Cell::new(row.faults.join(" "))),
        ("executions", |row| number(row.executions)),
        ("seconds", |row| number(format!("{:.2}", row.seconds))),
        ("outcomes", |row| number(row.outcomes)),
        ("progress", |row| Cell::new(progress(row))),
        ("verdict", |row| colored(verdict(row), row.verdict.passes())),
    ];
    of(columns, rows)
}

/// Returns the maximum number of steps between two finished operations, and of arrivals that
/// overtook a waiter, each with its bound.
fn progress(row: &Row) -> String {
    let steps = row.longest.zip(row.step_bound);
    let steps = steps.map(|(n, bound)| format!("{n} of {bound} steps"));
    let passes = row.overtaken.zip(row.overtakes);
    let passes = passes.map(|(n, bound)| format!("{n} of {bound} passes"));
    Vec::from_iter(steps.into_iter().chain(passes)).join(", ")
}

/// Returns a row's verdict, with `BLIND SPOT` if the mode is known to deviate in this row.
fn verdict(row: &Row) -> String {
    let known = row.verdict.passes() && row.agreement == Some(Agreement::BlindSpot);
    let blind = if known { ", BLIND SPOT" } else { "" };
    name(row.verdict) + blind
}

/// Returns each failure with the command that replays it; empty if nothing failed.
pub(super) fn failures(rows: &[Row]) -> String {
    let mut text = String::new();
    for (row, failure) in rows
        .iter()
        .filter_map(|row| Some((row, row.failure.as_ref()?)))
    {
        let _ = writeln!(text, "{}: {}: {}", name(row.verdict), row.name, row.claim);
        for line in failure.lines() {
            let _ = writeln!(text, "  {line}");
        }
        let _ = writeln!(text, "  again: {}\n", row.replay);
    }
    text
}

/// Returns the rows whose number of executions differs from the record, if any, and advice.
pub(super) fn drifts(rows: &[Row]) -> String {
    let mut text = String::new();
    let drifts: Vec<&Row> = rows.iter().filter(|row| row.drifts()).collect();
    for row in &drifts {
        let told = match row.committed {
            Some(n) => format!("{n} executions are recorded, {} were found", row.executions),
            None => {
                let what = "no executions are recorded";
                format!("{what}: run `cargo verify --accept` to record them")
            }
        };
        let _ = writeln!(text, "DRIFT: {}: {told}", row.name);
    }
    if drifts.iter().any(|row| row.committed.is_some()) {
        text.push_str(
            "  The code under test, a model or a checker has changed. If that was intended, run \
             the same command\n  with --accept, and commit the models/executions.tsv of each \
             package. If a row drifts in every\n  run, its model depends on time, addresses or \
             earlier executions.\n",
        );
    }
    text
}

/// Summarizes the run in a few sentences.
pub(super) fn summary(rows: &[Row]) -> String {
    let count = |is: &dyn Fn(&Row) -> bool| rows.iter().filter(|row| is(row)).count();
    let executions = rows.iter().map(|row| row.executions);
    let executions = executions.fold(0, u64::saturating_add);
    let verdicts = tally(rows.iter().map(|row| row.verdict));
    // Litmus rows are compared with known outcomes instead. Scenarios run under shuttle only.
    let is_compared =
        |row: &Row| row.mode == Mode::Dfs && row.agreement.is_none() && row.scenarios.is_none();
    let agreeing = count(&|row| is_compared(row) && row.agrees);
    let mut text = format!(
        "{} rows, {executions} executions: {verdicts}. Programs for which loom shows every \
         outcome of shuttle's exhaustive search: {agreeing}",
        rows.len(),
    );
    let not_compared = count(&is_compared) - agreeing;
    if not_compared > 0 {
        let _ = write!(
            text,
            "; {not_compared} were not compared (one of the three rows did not run, or did not \
             pass)"
        );
    }
    text.push('.');
    let agree = count(&|row| row.agreement == Some(Agreement::Agrees));
    let blind = count(&|row| row.agreement == Some(Agreement::BlindSpot));
    if agree + blind > 0 {
        let _ = write!(
            text,
            " Litmus rows: {agree} agree with the memory model, {blind} are known blind spots of \
             their mode."
        );
    }
    text
}
