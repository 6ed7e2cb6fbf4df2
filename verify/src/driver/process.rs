//! Runs rows, each in a process of its own: a deadlock in a model usually ends in an abort.

use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use wait_timeout::ChildExt;

use super::build::Built;
use super::models::Task;
use super::spin;
use crate::info::Kind;
use crate::rows::row::Found;

/// Settings of the checkers that would change or cut off a search unnoticed.
const SETTINGS: [&str; 6] = [
    "LOOM_MAX_DURATION",
    "LOOM_MAX_PERMUTATIONS",
    "LOOM_MAX_PREEMPTIONS",
    "LOOM_MAX_BRANCHES",
    "LOOM_CHECKPOINT_FILE",
    "SHUTTLE_RANDOM_SEED",
];

/// How a row ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) end: End,
    pub(super) stderr: String,
    pub(super) elapsed: Duration,
}

/// The ways in which a row ends.
#[derive(Debug)]
pub(super) enum End {
    /// Its process came to its end, and found this.
    Found(Found),
    /// Its process ended with this status and no finding. Standard error says what failed.
    Failed(ExitStatus),
    /// It was stopped at its time limit.
    Stopped,
    /// It did not run, because its checker is not installed.
    Skipped(String),
    /// It could not be run, because a tool is broken.
    Broken(String),
}

impl Ended {
    /// Returns what it found, if it came to its end.
    pub(super) fn found(&self) -> Option<&Found> {
        match &self.end {
            End::Found(found) => Some(found),
            _ => None,
        }
    }

    /// Whether it was stopped at its time limit.
    pub(super) fn is_stopped(&self) -> bool {
        matches!(self.end, End::Stopped)
    }

    /// Returns the end of a row without a process.
    pub(super) fn without_process(end: End) -> Self {
        Ended {
            end,
            stderr: String::new(),
            elapsed: Duration::ZERO,
        }
    }
}

/// Runs one row, with further arguments for the binary of models, for at most `limit`.
pub(super) fn explore(
    built: &Built,
    task: &Task,
    more: &[&str],
    limit: Option<Duration>,
) -> Result<Ended> {
    let (package, job) = (&task.models.package, &task.job);
    if let Kind::Promela { file, .. } = &job.program.kind {
        let macros = more.windows(2).filter(|it| it[0] == "--bug");
        let macros: Vec<&str> = macros.map(|it| it[1]).collect();
        let file = package.folder.join(file);
        return spin::check(&file, &macros, more.contains(&"--trace"), limit);
    }
    let binary = built.binary(job.mode.checker(), package);
    let binary = binary.with_context(|| format!("{}: its checker is not built", job.name()))?;
    // Loom writes a file there before each execution. A disk would slow each of them down.
    let scratch = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let scratch = scratch.context("cannot create a temporary folder")?;
    let mut command = Command::new(binary);
    command
        .current_dir(&package.folder)
        .args(["--row", &job.name(), "--scratch"])
        .arg(scratch.path().join("scratch"))
        .args(more)
        // A backtrace of every panic costs more than the search.
        .env_remove("RUST_BACKTRACE");
    match job.bound {
        Some(bound) => command.args(["--bound", &bound.to_string()]),
        None => command.arg("--unbounded"),
    };
    for setting in SETTINGS {
        command.env_remove(setting);
    }
    let Exited {
        status,
        stdout,
        stderr,
        elapsed,
    } = exited(command, limit)?;
    let end = match (status, serde_json::from_str(stdout.trim())) {
        (None, _) => End::Stopped,
        (Some(status), Ok(found)) if status.success() => End::Found(found),
        (Some(status), Err(why)) if status.success() => End::Broken(format!(
            "{}: the binary of models printed no finding ({why}): nothing else may print to \
             standard output",
            package.name
        )),
        (Some(status), _) => End::Failed(status),
    };
    Ok(Ended {
        end,
        stderr,
        elapsed,
    })
}

/// A process that has ended.
pub(super) struct Exited {
    /// None if it was stopped at its time limit.
    pub(super) status: Option<ExitStatus>,
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) elapsed: Duration,
}

/// Runs a command for at most `limit`.
pub(super) fn exited(mut command: Command, limit: Option<Duration>) -> Result<Exited> {
    // Files, not pipes, so that nothing has to be read while the process runs.
    let mut stdout = tempfile::tempfile().context("cannot create a temporary file")?;
    let mut stderr = tempfile::tempfile().context("cannot create a temporary file")?;
    let start = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(stdout.try_clone()?)
        .stderr(stderr.try_clone()?)
        .spawn()
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    let status = match limit {
        Some(limit) => child.wait_timeout(limit)?,
        None => Some(child.wait()?),
    };
    if status.is_none() {
        child.kill()?;
        child.wait()?;
    }
    let elapsed = start.elapsed();
    Ok(Exited {
        status,
        stdout: text(&mut stdout)?,
        stderr: text(&mut stderr)?,
        elapsed,
    })
}

fn text(file: &mut File) -> Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
