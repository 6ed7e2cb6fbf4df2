//! What people read in the terminal.

use std::fmt::Write;

use comfy_table::{Cell, CellAlignment, Color, Table, presets};

use super::judge::Report;
use crate::plan::{Job, Mode};
use crate::row::{Agreement, Row, Verdict};

fn table(head: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(head);
    table
}

fn number(text: impl ToString) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

/// What a row's bound bounds.
fn bound(bound: Option<u64>, random: bool) -> String {
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
        let random = matches!(job.mode, Mode::Random | Mode::Pct);
        table.add_row([
            Cell::new(job.name()),
            number(job.program.threads),
            number(bound(job.bound, random)),
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
        "verdict",
    ];
    let mut table = table(&head);
    for row in rows {
        let random = matches!(&*row.mode, "random" | "pct");
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
            number(bound(row.bound, random)),
            Cell::new(row.faults.join(" ")),
            number(row.executions),
            number(format!("{:.2}", row.seconds)),
            number(row.outcomes),
            Cell::new(verdict(row)).fg(color),
        ]);
    }
    table
}

/// How it ended, and whether the checker is known to err here.
fn verdict(row: &Row) -> String {
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

/// One sentence or two.
pub(super) fn summary(report: &Report) -> String {
    let count = |verdict: Verdict| {
        report
            .rows
            .iter()
            .filter(|row| row.verdict == verdict)
            .count()
    };
    let executions: u64 = report.rows.iter().map(|row| row.executions).sum();
    let mut text = format!(
        "{} rows, {executions} executions: {} EXHAUSTED, {} BOUNDED, {} TRUNCATED, {} SKIPPED, {} FAILED. Programs whose \
         outcomes under loom contain all of shuttle's exhaustive search: {}",
        report.rows.len(),
        count(Verdict::Exhausted),
        count(Verdict::Bounded),
        count(Verdict::Truncated),
        count(Verdict::Skipped),
        count(Verdict::Failed),
        report.agreeing,
    );
    if report.not_compared > 0 {
        let _ = write!(
            text,
            "; {} were not compared (a row of the three was left out, or did not pass)",
            report.not_compared
        );
    }
    text.push('.');
    let count = |agreement| {
        let rows = report.rows.iter();
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
