//! `cargo verify merge`: the rows of all partitions, from their `--json` files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use serde::de::DeserializeOwned;

use super::args::MergeArgs;
use super::build::Built;
use super::circumstances;
use super::evidence::{Evidence, SHARED_BY_NONE};
use super::kill::Judged;
use super::models::{describe, suites};
use super::partition::Partition;
use super::verify::{Outputs, conclude};
use super::workspace::{MODELS, Workspace};
use crate::rows::pairs::tables;
use crate::rows::row::{Circumstances, Row};

/// A run's circumstances, and a file that it wrote.
type Run<'a> = (&'a Circumstances, &'a Path);

/// Runs the command: exit code 0 if the run passes as a whole.
pub(super) fn merge(args: &MergeArgs) -> Result<ExitCode> {
    let rows = joined(&args.files)?;
    let run = rows[0].run.clone();
    let workspace = Workspace::find(&args.scope)?;
    let ours = circumstances::commit(&workspace);
    if run.commit != ours {
        bail!(
            "the rows are of commit {}, but this checkout is {ours}, whose pairs of operations the \
             report would show\n  check that commit out, and merge there",
            run.commit
        );
    }
    let mut evidence = Evidence::default();
    let beside = (&run, &*args.files[0]);
    if let Some(path) = &args.mutants {
        evidence.mutants = judged(path, "cargo verify mutants --json", beside)?;
    }
    if let Some(path) = &args.bugs {
        evidence.bugs = judged(path, "cargo verify bugs --json", beside)?;
    }
    let both = args.mutants.is_some() && args.bugs.is_some();
    if run.selection.contains("--full") && !both {
        evidence.notes.push(SHARED_BY_NONE.to_owned());
    }
    if ours.ends_with("-dirty") || ours == "unknown" {
        evidence.notes.push(format!(
            "Commit {ours}: it cannot be told whether the machines had the same sources."
        ));
    }
    let outputs = Outputs::new(args.json.as_deref(), args.report.as_deref())?;
    let mut of_models = Vec::new();
    if !run.selection.contains("--filter") && !run.selection.contains("--package") {
        let mut built = Built::none_of(workspace, MODELS)?;
        of_models = suites(&describe(&mut built)?);
        evidence.tables = tables(&of_models);
    }
    conclude(&rows, &evidence, &of_models, outputs)
}

/// Reads the file that `command` wrote.
fn read<T: DeserializeOwned>(path: &Path, command: &str) -> Result<Vec<T>> {
    let file = File::open(path).with_context(|| format!("{}: cannot read", path.display()))?;
    serde_json::from_reader(BufReader::new(file)).map_err(|error| {
        let (path, line, column) = (path.display(), error.line(), error.column());
        anyhow!("{path}:{line}:{column}: not what `{command}` writes: {error}")
    })
}

/// Reads all mutants, or all bugs, and checks that they are of the same sources as the rows.
fn judged<T: DeserializeOwned>(path: &Path, command: &str, rows: Run) -> Result<Vec<Judged<T>>> {
    let all: Vec<Judged<T>> = read(path, command)?;
    for Judged { run, .. } in &all {
        same(rows, (run, path), &["version", "commit", "rustc"])?;
    }
    let asked = all.first().map_or(1, |judged| judged.run.rows);
    if asked != all.len() || all.iter().any(|it| !it.run.selection.is_empty()) {
        bail!(
            "{}: it has {} of {asked} rows: write it with `{command}`, without a filter",
            path.display(),
            all.len()
        );
    }
    Ok(all)
}

/// Returns the rows of all `files`, in the order of a run that is not split.
fn joined(files: &[PathBuf]) -> Result<Vec<Row>> {
    let mut rows: BTreeMap<usize, (Row, &Path)> = BTreeMap::new();
    let mut names = BTreeSet::new();
    for path in files {
        for row in read::<Row>(path, "cargo verify --json")? {
            let (path_, number, name) = (path.display(), row.number, row.name.clone());
            let text = &row.run.partition;
            (text.parse::<Partition>())
                .map_err(|why| anyhow!("{path_}: {name}: partition `{text}`: {why}"))?;
            if let Some((_, (first, its))) = rows.first_key_value() {
                let fields = ["version", "commit", "rustc", "selection", "rows"];
                same((&first.run, its), (&row.run, path), &fields)?;
            }
            if !(1..=row.run.rows).contains(&number) {
                bail!(
                    "{path_}: {name}: there is no row {number} of {}",
                    row.run.rows
                );
            }
            if let Some((_, other)) = rows.insert(number, (row, path)) {
                let other = other.display();
                bail!("partitions overlap: row {number}, {name}, is in {other} and in {path_}");
            }
            if !names.insert(name.clone()) {
                bail!("{path_}: {name} is there twice, the second time as row {number}");
            }
        }
    }
    let rows: Vec<Row> = rows.into_values().map(|(row, _)| row).collect();
    let Some(first) = rows.first() else {
        bail!("there are no rows in these files");
    };
    // The numbers are distinct, and lie between 1 and `rows`.
    if rows.len() < first.run.rows {
        let parts: BTreeSet<&str> = rows.iter().map(|row| &*row.run.partition).collect();
        bail!(
            "partitions are missing: {} of {} rows are there, of {}",
            rows.len(),
            first.run.rows,
            Vec::from_iter(parts).join(", ")
        );
    }
    Ok(rows)
}

/// Checks that two runs agree in these fields.
fn same((one, its): Run, (other, path): Run, fields: &[&str]) -> Result<()> {
    let (one, other) = (serde_json::to_value(one)?, serde_json::to_value(other)?);
    for field in fields {
        let (one, other) = (&one[field], &other[field]);
        if one != other {
            let (its, path) = (its.display(), path.display());
            bail!("not of one run: {field} is {one} in {its}, and {other} in {path}");
        }
    }
    Ok(())
}
