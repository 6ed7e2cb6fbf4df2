//! `cargo verify pairs`: the programs in which different threads perform each two operations of a
//! primitive. And their chapter of the report.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::{Result, bail};

use super::args::Common;
use super::build::Built;
use super::exit_code;
use super::models::{describe, suites};
use super::output::{json_at, write_json};
use super::table;
use super::workspace::{MODELS, Workspace};
use crate::rows::pairs::{Cell, Table, problems, tables};

/// Runs the command: exit code 0 if no cell is empty without a reason.
///
/// # Errors
/// A filter that no primitive's name contains, a file that cannot be written, a failed build.
pub(super) fn pairs(args: &Common) -> Result<ExitCode> {
    let file = json_at(args.json.as_deref())?;
    let mut built = Built::none_of(Workspace::find(&args.scope)?, MODELS)?;
    let mut suites = suites(&describe(&mut built)?);
    let mut tables = tables(&suites);
    for text in &args.filter {
        if !tables.iter().any(|table| table.primitive.contains(text)) {
            let names: Vec<_> = tables.iter().map(|table| &*table.primitive).collect();
            bail!(
                "no primitive's name contains `{text}`\n  they are {}",
                names.join(", ")
            );
        }
    }
    let is_meant =
        |name: &str| args.filter.is_empty() || args.filter.iter().any(|it| name.contains(it));
    tables.retain(|table| is_meant(&table.primitive));
    for table in &tables {
        println!("{}\n\n{}\n", table.primitive, matrix(table));
        table
            .cells
            .iter()
            .for_each(|cell| println!("{}", line(cell)));
        println!();
    }
    println!("{}", told(&tables));
    // Suites that are left out may still cover the pairs of others.
    for suite in &mut suites {
        suite.has_pairs &= is_meant(&suite.name);
    }
    let problems = problems(&suites);
    problems.iter().for_each(|problem| println!("{problem}"));
    let cells: Vec<&Cell> = tables.iter().flat_map(|table| &table.cells).collect();
    write_json(file.as_ref(), "Cells", &cells)?;
    Ok(exit_code(problems.is_empty()))
}

/// Returns how many pairs there are and how many have programs.
pub(super) fn told(tables: &[Table]) -> String {
    let cells = || tables.iter().flat_map(|table| &table.cells);
    let models = cells().filter(|cell| !cell.models.is_empty()).count();
    let reasons = cells().filter(|cell| cell.reason.is_some()).count();
    let empty = cells().filter(|cell| cell.models.is_empty() && cell.reason.is_none());
    format!(
        "{} pairs of operations of {} primitives: {models} have models, {reasons} need none for a \
         reason, {} are EMPTY.",
        cells().count(),
        tables.len(),
        empty.count(),
    )
}

/// Returns how many programs each cell has, in the lower half of the table.
fn matrix(of: &Table) -> String {
    let mut head = vec![""];
    head.extend(of.operations.iter().map(String::as_str));
    let mut matrix = table::table(&head);
    for (i, row) in of.operations.iter().enumerate() {
        let mut cells = vec![comfy_table::Cell::new(row)];
        let columns = of.operations[..=i].iter();
        cells.extend(columns.map(|column| table::number(short(of, row, column))));
        matrix.add_row(cells);
    }
    matrix.to_string()
}

/// Returns a cell in a word.
fn short(of: &Table, row: &str, column: &str) -> String {
    match of.cell(row, column) {
        Some(cell) if !cell.models.is_empty() => cell.models.len().to_string(),
        Some(cell) if cell.reason.is_some() => "reason".to_owned(),
        _ => "EMPTY".to_owned(),
    }
}

/// Returns a cell and its programs.
fn line(cell: &Cell) -> String {
    let Cell { first, second, .. } = cell;
    let what = match (&cell.models[..], &cell.reason) {
        ([], Some(reason)) => format!("none: {reason}"),
        ([], None) => "EMPTY".to_owned(),
        (models, _) => models.join(", "),
    };
    format!("{first} × {second}: {what}")
}

const EXPLAINED: &str = "A number says how many models have one thread perform the one operation \
    and another thread the other. Only models that are searched count. The upper half of each table \
    would be the same as the lower.";

/// Returns the chapter of the Markdown report.
pub(super) fn markdown(tables: &[Table]) -> String {
    let told = told(tables);
    let mut text = format!("\n## Pairs of operations\n\n{told}\n\n{EXPLAINED}\n");
    for table in tables {
        let _ = writeln!(text, "\n### {}\n\n{}\n", table.primitive, matrix(table));
        let _ = writeln!(
            text,
            "<details><summary>the models of each cell</summary>\n"
        );
        for cell in &table.cells {
            let _ = writeln!(text, "- {}", line(cell));
        }
        let _ = writeln!(text, "\n</details>");
    }
    text
}
