//! The output files of a run: checked before it begins, written when it is complete.

use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use spanlock_result_file::ResultFile;

/// The files for the report and the JSON. Both are writable, as far as this can be known in
/// advance.
#[derive(Debug)]
pub struct Outputs {
    report: ResultFile,
    json: Option<ResultFile>,
}

impl Outputs {
    /// Checks the files and changes nothing. Neither may be the volume, if there is one.
    ///
    /// # Errors
    /// A file cannot be written or is the volume, or both are the same file.
    pub fn check(report: &Path, json: Option<&Path>, volume: Option<&Path>) -> Result<Self> {
        let report = check("--report", report, volume)?;
        let json = json.map(|path| check("--json", path, volume)).transpose()?;
        if let Some(json) = &json {
            ensure!(
                !json.is_at(report.path()),
                "--json and --report are both {}: choose two different files",
                json.path().display()
            );
        }
        Ok(Outputs { report, json })
    }

    /// Writes the rows and the report. Returns a sentence that names the files.
    ///
    /// # Errors
    /// A file can no longer be written.
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
            "{option} {}: cannot be written, so nothing was run; choose a file in a folder that exists and is writable",
            path.display()
        )
    })?;
    if let Some(volume) = volume {
        ensure!(
            !file.is_at(volume),
            "{option} {}: that is the volume; choose another file",
            path.display()
        );
    }
    Ok(file)
}

fn write(file: &ResultFile, text: &str) -> Result<()> {
    file.write(text.as_bytes())
        .with_context(|| format!("writing {}", file.path().display()))
}
