//! The files that a run writes: looked at before it begins, written when it is complete.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use spanlock_result_file::ResultFile;

/// Where the report and the JSON go. Both can be written to, as far as one can know.
#[derive(Debug)]
pub struct Outputs {
    report: ResultFile,
    json: Option<ResultFile>,
}

impl Outputs {
    /// Looks at the files, and leaves everything as it was. None may be the volume, if there is one.
    ///
    /// # Errors
    /// One cannot be written, or is the volume, or both are one.
    pub fn check(report: &Path, json: Option<&Path>, volume: Option<&Path>) -> Result<Self> {
        let report = check("--report", report, volume)?;
        let json = json.map(|path| check("--json", path, volume)).transpose()?;
        if let Some(json) = &json {
            ensure!(
                !json.is_at(report.path()),
                "--json and --report are both {}: give two different files",
                json.path().display()
            );
        }
        Ok(Outputs { report, json })
    }

    /// Writes the rows and the report; returns a sentence that tells where.
    ///
    /// # Errors
    /// One cannot be written any more.
    pub fn write(&self, rows: &impl Serialize, page: &str) -> Result<String> {
        let mut written = format!("report: {}", self.report.path().display());
        if let Some(json) = &self.json {
            let mut text = serde_json::to_string_pretty(rows)?;
            text.push('\n');
            let _ = write!(written, ", rows: {}", json.path().display());
            write(json, &text)?;
        }
        write(&self.report, page)?;
        Ok(written)
    }
}

fn check(option: &str, path: &Path, volume: Option<&Path>) -> Result<ResultFile> {
    let file = ResultFile::check(path).with_context(|| {
        format!(
            "{option} {}: cannot be written, so nothing was run; give a file in a folder that exists and may be written to",
            path.display()
        )
    })?;
    if let Some(volume) = volume {
        ensure!(
            !file.is_at(volume),
            "{option} {}: that is the volume; give another file",
            path.display()
        );
    }
    Ok(file)
}

fn write(file: &ResultFile, text: &str) -> Result<()> {
    file.write(text.as_bytes())
        .with_context(|| format!("writing {}", file.path().display()))
}
