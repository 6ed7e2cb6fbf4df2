//! The committed counts: `lines/lines.tsv`.
//!
//! A run whose counts differ from the record fails until `--accept` records the new ones. Counts of
//! all accesses depend on the compiler. So those are compared only with the compiler that the
//! record names.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::rows::Row;

const COMPILER: &str = env!("SPANLOCK_RUSTC");

/// What precedes the compiler's version in the record.
const BY: &str = "# Rows that see all accesses are those of ";

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Record {
    compiler: String,
    /// The counts by the name of the cell and the accesses that it sees.
    counts: BTreeMap<(String, String), String>,
}

/// How rows differ from the record.
#[derive(Debug)]
pub(super) struct Compared {
    pub(super) drifted: Vec<String>,
    /// What was not compared.
    pub(super) note: Option<String>,
}

impl Record {
    /// Reads the record of this project. Without one, it is empty.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn read(project: &Path) -> Result<Self> {
        let path = path(project);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Self::parsed(&text)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Record::default()),
            Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
        }
    }

    fn parsed(text: &str) -> Self {
        let mut record = Record::default();
        for line in text.lines() {
            if let Some(compiler) = line.strip_prefix(BY) {
                record.compiler = compiler.to_owned();
            }
            let mut fields = line.splitn(3, '\t').map(str::to_owned);
            if let (Some(name), Some(accesses), Some(counts)) =
                (fields.next(), fields.next(), fields.next())
            {
                record.counts.insert((name, accesses), counts);
            }
        }
        record
    }

    /// Writes the record of this project.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn write(&self, project: &Path) -> Result<()> {
        let path = path(project);
        fs::write(&path, self.text()).with_context(|| format!("writing {}", path.display()))
    }

    fn text(&self) -> String {
        let mut text = format!(
            "# Counts for each operation on simulated cores: case/lock/cores, the accesses seen, transfers of cache lines, read-modify-writes.\n\
             # Written by `cargo compare lines --accept`. A run that finds other counts fails.\n\
             {BY}{}\n",
            self.compiler
        );
        for ((name, accesses), counts) in &self.counts {
            let _ = writeln!(text, "{name}\t{accesses}\t{counts}");
        }
        text
    }

    /// Returns the record with these rows, and with no others if they are all.
    pub(super) fn merged(mut self, rows: &[Row], are_all: bool) -> Self {
        if are_all {
            self.counts.clear();
        }
        self.counts
            .extend(rows.iter().map(|row| (key(row), counts(row))));
        COMPILER.clone_into(&mut self.compiler);
        self
    }

    /// Compares rows with the record. If they are all, the record must have no others; if they are
    /// usual, it must have them.
    pub(super) fn compare(&self, rows: &[Row], are_all: bool, are_usual: bool) -> Compared {
        let is_compared = |accesses: &str| self.compiler == COMPILER || accesses != "all";
        let mut drifted = Vec::new();
        for row in rows.iter().filter(|row| is_compared(&row.accesses)) {
            let (found, name) = (counts(row), row.name());
            let told = |counts: &str| counts.replace('\t', " transfers and ");
            match self.counts.get(&key(row)) {
                Some(recorded) if *recorded == found => {}
                Some(recorded) => drifted.push(format!(
                    "{name}: {} read-modify-writes, recorded were {}",
                    told(&found),
                    told(recorded)
                )),
                None if are_usual => drifted.push(format!("{name}: not recorded")),
                None => {}
            }
        }
        let is_left = |key: &&(String, String)| !rows.iter().any(|row| key_of(row, key));
        let left = self
            .counts
            .keys()
            .filter(|key| are_all && is_compared(&key.1));
        drifted.extend(
            left.filter(is_left)
                .map(|key| format!("{}: recorded, but not run", key.0)),
        );
        let others = rows.iter().any(|row| !is_compared(&row.accesses));
        let note = others.then(|| {
            format!("not compared: the rows that see all accesses, because the record is of {}, and this is {COMPILER}", self.compiler)
        });
        Compared { drifted, note }
    }
}

fn path(project: &Path) -> PathBuf {
    project.join("lines").join("lines.tsv")
}

fn key(row: &Row) -> (String, String) {
    (row.name(), row.accesses.clone())
}

fn key_of(row: &Row, key: &(String, String)) -> bool {
    self::key(row) == *key
}

fn counts(row: &Row) -> String {
    format!("{:.2}\t{:.2}", row.transfers, row.rmw)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(lock: &str, accesses: &str, transfers: f64) -> Row {
        Row {
            case: "case".to_owned(),
            lock: lock.to_owned(),
            cores: 8,
            accesses: accesses.to_owned(),
            layouts: 1,
            layouts_with_transfers: 1,
            transfers,
            rmw: 1.0,
            false_transfers: 0.0,
            lines: Vec::new(),
            targets: Vec::new(),
        }
    }

    #[test]
    fn counts_that_differ_are_named() {
        let rows = [row("a", "atomics", 1.0), row("b", "all", 2.0)];
        let record = Record::default().merged(&rows, true);
        assert_eq!(Record::parsed(&record.text()), record);
        assert_eq!(record.compare(&rows, true, true).drifted, [""; 0]);

        let changed = [row("a", "atomics", 1.5), row("c", "atomics", 0.0)];
        let told = [
            "case/a/8: 1.50 transfers and 1.00 read-modify-writes, recorded were 1.00 transfers and 1.00",
            "case/c/8: not recorded",
        ];
        assert_eq!(record.compare(&changed, false, true).drifted, told);
        assert_eq!(record.compare(&changed, false, false).drifted, told[..1]);
        let missing = "case/b/8: recorded, but not run";
        assert!(
            record
                .compare(&changed, true, true)
                .drifted
                .contains(&missing.to_owned())
        );
    }

    #[test]
    fn another_compiler_changes_only_rows_that_see_all_accesses() {
        let rows = [row("a", "atomics", 1.0), row("b", "all", 2.0)];
        let mut record = Record::default().merged(&rows, true);
        record.compiler = "another".to_owned();
        let changed = [row("a", "atomics", 1.5), row("b", "all", 2.5)];
        let compared = record.compare(&changed, true, true);
        assert_eq!(compared.drifted.len(), 1);
        assert!(compared.note.is_some());
    }
}
