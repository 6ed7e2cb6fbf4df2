//! What a run ends with: its results on the terminal, in the file of `--json`, and in the report.
//! The report is `verify.json`, a page in Markdown, and one in HTML that needs no other file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf, absolute};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use super::kill::{Changes, KINDS};
use super::{exit_code, pairs, table};
use crate::rows::pairs::Table;
use crate::rows::row::{Agreement, Row};

/// The note for a partition, which has neither mutants nor injected bugs.
pub(super) const SHARED_BY_NONE: &str = "Mutants and injected bugs are in no partition: run `cargo \
    verify mutants --json` and `cargo verify bugs --json` once, on one machine, and give the files \
    to `merge`.";

/// What a run found. What was not examined is empty.
#[derive(Default)]
pub(super) struct Results {
    pub(super) rows: Vec<Row>,
    pub(super) tables: Vec<Table>,
    pub(super) changes: Vec<Changes>,
    /// Remarks that do not fail the run.
    pub(super) notes: Vec<String>,
    /// Parts that could not be judged: the run fails.
    pub(super) errors: Vec<String>,
}

impl Results {
    fn remarks(&self) -> impl Iterator<Item = &String> {
        self.errors.iter().chain(&self.notes)
    }
}

/// Where results go, besides the terminal.
pub(super) struct Outputs {
    json: Json,
    /// The folder of the report.
    pub(super) report: Option<PathBuf>,
}

impl Outputs {
    /// Checks that everything can be written.
    pub(super) fn new(json: Option<&Path>, report: Option<&Path>) -> Result<Self> {
        if let Some(folder) = report {
            let place = folder.display();
            ensure!(folder.is_dir(), "--report {place}: there is no such folder");
            for path in files(folder) {
                check(&path)
                    .with_context(|| format!("--report: cannot write {}", path.display()))?;
            }
        }
        Ok(Outputs {
            json: Json::at(json)?,
            report: report.map(Path::to_owned),
        })
    }
}

/// Returns the files of a report, the rows and pages first, then one for each kind of changes.
fn files(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let names = ["verify.json", "verify.md", "verify.html"].map(str::to_owned);
    let changes = KINDS.iter().map(|kind| format!("{}.json", kind.command));
    names
        .into_iter()
        .chain(changes)
        .map(|name| folder.join(name))
}

/// Prints and writes the results: exit code 0 if all is well.
pub(super) fn conclude(results: &Results, outputs: &Outputs) -> Result<ExitCode> {
    let rows = &results.rows;
    println!("{}", table::rows(rows));
    print!("{}{}", table::failures(rows), table::drifts(rows));
    println!("{}", table::summary(rows));
    for changes in &results.changes {
        println!("{}", changes.summary());
    }
    if !results.tables.is_empty() {
        println!("{}", pairs::told(&results.tables));
    }
    let empty: Vec<String> = results.tables.iter().flat_map(Table::problems).collect();
    let remarks = empty.iter().chain(results.remarks());
    remarks.for_each(|remark| println!("{remark}"));
    outputs.json.write(rows)?;
    if let Some(folder) = &outputs.report {
        let mut texts = vec![json(rows)?, markdown(results), html(results)];
        for kind in &KINDS {
            let mut all = results
                .changes
                .iter()
                .filter(|it| it.kind.command == kind.command);
            texts.push(all.next().map_or(Ok(String::new()), |it| json(&it.all))?);
        }
        for (path, text) in files(folder)
            .zip(texts)
            .filter(|(_, text)| !text.is_empty())
        {
            fs::write(&path, text).with_context(|| format!("{}: cannot write", path.display()))?;
            println!("Written: {}", path.display());
        }
    }
    let pass = rows.iter().all(|row| row.verdict.passes() && !row.drifts());
    let killed = results.changes.iter().all(Changes::are_well);
    Ok(exit_code(
        pass && killed && empty.is_empty() && results.errors.is_empty(),
    ))
}

