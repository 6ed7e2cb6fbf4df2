//! Reads the result files.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::runs::RUNS;
use crate::report::{FORMAT, Origin};

/// The result files of a folder. Each is read once, when a block needs it.
pub(super) struct Results {
    dir: PathBuf,
    read: RefCell<BTreeMap<&'static str, Rc<ResultsOf>>>,
}

/// The results of a comparison.
#[derive(Deserialize)]
pub(super) struct ResultsOf {
    #[serde(flatten)]
    pub origin: Origin,
    pub rows: Vec<Value>,
}

impl Results {
    pub(super) fn new(dir: &Path) -> Self {
        Results {
            dir: dir.to_owned(),
            read: RefCell::default(),
        }
    }

    /// Returns the results of the comparison `name`.
    ///
    /// # Errors
    /// There is no such comparison, or its file is missing or of another format.
    pub(super) fn of(&self, name: &str) -> Result<Rc<ResultsOf>> {
        let Some(run) = RUNS.iter().find(|it| it.name == name) else {
            let names: Vec<_> = RUNS.iter().map(|it| it.name).collect();
            bail!(
                "there is no comparison `{name}`; there are {}",
                names.join(", ")
            );
        };
        if let Some(known) = self.read.borrow().get(run.name) {
            return Ok(known.clone());
        }
        let path = self.dir.join(format!("{name}.json"));
        let read = read(&path, name).with_context(|| {
            format!(
                "{}; `cargo compare figures --measure {name}` makes the file anew",
                path.display()
            )
        })?;
        let read = Rc::new(read);
        self.read.borrow_mut().insert(run.name, read.clone());
        Ok(read)
    }

    /// Returns the rows of a comparison.
    ///
    /// # Errors
    /// Same as [`of`](Self::of), or a row lacks a field.
    pub(super) fn rows<R: DeserializeOwned>(&self, name: &str) -> Result<Vec<R>> {
        let all = self.of(name)?;
        let rows = (1..).zip(&all.rows);
        rows.map(|(nth, row)| {
            R::deserialize(row).with_context(|| format!("{name}.json: row {nth}"))
        })
        .collect()
    }
}

fn read(path: &Path, name: &str) -> Result<ResultsOf> {
    let text = fs::read_to_string(path)?;
    let value: Value = serde_json::from_str(&text)?;
    let format = value.get("format").and_then(Value::as_u64);
    match format {
        None => bail!("not a result file: it says no format"),
        Some(format) => ensure!(
            format == FORMAT,
            "a result file of format {format}, and this version reads format {FORMAT}"
        ),
    }
    let results: ResultsOf = serde_json::from_value(value)?;
    ensure!(
        results.origin.name == name,
        "the results of `{}`, not of {name}",
        results.origin.command
    );
    ensure!(!results.rows.is_empty(), "a result file without rows");
    Ok(results)
}
