//! Files that the command writes. A place is checked before a long run, so that the run is not in
//! vain; a file appears whole or not at all.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;
use tempfile::{Builder, NamedTempFile};

/// A file to be written.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) path: PathBuf,
}

impl Output {
    /// Checks that a file can be written at `path`, and changes nothing there. The error does not
    /// name the path.
    pub(super) fn check(path: &Path) -> io::Result<Self> {
        match fs::metadata(path) {
            Ok(there) if there.is_dir() => return Err(ErrorKind::IsADirectory.into()),
            Ok(there) if there.permissions().readonly() => {
                return Err(ErrorKind::PermissionDenied.into());
            }
            // A terminal, a pipe or `/dev/null`: it is opened when it is written.
            Ok(there) if !there.is_file() => {}
            _ => drop(temporary(&followed(path))?),
        }
        let path = path.to_owned();
        Ok(Output { path })
    }

    /// Writes `content` to a temporary file that replaces the old one, or into what is no regular
    /// file. The error does not name the path.
    pub(super) fn write(&self, content: &[u8]) -> io::Result<()> {
        if fs::metadata(&self.path).is_ok_and(|it| !it.is_file()) {
            return fs::write(&self.path, content);
        }
        let path = followed(&self.path);
        let mut file = temporary(&path)?;
        file.write_all(content)?;
        file.persist(&path)?;
        Ok(())
    }
}

/// Returns the file behind links, so that a link is not replaced.
fn followed(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn temporary(path: &Path) -> io::Result<NamedTempFile> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    let mut builder = Builder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // As for any new file: the umask removes bits from this.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder.unwrap_or(Path::new(".")))
}

/// Checks that `--json` can be written.
pub(super) fn json_at(path: Option<&Path>) -> Result<Option<Output>> {
    let Some(path) = path else { return Ok(None) };
    let output = Output::check(path);
    let output = output.with_context(|| format!("--json {}: cannot write there", path.display()));
    output.map(Some)
}

/// Writes `rows` as JSON if a file is given, and says that `what` is written, and where.
pub(super) fn write_json(file: Option<&Output>, what: &str, rows: &[impl Serialize]) -> Result<()> {
    let Some(file) = file else { return Ok(()) };
    let text = serde_json::to_string_pretty(rows)? + "\n";
    let path = file.path.display();
    let written = file.write(text.as_bytes());
    written.with_context(|| format!("--json {path}: cannot write"))?;
    println!("{what} written to {path}.");
    Ok(())
}
