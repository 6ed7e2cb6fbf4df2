//! Prints the results of a run, and writes them to the file of `--json` and to the report. The
//! report has JSON files, a Markdown page, and an HTML page that needs no other file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::process::ExitCode;

use anyhow::{Context, Result};

use super::args::Common;
use super::build::MODELS;
use super::change::Changes;
use super::models::{models, suites};
use super::output::{exit_code, say, tell_lines};
use super::outputs::{FILES, Outputs, json, replace};
use super::table;
use crate::rows::pairs::{Cell, Table, tables};
use crate::rows::row::{Agreement, Row};

/// The note for a partition, which judges neither mutants nor injected bugs.
pub(super) const SHARED_BY_NONE: &str = "No partition has mutants and injected bugs: run `cargo \
    verify mutants --json` and `cargo verify bugs --json` once, on one machine, and pass the \
    files to `merge`.";

/// The results of a run. Parts that did not run are empty.
#[derive(Default)]
pub(super) struct Results {
    pub(super) rows: Vec<Row>,
    pub(super) tables: Vec<Table>,
    pub(super) changes: Vec<Changes>,
    /// Remarks that do not make the run fail.
    pub(super) notes: Vec<String>,
    /// Problems outside of the rows and changes. Any of them makes the run fail.
    pub(super) errors: Vec<String>,
}

impl Results {
    fn remarks(&self) -> impl Iterator<Item = &String> {
        self.errors.iter().chain(&self.notes)
    }
}

/// Prints and writes the results. Returns exit code 0 if nothing failed.
pub(super) fn conclude(results: &Results, outputs: &Outputs) -> Result<ExitCode> {
    let rows = &results.rows;
    say!("{}", table::rows(rows));
    tell_lines(&table::failures(rows));
    tell_lines(&table::drifts(rows));
    say!("{}", table::summary(rows));
    for changes in &results.changes {
        say!("{}", changes.summary());
    }
    if !results.tables.is_empty() {
        say!("{}", pairs_told(&results.tables));
    }
    let empty: Vec<String> = results.tables.iter().flat_map(Table::problems).collect();
    let remarks = empty.iter().chain(results.remarks());
    remarks.for_each(|remark| say!("{remark}"));
    outputs.write(rows)?;
    let pass = rows.iter().all(|row| !fails(row));
    let killed = results.changes.iter().all(Changes::are_well);
    let is_well = pass && killed && empty.is_empty() && results.errors.is_empty();
    if let Some(folder) = &outputs.report {
        let pages = [json(rows)?, markdown(results), html(results, is_well)];
        let mut texts: Vec<_> = FILES.map(str::to_owned).into_iter().zip(pages).collect();
        for Changes { kind, all } in &results.changes {
            texts.push((format!("{}.json", kind.command()), json(all)?));
        }
        for (name, text) in texts {
            let path = folder.join(name);
            replace(&path, &text).with_context(|| format!("{}: cannot write", path.display()))?;
            say!("Written: {}", path.display());
        }
    }
    Ok(exit_code(is_well))
}

/// Whether a row makes the run fail.
fn fails(row: &Row) -> bool {
    !row.verdict.passes() || row.drifts()
}

/// Returns the circumstances of the run, as names and values.
fn circumstances(rows: &[Row]) -> Vec<(&'static str, String)> {
    let each = |of: fn(&Row) -> String| {
        let all: BTreeSet<String> = rows.iter().map(of).collect();
        Vec::from_iter(all).join("; ")
    };
    let seconds: f64 = rows.iter().map(|row| row.seconds).sum();
    let time = format!("{:.0} min in {} rows", seconds / 60.0, rows.len());
    vec![
        ("options", each(|row| row.run.selection.clone())),
        ("date", each(|row| row.run.date.clone())),
        ("version", each(|row| row.run.version.clone())),
        ("commit", each(|row| row.run.commit.clone())),
        (
            "checkers",
            each(|row| format!("{} {}", row.checker, row.checker_version)),
        ),
        ("compiler", each(|row| row.run.rustc.clone())),
        ("machine", each(|row| row.run.machine.clone())),
        ("processor time", time),
    ]
}

/// Returns what each mode cannot see. Leaves out rows that have a blind spot of their own.
fn blind_spots(rows: &[Row]) -> BTreeMap<String, &str> {
    let of_the_mode = |row: &&Row| row.agreement != Some(Agreement::BlindSpot);
    let spot = |row: &'_ Row| format!("{}, {}", row.mode.checker().name(), row.mode.name());
    let spots = rows.iter().filter(of_the_mode);
    spots.map(|row| (spot(row), &*row.blind_spot)).collect()
}

/// Returns the HTML page. A script in the page makes the first screen and the tables from the data.
fn html(results: &Results, is_well: bool) -> String {
    let rows = &results.rows;
    let changes = results.changes.iter().map(|changes| {
        let Changes { kind, all } = changes;
        serde_json::json!({"title": kind.many(), "told": changes.summary(), "all": all})
    });
    let cells = results.tables.iter().flat_map(|table| &table.cells);
    let data = serde_json::json!({
        "circumstances": circumstances(rows),
        "summary": table::summary(rows),
        "remarks": results.remarks().collect::<Vec<_>>(),
        "well": is_well,
        "bad": rows.iter().filter(|row| fails(row)).map(|row| &row.name).collect::<Vec<_>>(),
        "rows": rows,
        "changes": changes.collect::<Vec<_>>(),
        "cells": cells.collect::<Vec<_>>(),
        "pairs_told": pairs_told(&results.tables),
        "blind_spots": Vec::from_iter(blind_spots(rows)),
    });
    // A `</script>` in a text would end the data's element.
    let data = data.to_string().replace("</", "<\\/");
    let page = include_str!("../../assets/report.html");
    let page = page.replace("/* STYLE */", include_str!("../../assets/report.css"));
    page.replace("/* DATA */", &data)
}

