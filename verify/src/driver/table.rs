//! Tables and summaries for the terminal.

use std::collections::BTreeMap;
use std::fmt::{self, Debug, Display, Formatter, Write};

use comfy_table::{
    Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Table, presets,
};

use super::models::Task;
use crate::mode::Mode;
use crate::rows::row::{Agreement, Row, Verdict};

/// A column of a table: its heading, its rank, and a function that makes its cell for an item. If a
/// terminal is too narrow, the columns of the highest rank are left out first, those of rank 0
/// never.
pub(super) type Column<T> = (&'static str, u8, fn(&T) -> Cell);

/// A table that fits the terminal when it is displayed. Anything else gets every column.
pub(super) struct Fitted {
    table: Table,
    ranks: Vec<u8>,
}

/// A column with longer texts than this is shown if it can have this width: the texts wrap.
const WRAPPED: u16 = 30;

impl Fitted {
    /// Returns a table with a row for each item.
    pub(super) fn of<'a, T: 'a>(
        columns: &[Column<T>],
        items: impl IntoIterator<Item = &'a T>,
    ) -> Self {
        let mut table = table(columns.iter().map(|column| column.0));
        for item in items {
            table.add_row(columns.iter().map(|column| column.2(item)));
        }
        let ranks = columns.iter().map(|column| column.1).collect();
        Fitted { table, ranks }
    }

    /// Returns the table with all its columns, without colors.
    pub(super) fn whole(mut self) -> String {
        self.table.force_no_tty().to_string()
    }

    /// Returns the columns that fit into this width, and the names of the others.
    fn within(&self, width: u16) -> (Table, Vec<String>) {
        let widths = self.table.column_max_content_widths();
        // Each column also has a border and two spaces.
        let widths = self
            .ranks
            .iter()
            .zip(widths)
            .map(|(rank, width)| match rank {
                0 => width + 3,
                _ => width.min(WRAPPED) + 3,
            });
        let widths: Vec<u16> = widths.collect();
        let needed = |most: u8| {
            let shown = self
                .ranks
                .iter()
                .zip(&widths)
                .filter(|(rank, _)| **rank <= most);
            1 + shown.map(|(_, width)| width).sum::<u16>()
        };
        let highest = self.ranks.iter().copied().max().unwrap_or(0);
        let most = (0..=highest).rev().find(|&most| needed(most) <= width);
        let mut table = self.table.clone();
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(width);
        let mut hidden = Vec::new();
        for (i, rank) in self.ranks.iter().enumerate() {
            if *rank > most.unwrap_or(0) {
                table
                    .column_mut(i)
                    .map(|it| it.set_constraint(ColumnConstraint::Hidden));
                let name = table.header().and_then(|head| head.cell_iter().nth(i));
                hidden.extend(name.map(Cell::content));
            }
        }
        (table, hidden)
    }
}

impl Display for Fitted {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(width) = self.table.width() else {
            return write!(f, "{}", self.table);
        };
        let (table, hidden) = self.within(width);
        write!(f, "{table}")?;
        if !hidden.is_empty() {
            let hidden = hidden.join(", ");
            write!(
                f,
                "\nToo wide for this terminal: {hidden}. A file or a pipe gets them too."
            )?;
        }
        Ok(())
    }
}

/// Returns a table without rows.
pub(super) fn table<'a>(head: impl IntoIterator<Item = &'a str>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(head);
    table
}

/// Whether a table fits the terminal. It fits anything else.
pub(super) fn fits(table: &Table) -> bool {
    let widths = table.column_max_content_widths();
    let needed = 1 + widths.iter().map(|width| width + 3).sum::<u16>();
    table.width().is_none_or(|width| needed <= width)
}

pub(super) fn number(text: impl ToString) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

pub(super) fn optional(text: Option<impl ToString>) -> Cell {
    Cell::new(text.map_or(String::new(), |it| it.to_string()))
}

