//! The committed counts: `lines/lines.tsv`.
//!
//! A run whose counts differ from the record fails until `--accept` records the new ones. Counts of
//! all accesses are neither recorded nor compared. They depend on where the linker places statics,
//! and that depends even on the project's folder.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::rows::Row;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Record {
    /// The counts by the name of the cell.
    counts: BTreeMap<String, String>,
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
            if let Some((name, counts)) = line.split_once('\t') {
                record.counts.insert(name.to_owned(), counts.to_owned());
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
        let mut text = "# Counts for each operation on simulated cores: case/lock/cores, transfers of cache lines, read-modify-writes.\n\
             # Written by `cargo compare lines --accept`. A run that finds other counts fails.\n"
            .to_owned();
        for (name, counts) in &self.counts {
            let _ = writeln!(text, "{name}\t{counts}");
        }
        text
    }

    /// Returns the record with these rows, and with no others if they are all.
    pub(super) fn merged(mut self, rows: &[Row], are_all: bool) -> Self {
        if are_all {
            self.counts.clear();
        }
        let rows = rows.iter().filter(|row| is_recorded(row));
        self.counts
            .extend(rows.map(|row| (row.name(), counts(row))));
        self
    }

    /// Compares rows with the record. If they are all, the record must have no others; if they are
    /// usual, it must have them.
    pub(super) fn compare(&self, rows: &[Row], are_all: bool, are_usual: bool) -> Vec<String> {
        let mut drifted = Vec::new();
        for row in rows.iter().filter(|row| is_recorded(row)) {
            let (found, name) = (counts(row), row.name());
            let told = |counts: &str| counts.replace('\t', " transfers and ");
            match self.counts.get(&name) {
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
        let is_left = |name: &&String| are_all && !rows.iter().any(|row| row.name() == **name);
        let left = self.counts.keys().filter(is_left);
        drifted.extend(left.map(|name| format!("{name}: recorded, but not run")));
        drifted
    }
}

fn path(project: &Path) -> PathBuf {
    project.join("lines").join("lines.tsv")
}

fn is_recorded(row: &Row) -> bool {
    row.accesses == "atomics"
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
        let rows = [
            row("a", "atomics", 1.0),
            row("b", "atomics", 2.0),
            row("d", "all", 2.0),
        ];
        let record = Record::default().merged(&rows, true);
        assert_eq!(Record::parsed(&record.text()), record);
        assert_eq!(record.compare(&rows, true, true), [""; 0]);

        let changed = [
            row("a", "atomics", 1.5),
            row("c", "atomics", 0.0),
            row("d", "all", 3.0),
        ];
        let told = [
            "case/a/8: 1.50 transfers and 1.00 read-modify-writes, recorded were 1.00 transfers and 1.00",
            "case/c/8: not recorded",
            "case/b/8: recorded, but not run",
        ];
        assert_eq!(record.compare(&changed, true, true), told);
        assert_eq!(record.compare(&changed, false, true), told[..2]);
        assert_eq!(record.compare(&changed, false, false), told[..1]);
    }
}
