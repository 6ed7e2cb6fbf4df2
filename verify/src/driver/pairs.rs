//! `cargo verify pairs`: which models have which two operations of a primitive in different threads. And what the report says of it.

use std::fmt::Write;
use std::process::ExitCode;

use anyhow::{Result, bail};

use super::{PairsArgs, report, table, writable, write_json};
use crate::pairs::{Cell, Operation, Table, problems, tables};

/// Runs the command: exit code 0 if no cell is empty without a reason.
///
/// # Errors
/// A filter that no primitive's name contains, a file that cannot be written.
pub(super) fn pairs(args: &PairsArgs) -> Result<ExitCode> {
    let file = args.json.as_deref().map(writable).transpose()?;
    let mut tables = tables();
    for text in &args.filter {
        if !tables.iter().any(|table| table.primitive.contains(text)) {
            let names: Vec<_> = tables.iter().map(|table| table.primitive).collect();
            let names = names.join(", ");
            bail!("no primitive's name contains `{text}`\n  they are {names}");
        }
    }
    let is_meant = |table: &Table| args.filter.iter().any(|it| table.primitive.contains(it));
    tables.retain(|table| args.filter.is_empty() || is_meant(table));
    for table in &tables {
        println!("{}\n\n{}\n", table.primitive, matrix(table));
        for cell in &table.cells {
            println!("{}", line(cell));
        }
        println!();
    }
    let problems = problems(&tables);
    println!("{}", told(&tables));
    problems.iter().for_each(|problem| println!("{problem}"));
    if let Some(file) = file {
        let cells: Vec<&Cell> = tables.iter().flat_map(|table| &table.cells).collect();
        write_json(&file, "Cells", &cells)?;
    }
    Ok(if problems.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// A sentence.
pub(super) fn told(tables: &[Table]) -> String {
    let cells = || tables.iter().flat_map(|table| &table.cells);
    let (models, empty) = (
        cells().filter(|cell| !cell.models.is_empty()).count(),
        cells().filter(|cell| cell.models.is_empty() && cell.reason.is_none()),
    );
    let reasons = cells().filter(|cell| cell.reason.is_some()).count();
    format!(
        "{} pairs of operations of {} primitives: {models} have models, {reasons} need none for a reason, {} are EMPTY.",
        cells().count(),
        tables.len(),
        empty.count(),
    )
}

/// How many models each cell has; the half of the table that says all.
fn matrix(of: &Table) -> String {
    let mut head = vec![""];
    head.extend(of.operations.iter().map(|operation| operation.name()));
    let mut matrix = table::table(&head);
    for &row in &of.operations {
        let mut cells = vec![table::text(row.name())];
        cells.extend(columns(of, row).map(|column| table::number(short(of, row, column))));
        matrix.add_row(cells);
    }
    matrix.to_string()
}

/// The columns of a row: up to itself.
fn columns(of: &Table, row: Operation) -> impl Iterator<Item = Operation> {
    let operations = of.operations.iter().copied();
    operations.take_while(move |&column| column <= row)
}

/// A cell, as short as can be.
fn short(of: &Table, row: Operation, column: Operation) -> String {
    match of.cell(row, column) {
        Some(cell) if !cell.models.is_empty() => cell.models.len().to_string(),
        Some(cell) if cell.reason.is_some() => "reason".to_owned(),
        _ => "EMPTY".to_owned(),
    }
}

/// A cell, and its models.
fn line(cell: &Cell) -> String {
    let Cell { first, second, .. } = cell;
    let what = match (&cell.models[..], cell.reason) {
        ([], Some(reason)) => format!("none: {reason}"),
        ([], None) => "EMPTY".to_owned(),
        (models, _) => models.join(", "),
    };
    format!("{first} × {second}: {what}")
}

/// The chapter of the Markdown report.
pub(super) fn markdown(tables: &[Table]) -> String {
    let mut text = format!(
        "\n## Pairs of operations\n\n{}\n\n{EXPLAINED}\n",
        told(tables)
    );
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

/// The chapter of the HTML report.
pub(super) fn html(tables: &[Table]) -> String {
    let mut text = format!(
        "<h2>Pairs of operations</h2>\n<p>{} {EXPLAINED}</p>\n",
        told(tables)
    );
    for table in tables {
        let _ = write!(
            text,
            "<h3>{}</h3>\n<table class=\"pairs\"><thead><tr><th>",
            table.primitive
        );
        for operation in &table.operations {
            let _ = write!(text, "<th>{operation}");
        }
        let _ = writeln!(text, "</tr></thead><tbody>");
        for &row in &table.operations {
            let _ = write!(text, "<tr><td>{row}");
            for column in columns(table, row) {
                let cell = short(table, row, column);
                let names = table.cell(row, column).map_or(String::new(), line);
                let names = report::escaped(&names);
                let _ = write!(text, "<td class=\"n {cell}\" title=\"{names}\">{cell}");
            }
            let _ = writeln!(text, "</tr>");
        }
        let _ = writeln!(
            text,
            "</tbody></table><details><summary>the models of each cell</summary><ul>"
        );
        for cell in &table.cells {
            let _ = writeln!(text, "<li>{}", report::escaped(&line(cell)));
        }
        let _ = writeln!(text, "</ul></details>");
    }
    text
}

const EXPLAINED: &str = "A number says how many models have one thread perform the one operation and another thread the other; only models that are searched count. \
                         Of two halves that would be the same, the lower is shown.";
