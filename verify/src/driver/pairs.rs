//! `cargo verify pairs`: the programs in which different threads perform each two operations of a
//! primitive. And their chapter of the report.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::Result;

use super::args::Common;
use super::build::MODELS;
use super::models::{models, suites};
use super::report::Json;
use super::{exit_code, retain_meant, table};
use crate::rows::pairs::{Cell, Table, tables};

/// Runs the command: exit code 0 if no cell is empty without a reason.
pub(super) fn pairs(args: &Common) -> Result<ExitCode> {
    let json = Json::at(args.json.as_deref())?;
    let mut tables = tables(&suites(&models(&args.scope, MODELS)?.1));
    let names: Vec<&str> = tables.iter().map(|table| &*table.primitive).collect();
    let names = names.join(", ");
    let missing = format!("no primitive's name contains `{{}}`\n  they are {names}");
    let name = |table: &Table| table.primitive.clone();
    retain_meant(&mut tables, &args.filter, name, &missing)?;
    for table in &tables {
        println!("{}\n\n{}\n", table.primitive, matrix(table));
        table.cells.iter().for_each(|it| println!("{}", line(it)));
        println!();
    }
    println!("{}", told(&tables));
    let problems: Vec<String> = tables.iter().flat_map(Table::problems).collect();
    problems.iter().for_each(|problem| println!("{problem}"));
    let cells: Vec<&Cell> = tables.iter().flat_map(|table| &table.cells).collect();
    json.write(&cells)?;
    Ok(exit_code(problems.is_empty()))
}

/// Returns how many pairs there are and how many have programs.
pub(super) fn told(tables: &[Table]) -> String {
    let cells = || tables.iter().flat_map(|table| &table.cells);
    let models = cells().filter(|cell| !cell.models.is_empty()).count();
    let reasons = cells().filter(|cell| cell.reason.is_some()).count();
    let empty = cells().filter(|cell| short(cell) == "EMPTY").count();
    format!(
        "{} pairs of operations of {} primitives: {models} have models, {reasons} need none for a \
         reason, {empty} are EMPTY.",
        cells().count(),
        tables.len(),
    )
}

/// Returns how many programs each cell has, in the lower half of the table.
fn matrix(of: &Table) -> comfy_table::Table {
    let head = std::iter::once("").chain(of.operations.iter().map(String::as_str));
    let mut matrix = table::table(head);
    for (i, row) in of.operations.iter().enumerate() {
        let cells = of.operations[..=i].iter().filter_map(|it| of.cell(row, it));
        let name = comfy_table::Cell::new(row);
        let numbers = cells.map(|cell| table::number(short(cell)));
        matrix.add_row(std::iter::once(name).chain(numbers));
    }
    matrix
}

/// Returns a cell in a word.
fn short(cell: &Cell) -> String {
    match (&cell.models[..], &cell.reason) {
        ([], Some(_)) => "reason".to_owned(),
        ([], None) => "EMPTY".to_owned(),
        (models, _) => models.len().to_string(),
    }
}

/// Returns a cell and its programs.
fn line(cell: &Cell) -> String {
    let what = match (&cell.models[..], &cell.reason) {
        ([], Some(reason)) => format!("none: {reason}"),
        ([], None) => "EMPTY".to_owned(),
        (models, _) => models.join(", "),
    };
    format!("{} × {}: {what}", cell.first, cell.second)
}

const EXPLAINED: &str = "A number says how many models have one thread perform the one operation \
    and another thread the other. Only models that are searched count. The upper half of each table \
    would be the same as the lower.";

/// Returns the chapter of the Markdown report.
pub(super) fn markdown(tables: &[Table]) -> String {
    let told = told(tables);
    let mut text = format!("\n## Pairs of operations\n\n{told}\n\n{EXPLAINED}\n");
    for table in tables {
        let (name, matrix) = (&table.primitive, matrix(table));
        let cells: Vec<String> = table.cells.iter().map(line).collect();
        let _ = writeln!(
            text,
            "\n### {name}\n\n{matrix}\n\n<details><summary>the models of each cell</summary>\n\n- \
             {}\n\n</details>",
            cells.join("\n- ")
        );
    }
    text
}
