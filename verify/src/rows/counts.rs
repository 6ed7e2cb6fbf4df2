//! The committed record of searches: `models/executions.tsv` of each package.
//!
//! A run that finds another number of executions has drifted and fails until it is accepted. The
//! record also decides what is quick, what is long, and how to share the work: no list of costly
//! programs is kept by hand.
//!
//! ```text
//! # row                                   bound  executions  ms
//! ring/exchange/loom/weak                 -      105         12
//! ring/refill/loom/rmw-load               3      91234       20500
//! ```

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::info::Kind;
use crate::plan::Job;

/// A row of more executions is left out of `--quick`.
const QUICK: u64 = 300;

/// The cost of random programs, which run until a million operations are done.
const DRAWN: u64 = 100_000;

const HEAD: &str = "\
# Searches of this package's models: row, bound on preemptions, executions, milliseconds.
# Written by `cargo verify --accept`. A run that finds other executions fails.
";

/// What is recorded of one search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Preemption bound; none: the search was made to its end.
    pub bound: Option<u64>,
    /// Executions.
    pub executions: u64,
    /// Milliseconds that it took where it was recorded; none: not measured.
    pub millis: Option<u64>,
}

/// A package's record, by the names of rows.
#[derive(Clone, Debug, Default)]
pub struct Counts(pub BTreeMap<String, Count>);

/// Returns the path of the record of the package in `folder`.
pub fn path(folder: &Path) -> PathBuf {
    folder.join("models").join("executions.tsv")
}

impl Counts {
    /// Reads the record of the package in `folder`; a package without one has an empty record.
    ///
    /// # Errors
    /// The file cannot be read, or a line is not of the form above, or names a row again.
    pub fn read(folder: &Path) -> Result<Self, String> {
        let path = path(folder);
        match fs::read_to_string(&path) {
            Ok(text) => Counts::parse(&text).map_err(|why| format!("{}:{why}", path.display())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Counts::default()),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let mut counts = BTreeMap::new();
        let lines = (1..).zip(text.lines());
        for (i, line) in lines.filter(|(_, it)| !it.starts_with('#') && !it.is_empty()) {
            let (row, count) = entry(line).ok_or_else(|| {
                format!(
                    "{i}: expected a row, a bound or `-`, executions, and milliseconds or `-`, \
                     separated by tabs: `{line}`"
                )
            })?;
            if counts.insert(row.to_owned(), count).is_some() {
                return Err(format!("{i}: `{row}` is recorded twice"));
            }
        }
        Ok(Counts(counts))
    }

    /// Writes the record of the package in `folder`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<(), String> {
        let path = path(folder);
        let mut text = HEAD.to_owned();
        let or_none = |number: Option<u64>| number.map_or("-".to_owned(), |it| it.to_string());
        for (row, count) in &self.0 {
            let (bound, millis) = (or_none(count.bound), or_none(count.millis));
            let _ = writeln!(text, "{row}\t{bound}\t{}\t{millis}", count.executions);
        }
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Returns what is recorded of the row of this name.
    pub fn of(&self, row: &str) -> Option<Count> {
        self.0.get(row).copied()
    }

    /// Estimates the work of a row. One that is not recorded counts as the costliest.
    pub fn cost(&self, job: &Job) -> u64 {
        let recorded = || self.of(&job.name()).map(|count| count.executions);
        match (&job.program.kind, job.bound) {
            (Kind::Drawn, _) => DRAWN,
            (_, Some(schedules)) if job.mode.is_random() => schedules,
            _ => recorded().unwrap_or(u64::MAX),
        }
    }

    /// Whether a row is for `--quick`: a search that is known to be short, and that no bound cuts
    /// short.
    pub fn is_quick(&self, job: &Job) -> bool {
        let is_search = !job.long && job.mode.is_counted();
        let is_cut = job.program.threads == 2 && job.bound.is_some();
        let is_short = |count: Count| count.executions <= QUICK;
        is_search && !is_cut && self.of(&job.name()).is_some_and(is_short)
    }
}

fn entry(line: &str) -> Option<(&str, Count)> {
    let fields: Vec<&str> = line.split('\t').collect();
    let &[row, bound, executions, millis] = &fields[..] else {
        return None;
    };
    let or_none = |field: &str| match field {
        "-" => Some(None),
        number => number.parse().ok().map(Some),
    };
    let count = Count {
        bound: or_none(bound)?,
        executions: executions.parse().ok()?,
        millis: or_none(millis)?,
    };
    Some((row, count))
}
