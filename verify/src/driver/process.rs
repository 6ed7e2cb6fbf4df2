//! A process that the command starts, and how it ends.

use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use wait_timeout::ChildExt;

use crate::messages::{Found, told};

/// How a row ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) end: End,
    pub(super) stdout: String,
    pub(super) stderr: String,
    pub(super) elapsed: Duration,
}

/// The ways in which a row ends.
#[derive(Debug)]
pub(super) enum End {
    /// The process finished and printed this finding.
    Found(Box<Found>),
    /// The process ended with this status and without a finding. Standard error says what failed.
    Failed(ExitStatus),
    /// The row was stopped at its time limit.
    Stopped,
    /// The row did not run, because its checker is not installed.
    Skipped(String),
    /// The row could not run, or its output is not a finding. The text says why.
    Broken(String),
}

impl Ended {
    /// Returns the finding, if there is one.
    pub(super) fn found(&self) -> Option<&Found> {
        match &self.end {
            End::Found(found) => Some(found),
            _ => None,
        }
    }

    /// Returns the lines with which the process reports a failure: `execution 7: panicked at …:`,
    /// the panic's message, and what the threads saw before it.
    pub(super) fn told(&self) -> Vec<&str> {
        // The code under test may catch a panic: an execution that ends is no failure.
        self.found().map_or_else(|| told(&self.stderr), |_| vec![])
    }

    /// Returns the number of the execution that failed, if one did.
    pub(super) fn failed_execution(&self) -> Option<u64> {
        let number = self.told().first()?.strip_prefix("execution ")?;
        number.split(':').next()?.parse().ok()
    }

    /// Returns the result of a row for which no process ran.
    pub(super) fn without_process(end: End) -> Self {
        Ended {
            end,
            stdout: String::new(),
            stderr: String::new(),
            elapsed: Duration::ZERO,
        }
    }
}

/// Runs a command for at most `limit`. The result's end is [`End::Stopped`], or [`End::Failed`]
/// with the exit status, even for a success.
pub(super) fn exited(mut command: Command, limit: Option<Duration>) -> Result<Ended> {
    // Files instead of pipes, so that nobody has to read while the process runs.
    let stdout = tempfile::tempfile().context("cannot create a temporary file")?;
    let stderr = tempfile::tempfile().context("cannot create a temporary file")?;
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
    Ok(Ended {
        end: status.map_or(End::Stopped, End::Failed),
        stdout: text(stdout)?,
        stderr: text(stderr)?,
        elapsed,
    })
}

fn text(mut file: File) -> Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
