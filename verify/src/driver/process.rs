//! Runs each row in its own process, because a deadlock in a model usually aborts the process. Runs
//! Promela models with Spin.

use std::fmt::Write;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use wait_timeout::ChildExt;

use super::build::Built;
use super::models::Task;
use crate::info::Kind;
use crate::rows::row::{EVENTS, FAILURE, Found};
use crate::rows::verdict::{states, told};

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

/// Runs one row for at most `limit`. Passes the arguments `more` to the model binary.
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
        return spin(&file, &macros, more.contains(&"--trace"), limit);
    }
    let binary = built.binary(job.mode.checker(), package)?;
    // Loom writes a file there before each execution. A folder in memory makes this cheap.
    let scratch = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let scratch = scratch.context("cannot create a temporary folder")?;
    let mut command = Command::new(binary);
    command
        .current_dir(&package.folder)
        .args(["--row", &job.name(), "--scratch"])
        .arg(scratch.path().join("scratch"))
        .args(more)
        // Printing a backtrace for every panic would take longer than the search.
        .env_remove("RUST_BACKTRACE");
    match job.bound {
        Some(bound) => command.args(["--bound", &bound.to_string()]),
        None => command.arg("--unbounded"),
    };
    // Variables of the checkers could silently change a search or cut it off.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("LOOM_") || name.starts_with("SHUTTLE_") {
            command.env_remove(&*name);
        }
    }
    let mut ended = exited(command, limit)?;
    if let End::Failed(status) = ended.end
        && status.success()
    {
        ended.end = match serde_json::from_str(ended.stdout.trim()) {
            Ok(found) => End::Found(Box::new(found)),
            Err(why) => End::Broken(format!(
                "{}: the model binary printed no finding ({why}): models must not print to \
                 standard output",
                package.name
            )),
        };
    }
    Ok(ended)
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

const MISSING: &str =
    "Spin is not installed: `apt-get install spin` (Debian, Ubuntu), or https://spinroot.com";

/// Returns the version of Spin, or `None` if it is not installed.
pub(super) fn spin_version() -> Option<String> {
    let output = Command::new("spin").arg("-V").output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout);
    said.split_whitespace().nth(2).map(str::to_owned)
}

/// Searches every state of the Promela model in `file` for at most `limit`. Each of `macros`
/// injects a bug. With `trace`, adds every step of a failing execution to standard error.
fn spin(file: &Path, macros: &[&str], trace: bool, limit: Option<Duration>) -> Result<Ended> {
    if spin_version().is_none() {
        return Ok(Ended::without_process(End::Skipped(MISSING.to_owned())));
    }
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    // Spin writes its files into the current folder.
    std::fs::copy(file, folder.path().join("model.pml"))
        .with_context(|| format!("cannot copy {}", file.display()))?;
    let defines: Vec<String> = macros.iter().map(|name| format!("-D{name}")).collect();
    let run = |program: &str, args: &[&str]| {
        let mut command = Command::new(program);
        command.current_dir(folder.path()).args(args);
        if program == "spin" {
            command.args(&defines).arg("model.pml");
        }
        let ended = exited(command, None).context("Promela models need Spin and a C compiler")?;
        match ended.end {
            End::Failed(status) if status.success() => Ok(ended.stdout),
            _ => bail!("{program}: {}{}", ended.stdout, ended.stderr),
        }
    };
    run("spin", &["-a"])?;
    // NFAIR is in bytes. Weak fairness needs two bits, and one more for each process of the model.
    run("cc", &["-w", "-O2", "-DNFAIR=2", "-o", "pan", "pan.c"])?;
    let mut pan = Command::new(folder.path().join("pan"));
    // -a -f: search for acceptance cycles under weak fairness. -n: do not list unreached code. -m:
    // the maximum depth. -w: the binary logarithm of the hash table's initial size.
    pan.args(["-a", "-f", "-n", "-m4000000", "-w22"])
        .current_dir(folder.path());
    let mut ended = exited(pan, limit)?;
    let End::Failed(status) = ended.end else {
        return Ok(ended);
    };
    if let Some(executions) = states(&ended.stdout).filter(|_| status.success()) {
        ended.end = End::Found(Box::new(Found {
            executions,
            ..Found::default()
        }));
        return Ok(ended);
    }
    // Only an error that Spin counts is a failure. A search that ended early is not.
    if !ended.stdout.contains("errors: ") || ended.stdout.contains("errors: 0") {
        ended.end = End::Broken(format!("Spin did not search every state: {}", ended.stdout));
        return Ok(ended);
    }
    let said = ended.stdout.lines().filter(|line| line.starts_with("pan:"));
    for line in said.chain([&*format!("{EVENTS}--replay prints the steps")]) {
        let _ = writeln!(ended.stderr, "{FAILURE}{line}");
    }
    if trace {
        ended.stderr.push_str(&run("spin", &["-t", "-p", "-g"])?);
    }
    Ok(ended)
}
