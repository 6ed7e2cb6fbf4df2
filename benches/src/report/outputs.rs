//! The files that a run writes: looked at before it begins, written when it is complete.

use std::fmt::Write;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::page;
use crate::cli::Args;
use crate::compare::Outcome;

/// Where the report and the JSON go. Both can be written to, as far as one can know.
#[derive(Debug)]
pub struct Outputs {
    report: Output,
    json: Option<Output>,
}

impl Outputs {
    /// Opens the files, and leaves everything as it was.
    ///
    /// # Errors
    /// One cannot be written, or is the volume, or both are one.
    pub fn check(args: &Args) -> Result<Self> {
        let report = Output::check("--report", &args.report, args)?;
        let json = args.json.as_deref();
        let json = json
            .map(|path| Output::check("--json", path, args))
            .transpose()?;
        if let Some(json) = &json {
            ensure!(
                !same(&json.path, &report.path),
                "--json and --report are both {}: give two different files",
                json.path.display()
            );
        }
        Ok(Outputs { report, json })
    }

    /// Writes them; returns a sentence that tells where. `command` is the command line.
    ///
    /// # Errors
    /// One cannot be written any more.
    pub fn write(&self, outcome: &Outcome, command: &str) -> Result<String> {
        let mut written = format!("report: {}", self.report.path.display());
        if let Some(json) = &self.json {
            let mut text = serde_json::to_string_pretty(&outcome.rows)?;
            text.push('\n');
            let _ = write!(written, ", rows: {}", json.path.display());
            json.write(&text)?;
        }
        self.report.write(&page(outcome, command)?)?;
        Ok(written)
    }
}

/// A file to be written at the end.
#[derive(Debug)]
struct Output {
    path: PathBuf,
}

impl Output {
    fn check(option: &str, path: &Path, args: &Args) -> Result<Output> {
        if let Some(volume) = &args.volume {
            ensure!(
                !same(path, volume),
                "{option} {}: that is the volume; give another file",
                path.display()
            );
        }
        let is_new = !path.exists();
        let opened = OpenOptions::new().append(true).create(true).open(path);
        opened.with_context(|| {
            format!(
                "{option} {}: cannot be written, so nothing was run; give a file in a folder that exists and may be written to",
                path.display()
            )
        })?;
        if is_new {
            // Nothing is left of a run that fails or is interrupted.
            fs::remove_file(path).with_context(|| format!("{option} {}", path.display()))?;
        }
        Ok(Output {
            path: path.to_owned(),
        })
    }

    fn write(&self, text: &str) -> Result<()> {
        fs::write(&self.path, text).with_context(|| format!("writing {}", self.path.display()))
    }
}

/// Whether both paths lead to the same place, which need not exist.
fn same(a: &Path, b: &Path) -> bool {
    let place = |path: &Path| {
        fs::canonicalize(path).ok().or_else(|| {
            let parent = path.parent().filter(|it| !it.as_os_str().is_empty());
            let folder = fs::canonicalize(parent.unwrap_or(Path::new("."))).ok()?;
            Some(folder.join(path.file_name()?))
        })
    };
    place(a).is_some_and(|a| Some(a) == place(b))
}