/// Returns a verdict in green or in red, unless `NO_COLOR` is set.
pub(super) fn colored(verdict: impl ToString, is_well: bool) -> Cell {
    let cell = Cell::new(verdict);
    match std::env::var_os("NO_COLOR").is_some_and(|it| !it.is_empty()) {
        true => cell,
        false => cell.fg(if is_well { Color::Green } else { Color::Red }),
    }
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
    let unit = match mode {
        Mode::Explorer => "faults",
        _ if mode.is_random() => "schedules",
        _ => "preemptions",
    };
    number(bound.map_or("none".to_owned(), |n| format!("{n} {unit}")))
}

/// Returns the table of rows that would run.
pub(super) fn list(tasks: &[Task]) -> Fitted {
    let columns: &[Column<Task>] = &[
        ("row", 0, |task| Cell::new(task.job.name())),
        ("threads", 6, |task| number(task.job.program.threads)),
        ("bound", 4, |task| bound(task.job.bound, task.job.mode)),
        ("claim", 2, |task| Cell::new(&task.job.program.claim)),
    ];
    Fitted::of(columns, tasks)
}

/// Returns the table of rows that ran.
pub(super) fn rows(rows: &[Row]) -> Fitted {
    let columns: &[Column<Row>] = &[
        ("row", 0, |row| Cell::new(&row.name)),
        ("threads", 6, |row| number(row.threads)),
        ("bound", 4, |row| bound(row.bound, row.mode)),
        ("faults", 5, |row| Cell::new(row.faults.join(" "))),
        ("executions", 1, |row| number(row.executions)),
        ("seconds", 3, |row| number(format!("{:.2}", row.seconds))),
        ("outcomes", 7, |row| number(row.outcomes)),
        ("progress", 8, |row| Cell::new(progress(row))),
        ("verdict", 0, |row| {
            colored(verdict(row), row.verdict.passes())
        }),
    ];
    Fitted::of(columns, rows)
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

/// Returns a row's verdict, with `BLIND SPOT` if the mode is known to deviate in this row. For the
/// buggy form of a known bug: whether the bug is found.
fn verdict(row: &Row) -> String {
    if row.known.as_ref().is_some_and(|it| it.form == "buggy") {
        match row.verdict {
            Verdict::Failed => return "FOUND".to_owned(),
            verdict if verdict.passes() => return format!("NOT FOUND, {}", name(verdict)),
            _ => {}
        }
    }
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
    let agreeing = count(&|row| row.agrees);
    let mut text = format!(
        "{} rows, {executions} executions: {verdicts}. In {agreeing} programs, the explorer finds \
         every outcome that another checker finds.",
        rows.len(),
    );
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

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column<String>] = &[
        ("row", 0, |it| Cell::new(it)),
        ("seconds", 2, |_| number("12345.67")),
        ("why", 1, |_| Cell::new("a long text that wraps ".repeat(9))),
        ("verdict", 0, |_| Cell::new("EXHAUSTED")),
    ];

    /// Returns the lines of a table in a terminal of this width, and the columns left out.
    fn shown(row: &str, width: u16) -> (Vec<String>, Vec<String>) {
        let (mut table, hidden) = Fitted::of(COLUMNS, [&row.to_owned()]).within(width);
        let lines = table.force_no_tty().to_string();
        (lines.lines().map(str::to_owned).collect(), hidden)
    }

    #[test]
    fn a_table_fits_the_terminal() {
        let name = "srl-tree/exclusion/loom/weak";
        for (width, left_out) in [
            (200, vec![]),
            (90, vec![]),
            (80, vec!["seconds"]),
            (60, vec!["seconds", "why"]),
        ] {
            let (lines, hidden) = shown(name, width);
            assert_eq!(hidden, left_out, "{width}: {lines:#?}");
            assert!(
                lines.iter().all(|line| line.len() <= width.into()),
                "{lines:#?}"
            );
            assert!(
                lines[2].contains(name) && lines[2].contains("EXHAUSTED"),
                "{lines:#?}"
            );
        }
        let (lines, _) = shown(&"long-".repeat(30), 60);
        assert!(lines.iter().all(|line| line.len() <= 60), "{lines:#?}");
    }
}