/// Returns the circumstances of the run, in lines.
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
        ("checkers", each(|row| row.checker.clone())),
        ("compiler", each(|row| row.run.rustc.clone())),
        ("machine", each(|row| row.run.machine.clone())),
        ("processor time", time),
    ]
}

/// Returns what each mode cannot see. A litmus row that deviates has a blind spot of its own.
fn blind_spots(rows: &[Row]) -> BTreeMap<String, &str> {
    let of_the_mode = |row: &&Row| row.agreement != Some(Agreement::BlindSpot);
    let spot = |row: &'_ Row| format!("{}, {}", row.mode.checker().name(), row.mode);
    let spots = rows.iter().filter(of_the_mode);
    spots.map(|row| (spot(row), &*row.blind_spot)).collect()
}

/// Returns the page in HTML: a script in it makes the tables from the data.
fn html(results: &Results) -> String {
    let rows = &results.rows;
    let changes = results.changes.iter().map(|changes| {
        let Changes { kind, all } = changes;
        serde_json::json!({"title": kind.many, "told": changes.summary(), "all": all})
    });
    let cells = results.tables.iter().flat_map(|table| &table.cells);
    let data = serde_json::json!({
        "circumstances": circumstances(rows),
        "summary": table::summary(rows),
        "remarks": results.remarks().collect::<Vec<_>>(),
        "rows": rows,
        "changes": changes.collect::<Vec<_>>(),
        "cells": cells.collect::<Vec<_>>(),
        "pairs_told": pairs::told(&results.tables),
        "blind_spots": Vec::from_iter(blind_spots(rows)),
    });
    // A `</script>` in a text would end the data.
    let data = data.to_string().replace("</", "<\\/");
    include_str!("../../assets/report.html").replace("/* DATA */", &data)
}

/// Returns the page in Markdown.
fn markdown(results: &Results) -> String {
    let rows = &results.rows;
    let mut text = "# What was verified\n\nWritten by `cargo verify`.\n\n".to_owned();
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
    let _ = writeln!(text, "## Rows\n\n{}", table::rows(rows).force_no_tty());
    for changes in results.changes.iter().filter(|it| !it.all.is_empty()) {
        let (title, summary) = (changes.kind.many, changes.summary());
        let mut table = changes.table();
        let table = table.force_no_tty();
        let _ = writeln!(text, "\n## {title}\n\n{summary}\n\n{table}");
    }
    if !results.tables.is_empty() {
        text.push_str(&pairs::markdown(&results.tables));
    }
    let _ = writeln!(text, "\n## What a mode cannot see\n");
    for (mode, spot) in blind_spots(rows) {
        let _ = writeln!(text, "- {mode}: {spot}");
    }
    text
}

/// Checks that a file can be written at `path`, and changes nothing there.
pub(super) fn check(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        // A terminal, a pipe or `/dev/null`: it is opened when it is written.
        Ok(there) if !there.is_file() && !there.is_dir() => Ok(()),
        Ok(_) => File::options().append(true).open(path).map(drop),
        Err(_) => {
            let path = absolute(path)?;
            tempfile::tempfile_in(path.parent().unwrap_or(&path)).map(drop)
        }
    }
}

/// Returns `rows` as the text of a JSON file.
pub(super) fn json(rows: &[impl Serialize]) -> Result<String> {
    Ok(serde_json::to_string_pretty(rows)? + "\n")
}

/// The place that `--json` names, if it is given.
pub(super) struct Json(Option<PathBuf>);

impl Json {
    /// Checks the place.
    pub(super) fn at(path: Option<&Path>) -> Result<Self> {
        if let Some(path) = path {
            check(path)
                .with_context(|| format!("--json {}: cannot write there", path.display()))?;
        }
        Ok(Json(path.map(Path::to_owned)))
    }

    /// Writes `rows`, if a place is given, and says where.
    pub(super) fn write(&self, rows: &[impl Serialize]) -> Result<()> {
        let Some(file) = &self.0 else { return Ok(()) };
        let path = file.display();
        fs::write(file, json(rows)?).with_context(|| format!("--json {path}: cannot write"))?;
        println!("Rows written to {path}.");
        Ok(())
    }
}
