//! The committed record of searches: `models/executions.tsv` of each package.
//!
//! If a search finds a number of executions other than the recorded one, its row has *drifted*, and
//! the run fails until `--accept` records the new number. The record also decides which rows are
//! quick or long, which long ones do not end in time and are left out (0 executions), and how
//! partitions share them. Nobody has to keep a list of costly programs. To try a search that was
//! left out again, delete its line and run `cargo verify --accept --full`.
//!
//! ```text
//! # row                                   bound  executions  ms
//! ring/exchange/explorer                  -      105         12
//! ring/refill/loom/weak/long              2      91234       20500
//! ```

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const HEAD: &str = "\
# Searches of this package's models: row, bound on preemptions (explorer: on faults), executions, milliseconds.
# Written by `cargo verify --accept`. A run that finds other executions fails.
";

/// The record of one search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// The bound on preemptions (explorer: on faults); `None` if the search ran to its end.
    pub bound: Option<u64>,
    /// The number of executions; 0 if the search does not end in time, and no run has it.
    pub executions: u64,
    /// The duration of the recorded search in milliseconds; `None` if it was not measured.
    pub millis: Option<u64>,
}

/// The record of a package: counts by the names of rows.
#[derive(Clone, Debug, Default)]
pub struct Counts(pub BTreeMap<String, Count>);

/// Returns the path of the record of the package in `folder`.
pub fn path(folder: &Path) -> PathBuf {
    folder.join("models").join("executions.tsv")
}

impl Count {
    /// The record of a search that does not end in time.
    pub const ENDLESS: Count = Count {
        bound: None,
        executions: 0,
        millis: None,
    };
}

impl Counts {
    /// Reads the record of the package in `folder`; a package without one has an empty record.
    ///
    /// # Errors
    /// The file cannot be read, a line is malformed, or two lines name the same row.
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

    /// Returns the record of the row of this name.
    pub fn of(&self, row: &str) -> Option<Count> {
        self.0.get(row).copied()
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
