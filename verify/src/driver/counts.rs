//! The executions of each row, committed: `executions.tsv`.
//!
//! A search is deterministic, so another number is another search: of a changed lock, model or checker. It is told, and has to be
//! accepted. The numbers also say which rows are quick, and which to start first.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::plan::Job;
use crate::program::Run;
use crate::row::Row;

/// A row of more executions is not for `--quick`: three minutes on two cores, of which the builds of the models take most.
const QUICK: u64 = 300;

/// Programs that are drawn until a million operations were done: about that many schedules.
const HISTORIES: u64 = 100_000;

const HEAD: &str = "# Executions of each search. Written by `cargo verify --accept`; a run that finds another number fails.\n";

/// What is committed.
#[derive(Debug)]
pub(super) struct Counts(BTreeMap<String, u64>);

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("executions.tsv")
}

impl Counts {
    /// Reads the file.
    ///
    /// # Errors
    /// It is not there, or a line is not a row's name, a tab and a number, or names a row again.
    pub(super) fn read() -> Result<Self> {
        let path = path();
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let mut counts = BTreeMap::new();
        for (i, line) in text.lines().enumerate() {
            if line.starts_with('#') {
                continue;
            }
            let entry = line
                .split_once('\t')
                .and_then(|(row, n)| Some((row, n.parse().ok()?)));
            let Some((row, executions)) = entry else {
                bail!(
                    "{}:{}: not a row's name, a tab and a number: `{line}`",
                    path.display(),
                    i + 1
                );
            };
            if counts.insert(row.to_owned(), executions).is_some() {
                bail!("{}:{}: `{row}` is there twice", path.display(), i + 1);
            }
        }
        Ok(Counts(counts))
    }

    /// The executions that a row must have; none if that is not known, or it draws schedules.
    pub(super) fn of(&self, job: &Job) -> Option<u64> {
        self.0.get(&job.name()).copied()
    }

    /// How much work a row is, about: what is not known comes first, as it may be much.
    pub(super) fn cost(&self, job: &Job) -> u64 {
        let drawn = job.bound.filter(|_| job.mode.is_random());
        match &job.program.run {
            Run::Histories(_) => HISTORIES,
            Run::Once(_) | Run::Scenarios(_) | Run::Twin(_) => {
                drawn.or_else(|| self.of(job)).unwrap_or(u64::MAX)
            }
        }
    }

    /// Whether a row is for `--quick`: a search that is known to be short, and not cut short.
    pub(super) fn is_quick(&self, job: &Job) -> bool {
        let search = !job.long && job.mode.is_counted();
        let cut = job.program.threads == 2 && job.bound.is_some();
        search && !cut && self.of(job).is_some_and(|executions| executions <= QUICK)
    }

    /// Takes the executions of `rows` for right, forgets rows that are in no plan any more, and writes the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn accept(mut self, rows: &[Row], plan: &[Job]) -> Result<()> {
        let names: BTreeSet<String> = plan.iter().map(Job::name).collect();
        self.0.retain(|name, _| names.contains(name));
        for row in rows.iter().filter(|row| row.drifts()) {
            self.0.insert(row.name.clone(), row.executions);
        }
        let mut text = HEAD.to_owned();
        for (name, executions) in &self.0 {
            writeln!(text, "{name}\t{executions}")?;
        }
        let path = path();
        fs::write(&path, text).with_context(|| path.display().to_string())
    }
}
