//! Runs each row in its own process, because a deadlock in a model usually aborts the process. Runs
//! Promela models with Spin.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::build::Built;
use super::models::Task;
use super::process::{End, Ended, exited};
use crate::info::Kind;
use crate::messages::{EVENTS, FAILURE, Found};
use crate::rows::verdict::states;

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
    let mut command = Command::new(binary);
    command
        .current_dir(&package.folder)
        .args(["--row", &job.name()])
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
