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
use super::evidence::{Evidence, Judged, SHARED_BY_NONE};
use super::models::{describe, suites};
use super::partition::Partition;
use super::verify::{Outputs, conclude};
use super::workspace::{MODELS, Workspace};
use crate::rows::pairs::tables;
use crate::rows::row::{Circumstances, Row};

/// Runs the command: exit code 0 if the run passes as a whole.
///
/// # Errors
/// The files are not of one run, or not of this commit.
pub(super) fn merge(args: &MergeArgs) -> Result<ExitCode> {
    let rows = joined(&args.files)?;
    let run = rows[0].run.clone();
    let workspace = Workspace::find(&args.scope)?;
    let ours = circumstances::commit(&workspace);
    if run.commit != ours {
        bail!(
            "the rows are of commit {}, and this is {ours}: its pairs of operations would stand \
             beside them\n  check that commit out, and merge there",
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
    let outputs = Outputs::new(args.json.as_deref(), args.report.clone())?;
    let mut of_models = Vec::new();
    if circumstances::is_whole(&run) {
        let mut built = Built::none_of(workspace, MODELS)?;
        of_models = suites(&describe(&mut built)?);
        evidence.tables = tables(&of_models);
    }
    conclude(&rows, &evidence, &of_models, outputs)
}

/// Reads the file that `command` wrote.
///
/// # Errors
/// It cannot be read, or is something else: with line and column.
fn read<T: DeserializeOwned>(path: &Path, command: &str) -> Result<Vec<T>> {
    let file = File::open(path).with_context(|| format!("{}: cannot read", path.display()))?;
    serde_json::from_reader(BufReader::new(file)).map_err(|error| {
        anyhow!(
            "{}:{}:{}: not what `{command}` writes: {error}",
            path.display(),
            error.line(),
            error.column()
        )
    })
}

/// Returns all mutants, or all bugs, from a file: of the same sources as the rows.
///
/// # Errors
/// It is of another commit, version or compiler, or not complete, or cannot be read.
fn judged<T: DeserializeOwned>(
    path: &Path,
    command: &str,
    (rows, its): (&Circumstances, &Path),
) -> Result<Vec<T>> {
    let all: Vec<Judged<T>> = read(path, command)?;
    if all.is_empty() {
        bail!("{}: it is empty", path.display());
    }
    for Judged { run, .. } in &all {
        same_sources(rows, its, run, path)?;
        if !run.selection.is_empty() || run.rows != all.len() {
            bail!(
                "{}: {} of {} are there: write it by `{command}`, with no filter",
                path.display(),
                all.len(),
                run.rows
            );
        }
    }
    Ok(all.into_iter().map(|judged| judged.what).collect())
}

/// Returns the rows of all `files`, in the order of a run that is not split.
///
/// # Errors
/// A file cannot be read. The files are not of one commit, version and selection. Partitions
/// overlap, or one is missing.
fn joined(files: &[PathBuf]) -> Result<Vec<Row>> {
    let mut rows: BTreeMap<usize, (Row, &Path)> = BTreeMap::new();
    let mut names = BTreeSet::new();
    for path in files {
        for row in read::<Row>(path, "cargo verify --json")? {
            let partition = row.run.partition.parse::<Partition>();
            partition.map_err(|why| {
                let (path, name, text) = (path.display(), &row.name, &row.run.partition);
                anyhow!("{path}: {name}: partition `{text}`: {why}")
            })?;
            if let Some((first, its)) = rows.first_key_value().map(|(_, (row, its))| (row, its)) {
                one_run(&first.run, its, &row.run, path)?;
            }
            let (number, name) = (row.number, row.name.clone());
            if !(1..=row.run.rows).contains(&number) {
                bail!(
                    "{}: {name}: there is no row {number} of {}",
                    path.display(),
                    row.run.rows
                );
            }
            let is_new = names.insert(name.clone());
            if let Some((_, other)) = rows.insert(number, (row, path)) {
                bail!(
                    "partitions overlap: row {number}, {name}, is in {} and in {}",
                    other.display(),
                    path.display()
                );
            }
            if !is_new {
                bail!(
                    "{}: {name} is there twice, the second time as row {number}",
                    path.display()
                );
            }
        }
    }
    let rows: Vec<Row> = rows.into_values().map(|(row, _)| row).collect();
    let Some(first) = rows.first() else {
        bail!("there are no rows in these files");
    };
    complete(&rows, &first.run)?;
    Ok(rows)
}

/// Checks that two rows are of one run: alike in all but partition, machine and time.
fn one_run(first: &Circumstances, its: &Path, other: &Circumstances, path: &Path) -> Result<()> {
    same_sources(first, its, other, path)?;
    let parts = |run: &Circumstances| {
        let count = run.partition.rsplit('/').next().unwrap_or_default();
        format!("{count} partitions of {} rows", run.rows)
    };
    same("options", &first.selection, its, &other.selection, path)?;
    same("split", &parts(first), its, &parts(other), path)
}

fn same_sources(
    first: &Circumstances,
    its: &Path,
    other: &Circumstances,
    path: &Path,
) -> Result<()> {
    same("version", &first.version, its, &other.version, path)?;
    same("commit", &first.commit, its, &other.commit, path)?;
    same("compiler", &first.rustc, its, &other.rustc, path)
}

fn same(what: &str, first: &str, its: &Path, other: &str, path: &Path) -> Result<()> {
    if first != other {
        let (its, path) = (its.display(), path.display());
        bail!("not of one run: {what} `{first}` in {its} and `{other}` in {path}");
    }
    Ok(())
}

/// Checks that every row from 1 to the last is there.
fn complete(rows: &[Row], run: &Circumstances) -> Result<()> {
    // Their numbers differ, and lie between 1 and that.
    if rows.len() == run.rows {
        return Ok(());
    }
    let mut parts: Vec<&str> = rows.iter().map(|row| &*row.run.partition).collect();
    parts.sort_unstable();
    parts.dedup();
    bail!(
        "partitions are missing: {} of {} rows are there, of {}",
        rows.len(),
        run.rows,
        parts.join(", ")
    )
}
