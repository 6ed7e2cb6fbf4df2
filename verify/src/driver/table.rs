//! What people read in the terminal.

use std::fmt::Write;

use comfy_table::{Cell, CellAlignment, Color, Table, presets};

use crate::plan::Job;
use crate::row::{Agreement, Row, Verdict};

pub(super) fn table(head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(head);
    table
}

pub(super) fn text(text: impl ToString) -> Cell {
    Cell::new(text)
}

pub(super) fn number(text: impl ToString) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// What a row's bound bounds.
pub(super) fn bound(bound: Option<u64>, mode: &str) -> String {
    let random = matches!(mode, "random" | "pct" | "urw");
    match bound {
        None => "none".to_owned(),
        Some(n) if random => format!("{n} schedules"),
        Some(n) => format!("{n} preemptions"),
    }
}

/// The rows that would run.
pub(super) fn list(jobs: &[Job]) -> Table {
    let mut table = table(&["row", "threads", "bound", "claim"]);
    for job in jobs {
        table.add_row([
            Cell::new(job.name()),
            number(job.program.threads),
            number(bound(job.bound, job.mode.name())),
            Cell::new(job.program.claim),
        ]);
    }
    table
}

/// The rows that did run.
pub(super) fn rows(rows: &[Row]) -> Table {
    let head = [
        "primitive",
        "property",
        "checker",
        "mode",
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
            Cell::new(&row.primitive),
            Cell::new(&row.property),
            Cell::new(&row.checker),
            Cell::new(&row.mode),
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

/// How long nobody got on, and how many passed one that waited: the most that there were, of the bound.
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

/// How it ended, and whether the checker is known to err here.
pub(super) fn verdict(row: &Row) -> String {
    let known = row.verdict.passes() && row.agreement == Some(Agreement::BlindSpot);
    let blind = if known { ", BLIND SPOT" } else { "" };
    format!("{}{blind}", row.verdict.name())
}

/// What went wrong, and how to see it again; empty if nothing did.
pub(super) fn failures(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        if let Some(failure) = &row.failure {
            let (verdict, primitive, property) =
                (row.verdict.name(), &row.primitive, &row.property);
            let _ = writeln!(text, "{verdict}: {primitive}/{property}: {}", row.claim);
            for line in failure.lines() {
                let _ = writeln!(text, "  {line}");
            }
            let _ = writeln!(text, "  again: {}\n", row.replay);
        }
    }
    text
}

/// Rows whose executions are not the committed ones, and what to do; empty if there are none.
pub(super) fn drifts(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows.iter().filter(|row| row.drifts()) {
        let (name, executions) = (&row.name, row.executions);
        let _ = match row.committed {
            Some(n) => writeln!(
                text,
                "DRIFT: {name}: {n} executions are committed, {executions} were found"
            ),
            None => writeln!(
                text,
                "DRIFT: {name}: no executions are committed, {executions} were found"
            ),
        };
    }
    if !text.is_empty() {
        text.push_str(
            "  A lock, a model or a checker has changed. If it should have: the same command with --accept, and commit verify/executions.tsv.\n",
        );
    }
    text
}

/// One sentence or two.
pub(super) fn summary(rows: &[Row]) -> String {
    let count = |verdict: Verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    let executions = rows.iter().map(|row| row.executions);
    let executions = executions.fold(0, u64::saturating_add);
    // Litmus rows have more to show, and scenarios are shuttle's alone.
    let searches = (rows.iter())
        .filter(|row| row.mode == "dfs" && row.agreement.is_none() && row.scenarios.is_none());
    let (agreeing, others): (Vec<_>, Vec<_>) = searches.partition(|row| row.agrees);
    let (agreeing, not_compared) = (agreeing.len(), others.len());
    let mut text = format!(
        "{} rows, {executions} executions: {} EXHAUSTED, {} BOUNDED, {} TRUNCATED, {} SKIPPED, {} FAILED. Programs whose \
         outcomes under loom contain all of shuttle's exhaustive search: {agreeing}",
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
            "; {not_compared} were not compared (a row of the three was left out, or did not pass)"
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
            " Litmus rows: {agree} agree with the memory model, {blind} are known blind spots (docs/checkers.md)."
        );
    }
    text
}