/// Returns the Markdown page.
fn markdown(results: &Results) -> String {
    let rows = &results.rows;
    let mut text = "# Verification report\n\nWritten by `cargo verify`.\n\n".to_owned();
    for (name, value) in circumstances(rows) {
        let _ = writeln!(text, "- {name}: {value}");
    }
    for remark in results.remarks() {
        let _ = writeln!(text, "\n**{remark}**");
    }
    let (summary, drifts) = (table::summary(rows), table::drifts(rows));
    let _ = writeln!(text, "\n{summary}\n{drifts}");
    let failures = table::failures(rows);
    if !failures.is_empty() {
        let _ = writeln!(text, "## What failed\n\n````text\n{failures}````\n");
    }
    let _ = writeln!(text, "## Rows\n\n{}", table::rows(rows).whole());
    for changes in results.changes.iter().filter(|it| !it.all.is_empty()) {
        let (title, summary) = (changes.kind.many(), changes.summary());
        let table = changes.table().whole();
        let _ = writeln!(text, "\n## {title}\n\n{summary}\n\n{table}");
    }
    if !results.tables.is_empty() {
        text.push_str(&chapter_of_pairs(&results.tables));
    }
    let _ = writeln!(text, "\n## Blind spots of the modes\n");
    for (mode, spot) in blind_spots(rows) {
        let _ = writeln!(text, "- {mode}: {spot}");
    }
    text
}

/// Shows the programs in which different threads perform each pair of a primitive's operations.
/// Returns exit code 0 if the tables have no problems.
pub(super) fn pairs(args: &Common) -> Result<ExitCode> {
    let outputs = Outputs::new(args.json.as_ref(), None)?;
    let mut tables = tables(&suites(&models(&args.scope, MODELS, false)?.1));
    let names: Vec<&str> = tables.iter().map(|table| &*table.primitive).collect();
    let names = names.join(", ");
    let missing = format!("no primitive's name contains `{{}}`\n  they are {names}");
    let name = |table: &Table| table.primitive.clone();
    args.retain(&mut tables, name, &missing)?;
    for table in &tables {
        say!("{}\n", table.primitive);
        let matrix = matrix(table);
        if table::fits(&matrix) {
            say!("{matrix}\n");
        }
        table.cells.iter().for_each(|it| say!("{}", line(it)));
        say!();
    }
    say!("{}", pairs_told(&tables));
    let problems: Vec<String> = tables.iter().flat_map(Table::problems).collect();
    problems.iter().for_each(|problem| say!("{problem}"));
    let cells: Vec<&Cell> = tables.iter().flat_map(|table| &table.cells).collect();
    outputs.write(&cells)?;
    Ok(exit_code(problems.is_empty()))
}

/// Returns the number of pairs, and how many of them have programs.
fn pairs_told(tables: &[Table]) -> String {
    let cells = || tables.iter().flat_map(|table| &table.cells);
    let models = cells().filter(|cell| !cell.models.is_empty()).count();
    let reasons = cells().filter(|cell| cell.reason.is_some()).count();
    let empty = cells().filter(|cell| told_of(cell).0 == "EMPTY").count();
    format!(
        "{} pairs of operations of {} primitives: {models} have programs, {reasons} have a \
         reason to need none, {empty} are EMPTY.",
        cells().count(),
        tables.len(),
    )
}

/// Returns the number of programs of each cell, in the lower half of a table.
fn matrix(of: &Table) -> comfy_table::Table {
    let head = std::iter::once("").chain(of.operations.iter().map(String::as_str));
    let mut matrix = table::table(head);
    for (i, row) in of.operations.iter().enumerate() {
        let cells = of.operations[..=i].iter().filter_map(|it| of.cell(row, it));
        let name = comfy_table::Cell::new(row);
        let numbers = cells.map(|cell| table::number(told_of(cell).0));
        matrix.add_row(std::iter::once(name).chain(numbers));
    }
    matrix
}

/// Returns a cell in one word, and the programs in it or the reason why it needs none.
fn told_of(cell: &Cell) -> (String, String) {
    match (&cell.models[..], &cell.reason) {
        ([], Some(reason)) => ("reason".to_owned(), format!("none: {reason}")),
        ([], None) => ("EMPTY".to_owned(), "EMPTY".to_owned()),
        (models, _) => (models.len().to_string(), models.join(", ")),
    }
}

fn line(cell: &Cell) -> String {
    format!("{} × {}: {}", cell.first, cell.second, told_of(cell).1)
}

const EXPLAINED: &str = "A number counts the programs in which one thread performs the operation \
    of the row and another thread that of the column. Programs that run only under random \
    schedules do not count. Each table is symmetric, so its upper half is left out.";

/// Returns the chapter of the Markdown report.
fn chapter_of_pairs(tables: &[Table]) -> String {
    let told = pairs_told(tables);
    let mut text = format!("\n## Pairs of operations\n\n{told}\n\n{EXPLAINED}\n");
    for table in tables {
        let (name, matrix) = (&table.primitive, matrix(table));
        let cells: Vec<String> = table.cells.iter().map(line).collect();
        let _ = writeln!(
            text,
            "\n### {name}\n\n{matrix}\n\n<details><summary>the programs of each cell</summary>\n\n\
             - {}\n\n</details>",
            cells.join("\n- ")
        );
    }
    text
}
