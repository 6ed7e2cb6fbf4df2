//! Tables and summaries for the terminal.

use std::fmt::Write;

use comfy_table::{Cell, CellAlignment, Color, Table, presets};

use super::models::Task;
use crate::rows::row::{Agreement, Row, Verdict};

pub(super) fn table(head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(head);
    table
}

/// Returns the cells of a mutant or a bug: the third is its verdict, the fifth a number.
pub(super) fn colored(cells: [String; 6], color: Color) -> Vec<Cell> {
    let cell = |(i, text): (usize, String)| match i {
        2 => Cell::new(text).fg(color),
        4 => number(text),
        _ => Cell::new(text),
    };
    cells.into_iter().enumerate().map(cell).collect()
}

pub(super) fn number(text: impl ToString) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// Returns a row's bound and its unit.
pub(super) fn bound(bound: Option<u64>, mode: &str) -> String {
    let random = matches!(mode, "random" | "pct" | "urw");
    match bound {
        None => "none".to_owned(),
        Some(n) if random => format!("{n} schedules"),
        Some(n) => format!("{n} preemptions"),
    }
}

/// Returns the rows that would run.
pub(super) fn list(tasks: &[Task]) -> Table {
    let mut table = table(&["row", "threads", "bound", "claim"]);
    for Task { job, .. } in tasks {
        table.add_row([
            Cell::new(job.name()),
            number(job.program.threads),
            number(bound(job.bound, job.mode.name())),
            Cell::new(&job.program.claim),
        ]);
    }
    table
}

/// Returns the rows of a run.
pub(super) fn rows(rows: &[Row]) -> Table {
    let head = [
        "row",
        "threads",
        "bound",
        "faults",
        "executions",
        "seconds",
        "outcomes",
        "progress",
        "verdict",
    ];
    let mut table = table(&head);
    for row in rows {
        let color = if row.verdict.passes() {
            Color::Green
        } else {
            Color::Red
        };
        table.add_row([
            Cell::new(&row.name),
            number(row.threads),
            number(bound(row.bound, &row.mode)),
            Cell::new(row.faults.join(" ")),
            number(row.executions),
            number(format!("{:.2}", row.seconds)),
            number(row.outcomes),
            Cell::new(progress(row)),
            Cell::new(verdict(row)).fg(color),
        ]);
    }
    table
}

/// Returns the most steps without a finished operation, and the most arrivals that overtook a
/// waiter, each of its bound.
pub(super) fn progress(row: &Row) -> String {
    let steps = (row.longest.zip(row.step_bound)).map(|(n, bound)| format!("{n} of {bound} steps"));
    let passes =
        (row.overtaken.zip(row.overtakes)).map(|(n, bound)| format!("{n} of {bound} passes"));
    [steps, passes]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(", ")
}

/// Returns how a row ended, and whether its mode is known to deviate there.
pub(super) fn verdict(row: &Row) -> String {
    let known = row.verdict.passes() && row.agreement == Some(Agreement::BlindSpot);
    let blind = if known { ", BLIND SPOT" } else { "" };
    format!("{}{blind}", row.verdict.name())
}

/// Returns what went wrong and how to see it again; empty if nothing did.
pub(super) fn failures(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        if let Some(failure) = &row.failure {
            let (verdict, name) = (row.verdict.name(), &row.name);
            let _ = writeln!(text, "{verdict}: {name}: {}", row.claim);
            for line in failure.lines() {
                let _ = writeln!(text, "  {line}");
            }
            let _ = writeln!(text, "  again: {}\n", row.replay);
        }
    }
    text
}

/// Returns the rows whose executions are not the recorded ones, and what to do; empty if there are
/// none.
pub(super) fn drifts(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows.iter().filter(|row| row.drifts()) {
        let (name, executions) = (&row.name, row.executions);
        let recorded = match row.committed {
            Some(n) => format!("{n} executions are recorded"),
            None => "no executions are recorded".to_owned(),
        };
        let _ = writeln!(text, "DRIFT: {name}: {recorded}, {executions} were found");
    }
    if !text.is_empty() {
        text.push_str(
            "  The code under test, a model or a checker has changed. If that was intended, run \
             the same command\n  with --accept, and commit the models/executions.tsv of each \
             package. If a row drifts at every\n  run, its model depends on time, addresses or \
             earlier executions.\n",
        );
    }
    text
}

/// Returns the run in a few sentences.
pub(super) fn summary(rows: &[Row]) -> String {
    let count = |verdict: Verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    let executions = rows.iter().map(|row| row.executions);
    let executions = executions.fold(0, u64::saturating_add);
    // Litmus rows are compared with exact outcomes, and only shuttle runs scenarios.
    let searches = (rows.iter())
        .filter(|row| row.mode == "dfs" && row.agreement.is_none() && row.scenarios.is_none());
    let (agreeing, others): (Vec<_>, Vec<_>) = searches.partition(|row| row.agrees);
    let (agreeing, not_compared) = (agreeing.len(), others.len());
    let mut text = format!(
        "{} rows, {executions} executions: {} EXHAUSTED, {} BOUNDED, {} TRUNCATED, {} SKIPPED, {} \
         FAILED. Programs whose outcomes under loom contain all of shuttle's exhaustive search: \
         {agreeing}",
        rows.len(),
        count(Verdict::Exhausted),
        count(Verdict::Bounded),
        count(Verdict::Truncated),
        count(Verdict::Skipped),
        count(Verdict::Failed),
    );
    if not_compared > 0 {
        let _ = write!(
            text,
            "; {not_compared} were not compared (one of the three rows was left out, or did not \
             pass)"
        );
    }
    text.push('.');
    let count = |agreement| {
        let rows = rows.iter();
        rows.filter(|row| row.agreement == Some(agreement)).count()
    };
    let (agree, blind) = (count(Agreement::Agrees), count(Agreement::BlindSpot));
    if agree + blind > 0 {
        let _ = write!(
            text,
            " Litmus rows: {agree} agree with the memory model, {blind} are known blind spots of \
             their mode."
        );
    }
    text
}
