//! `cargo verify merge`: joins the rows of all partitions from their `--json` files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::de::DeserializeOwned;

use super::args::MergeArgs;
use super::build::{Built, MODELS};
use super::change::{Change, Changes, Kind};
use super::models::{models, suites};
use super::outputs::Outputs;
use super::partition::Partition;
use super::report::{Results, SHARED_BY_NONE, conclude};
use crate::rows::pairs::tables;
use crate::rows::row::{Circumstances, Row};

/// The circumstances of a run, and a file that the run wrote.
type Run<'a> = (&'a Circumstances, &'a Path);

/// Runs the command. Returns exit code 0 if the run passes as a whole.
pub(super) fn merge(args: &MergeArgs) -> Result<ExitCode> {
    let rows = joined(&args.files)?;
    let run = rows[0].run.clone();
    let ours = Built::none_of(&args.scope, MODELS)?.commit();
    ensure!(
        run.commit == ours,
        "the rows are of commit {}, but this checkout is {ours}, and the report takes the \
         pairs of operations from the checkout\n  check out the rows' commit, and merge there",
        run.commit
    );
    let mut results = Results {
        rows,
        ..Results::default()
    };
    for (kind, path) in Kind::ALL.into_iter().zip([&args.mutants, &args.bugs]) {
        if let Some(path) = path {
            let all = changes(path, kind, (&run, &args.files[0]))?;
            results.changes.push(Changes { kind, all });
        }
    }
    if run.selection.contains("--full") && results.changes.len() < Kind::ALL.len() {
        results.notes.push(SHARED_BY_NONE.to_owned());
    }
    if ours.ends_with("-dirty") || ours == "unknown" {
        results.notes.push(format!(
            "Commit {ours}: the machines may have had different sources."
        ));
    }
    let outputs = Outputs::new(args.json.as_ref(), args.report.as_ref())?;
    if !run.selection.contains("--filter") && !run.selection.contains("--package") {
        results.tables = tables(&suites(&models(&args.scope, MODELS, false)?.1));
    }
    conclude(&results, &outputs)
}

/// Reads the file that `command` wrote.
fn read<T: DeserializeOwned>(path: &Path, command: &str) -> Result<Vec<T>> {
    let file = File::open(path).with_context(|| format!("{}: cannot read", path.display()))?;
    serde_json::from_reader(BufReader::new(file)).map_err(|error| {
        let (path, line, column) = (path.display(), error.line(), error.column());
        anyhow!("{path}:{line}:{column}: not what `{command}` writes: {error}")
    })
}

/// Reads all changes of a kind, and checks that they have the rows' version, commit and compiler.
fn changes(path: &Path, kind: Kind, rows: Run) -> Result<Vec<Change>> {
    let command = format!("cargo verify {} --json", kind.command());
    let all: Vec<Change> = read(path, &command)?;
    for Change { run, .. } in &all {
        same(rows, (run, path), &["version", "commit", "rustc"])?;
    }
    let is_right = |it: &Change| it.kind == kind.command() && it.run.selection.is_empty();
    let asked = all.first().map_or(1, |changes| changes.run.rows);
    ensure!(
        asked == all.len() && all.iter().all(is_right),
        "{}: not the whole result of a run ({} of {asked}): write it with `{command}`, without a filter",
        path.display(),
        all.len()
    );
    Ok(all)
}

/// Returns the rows of all `files`, in the order of an unpartitioned run.
fn joined(files: &[PathBuf]) -> Result<Vec<Row>> {
    let mut rows: BTreeMap<usize, (Row, &Path)> = BTreeMap::new();
    for path in files {
        for row in read::<Row>(path, "cargo verify --json")? {
            let (file, number, name) = (path.display(), row.number, row.name.clone());
            let part = &row.run.partition;
            (part.parse::<Partition>())
                .map_err(|why| anyhow!("{file}: {name}: partition `{part}`: {why}"))?;
            if let Some((_, (first, its))) = rows.first_key_value() {
                let fields = ["version", "commit", "rustc", "selection", "rows"];
                same((&first.run, its), (&row.run, path), &fields)?;
            }
            let all = row.run.rows;
            ensure!(
                (1..=all).contains(&number),
                "{file}: {name}: there is no row {number} of {all}"
            );
            if let Some((_, other)) = rows.insert(number, (row, path)) {
                let other = other.display();
                bail!("partitions overlap: row {number}, {name}, is in {other} and in {file}");
            }
        }
    }
    let rows: Vec<Row> = rows.into_values().map(|(row, _)| row).collect();
    let Some(first) = rows.first() else {
        bail!("there are no rows in these files");
    };
    let names: BTreeSet<&str> = rows.iter().map(|row| &*row.name).collect();
    let parts: BTreeSet<&str> = rows.iter().map(|row| &*row.run.partition).collect();
    ensure!(
        names.len() == first.run.rows,
        "partitions are missing: {} of {} rows were found, from the partitions {}",
        names.len(),
        first.run.rows,
        Vec::from_iter(parts).join(", ")
    );
    Ok(rows)
}

/// Checks that two runs have the same values in these fields.
fn same((one, its): Run, (other, path): Run, fields: &[&str]) -> Result<()> {
    let (one, other) = (serde_json::to_value(one)?, serde_json::to_value(other)?);
    for field in fields {
        let (one, other) = (&one[field], &other[field]);
        let (its, path) = (its.display(), path.display());
        ensure!(
            one == other,
            "not of one run: {field} is {one} in {its}, and {other} in {path}"
        );
    }
    Ok(())
}
