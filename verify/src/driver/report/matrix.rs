//! The rows of a run in Markdown: a table for each primitive, a line for each program, a column for
//! each mode.

use std::fmt::Write;

use crate::driver::table;
use crate::mode::Mode;
use crate::rows::row::{Row, Verdict};

const LEGEND: &str = "A number is that of the executions. Alone: every one was explored (EXHAUSTED). \
    `≤ 3`: every one with at most three preemptions, and `drawn`: so many schedules (both BOUNDED). \
    Verdicts that do not pass are in capitals. To see a cell again: `cargo verify --replay \
    PRIMITIVE/PROGRAM/CHECKER/MODE`, with the program's last part, if it has one, behind the mode: \
    `.../loom/weak/single-faults`. The checker of `weak` and `rmw-load` is loom, of `ltl` Spin, of \
    all others shuttle.\n";

/// A program under certain faults, in all its modes.
struct Line<'a> {
    program: String,
    rows: Vec<&'a Row>,
}

/// Returns all rows, in their order.
pub(super) fn markdown(rows: &[Row]) -> String {
    let mut text = LEGEND.to_owned();
    let mut primitives: Vec<&str> = rows.iter().map(|row| &*row.primitive).collect();
    primitives.dedup();
    let mut told = Vec::new();
    for primitive in primitives {
        if told.contains(&primitive) {
            continue;
        }
        told.push(primitive);
        let of_it = || rows.iter().filter(|row| row.primitive == primitive);
        let modes = Mode::ALL.map(Mode::name);
        let columns: Vec<_> = modes
            .into_iter()
            .filter(|mode| of_it().any(|row| row.mode == *mode))
            .collect();
        let _ = writeln!(
            text,
            "\n### {primitive}\n\n| program | threads | operations | {} |",
            columns.join(" | ")
        );
        let _ = writeln!(text, "|---|---|---|{}", "---|".repeat(columns.len()));
        for line in lines(of_it()) {
            let (threads, operations) = (line.rows[0].threads, line.rows[0].operations);
            let cells: Vec<_> = columns.iter().map(|mode| line.cell(mode)).collect();
            let _ = writeln!(
                text,
                "| {} | {threads} | {operations} | {} |",
                line.program,
                cells.join(" | ")
            );
        }
    }
    text
}

fn lines<'a>(rows: impl Iterator<Item = &'a Row>) -> Vec<Line<'a>> {
    let mut lines: Vec<Line<'a>> = Vec::new();
    for row in rows {
        let program = program(row);
        match lines.iter_mut().find(|line| line.program == program) {
            Some(line) => line.rows.push(row),
            None => lines.push(Line {
                program,
                rows: vec![row],
            }),
        }
    }
    lines
}

/// Returns a row's property, and the parts behind the mode in its name.
fn program(row: &Row) -> String {
    let parts: Vec<&str> = row.name.splitn(5, '/').collect();
    match parts[..] {
        [_, property, _, _, more] => format!("{property}/{more}"),
        _ => row.property.clone(),
    }
}

impl Line<'_> {
    fn cell(&self, mode: &str) -> String {
        let cells = self.rows.iter().filter(|row| row.mode == mode);
        cells.map(|row| cell(row)).collect::<Vec<_>>().join(", ")
    }
}

fn cell(row: &Row) -> String {
    if !row.verdict.passes() || row.verdict == Verdict::Skipped {
        return row.verdict.name().to_owned();
    }
    let executions = row.executions;
    let drift = if row.drifts() { " DRIFT" } else { "" };
    let blind = match table::verdict(row).contains("BLIND") {
        true => " (blind spot)",
        false => "",
    };
    match row.bound {
        Some(bound) if matches!(&*row.mode, "weak" | "rmw-load") => {
            format!("{executions} ≤ {bound}{blind}{drift}")
        }
        Some(_) => format!("{executions} drawn{blind}"),
        None => format!("{executions}{blind}{drift}"),
    }
}
