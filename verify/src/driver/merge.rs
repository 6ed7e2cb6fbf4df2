//! `cargo verify merge`: the rows of all partitions, from the files that `--json` wrote.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use serde::de::DeserializeOwned;

use super::evidence::Judged;
use super::partition::Partition;
use crate::row::{Circumstances, Row};

/// Reads what `command` wrote to `path`.
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

/// All mutants, or all defects, of the same sources as rows from a file.
///
/// # Errors
/// Not that: another commit, version or compiler, some that a filter chose, some missing; and those of reading.
pub(super) fn judged<T: DeserializeOwned>(
    path: &Path,
    command: &str,
    (rows, its): (&Circumstances, &Path),
) -> Result<Vec<T>> {
    let all: Vec<Judged<T>> = read(path, command)?;
    if all.is_empty() {
        bail!("{}: there is nothing in it", path.display());
    }
    for Judged { run, .. } in &all {
        same(&sources(rows, run), its, path)?;
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

/// The rows of all `files`, in the order of a run that is not split.
///
/// # Errors
/// A file cannot be read; they are not of one commit, version and selection; a part cannot be; they overlap; a part is missing.
pub(super) fn merge(files: &[PathBuf]) -> Result<Vec<Row>> {
    let mut rows: BTreeMap<usize, (Row, &Path)> = BTreeMap::new();
    let mut names = BTreeSet::new();
    for path in files {
        for row in read::<Row>(path, "cargo verify --json")? {
            part(&row, path)?;
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

/// Looks whether a row is of a part that can be.
fn part(row: &Row, path: &Path) -> Result<()> {
    let text = &row.run.partition;
    let parsed = text.parse::<Partition>();
    parsed.map_err(|why| {
        let path = path.display();
        anyhow!("{path}: {}: partition `{text}`: {why}", row.name)
    })?;
    Ok(())
}

/// Partitions of one run agree in all but the part, the machine and the time.
fn one_run(first: &Circumstances, its: &Path, other: &Circumstances, path: &Path) -> Result<()> {
    let parts = |run: &Circumstances| {
        let count = run.partition.rsplit('/').next().unwrap_or_default();
        format!("{count} partitions of {} rows", run.rows)
    };
    same(&sources(first, other), its, path)?;
    let split = [
        ("options", first.selection.clone(), other.selection.clone()),
        ("split", parts(first), parts(other)),
    ];
    same(&split, its, path)
}

/// What of two runs must be equal.
type Equal = (&'static str, String, String);

fn sources(first: &Circumstances, other: &Circumstances) -> [Equal; 3] {
    [
        ("version", first.version.clone(), other.version.clone()),
        ("commit", first.commit.clone(), other.commit.clone()),
        ("compiler", first.rustc.clone(), other.rustc.clone()),
    ]
}

fn same(pairs: &[Equal], its: &Path, path: &Path) -> Result<()> {
    for (what, first, other) in pairs {
        if first != other {
            bail!(
                "not of one run: {what} `{first}` in {} and `{other}` in {}",
                its.display(),
                path.display()
            );
        }
    }
    Ok(())
}

/// Every row from 1 to the last is there.
fn complete(rows: &[Row], run: &Circumstances) -> Result<()> {
    // They are different numbers from 1 to that.
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
