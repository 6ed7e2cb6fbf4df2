//! The files that a run writes: that of `--json`, and the report.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf, absolute};

use anyhow::{Context, Result};
use serde::Serialize;
use tempfile::{Builder, NamedTempFile};

use super::output::say;

/// The files of a report. `conclude` relies on the order of the first three.
pub(super) const FILES: [&str; 5] = [
    "verify.json",
    "verify.md",
    "verify.html",
    "mutants.json",
    "bugs.json",
];

/// The files and folders for results.
pub(super) struct Outputs {
    json: Option<PathBuf>,
    /// The folder of the report.
    pub(super) report: Option<PathBuf>,
}

impl Outputs {
    /// Checks that all files can be written, so that a long run does not fail at its end.
    pub(super) fn new(json: Option<&PathBuf>, report: Option<&PathBuf>) -> Result<Self> {
        if let Some(path) = json {
            check(path)
                .with_context(|| format!("--json {}: cannot write there", path.display()))?;
        }
        if let Some(folder) = report {
            let place = folder.display();
            fs::create_dir_all(folder)
                .with_context(|| format!("--report {place}: cannot create this folder"))?;
            for path in FILES.map(|name| folder.join(name)) {
                check(&path)
                    .with_context(|| format!("--report: cannot write {}", path.display()))?;
            }
        }
        Ok(Outputs {
            json: json.cloned(),
            report: report.cloned(),
        })
    }

    /// Writes `rows` to the file of `--json`, if there is one.
    pub(super) fn write(&self, rows: &[impl Serialize]) -> Result<()> {
        let Some(file) = &self.json else {
            return Ok(());
        };
        let path = file.display();
        replace(file, &json(rows)?).with_context(|| format!("--json {path}: cannot write"))?;
        say!("Rows written to {path}.");
        Ok(())
    }
}

/// Checks that a file can be written at `path`, without changing anything there.
fn check(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        // A terminal, a pipe or `/dev/null` is opened only when it is written.
        Ok(there) if !there.is_file() && !there.is_dir() => return Ok(()),
        Ok(_) => drop(File::options().append(true).open(path)?),
        Err(_) => {}
    }
    temporary(&followed(path)?).map(drop)
}

/// Replaces a file as a whole, by renaming a temporary file. Writes to pipes and devices directly.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    if fs::metadata(path).is_ok_and(|it| !it.is_file()) {
        return fs::write(path, text);
    }
    let path = followed(path)?;
    let mut file = temporary(&path)?;
    file.write_all(text.as_bytes())?;
    file.persist(&path)?;
    Ok(())
}

/// Resolves links, so that `replace` replaces the linked file and not the link.
fn followed(path: &Path) -> io::Result<PathBuf> {
    fs::canonicalize(path).or_else(|_| absolute(path))
}

fn temporary(path: &Path) -> io::Result<NamedTempFile> {
    let mut builder = Builder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // The mode of every new file. The umask clears bits in it.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(path.parent().unwrap_or(path))
}

/// Returns `rows` as a JSON array.
pub(super) fn json(rows: &[impl Serialize]) -> Result<String> {
    Ok(serde_json::to_string_pretty(rows)? + "\n")
}
