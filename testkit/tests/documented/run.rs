//! Running a command, and judging what it leaves.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// The seconds after which a command is stopped. It may have to be built.
const LIMIT: &str = "900";

/// The result of a command.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It succeeded, wrote this many rows of JSON, and left nothing behind.
    Passed { rows: usize },
    /// It exited with 77, because a tool is missing.
    Skipped(String),
    /// It failed, or left something behind.
    Failed(String),
}

/// Runs a shell script in the folder of the project. The script may write files to the folder
/// `$OUT`, and nowhere else.
pub(crate) fn run(project: &Path, script: &str) -> Outcome {
    let out = tempfile::tempdir().expect("a temporary folder");
    match run_with(project, script, out.path()) {
        Ok(outcome) => outcome,
        Err(reason) => Outcome::Failed(reason),
    }
}

fn run_with(project: &Path, script: &str, out: &Path) -> Result<Outcome, String> {
    let temporary = out.join("tmp");
    fs::create_dir(&temporary).expect("can create");
    let before = state(project)?;
    let output = Command::new("timeout")
        .args(["--kill-after=5", LIMIT])
        .args(["bash", "-euo", "pipefail", "-c", script])
        .current_dir(project)
        .env("OUT", out)
        .env("TMPDIR", &temporary)
        .stdin(std::process::Stdio::null())
        .output()
        .expect("can start");
    let told = tail(&output.stdout) + &tail(&output.stderr);
    match output.status.code() {
        Some(0) => {}
        Some(77) => return Ok(Outcome::Skipped(told.trim().to_owned())),
        Some(124) => return Err(format!("{told}stopped after {LIMIT} s")),
        _ => return Err(format!("{told}{}", output.status)),
    }
    let left: Vec<_> = fs::read_dir(&temporary)
        .expect("readable")
        .map(|entry| entry.expect("readable").file_name())
        .collect();
    if !left.is_empty() {
        return Err(format!("left in the folder for temporary files: {left:?}"));
    }
    let after = state(project)?;
    if before != after {
        let is_new = |line: &&str| !before.lines().any(|it| it == *line);
        let new: Vec<_> = after.lines().filter(is_new).collect();
        return Err(format!("changed the project's folder:\n{}", new.join("\n")));
    }
    let rows = rows(script, out)?;
    Ok(Outcome::Passed { rows })
}

/// Returns the last lines of an output.
fn tail(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    let lines: Vec<_> = text.lines().collect();
    let last = &lines[lines.len().saturating_sub(30)..];
    last.iter().map(|line| format!("{line}\n")).collect()
}

/// Returns which files of the project have changed or are new, also those that git ignores.
fn state(project: &Path) -> Result<String, String> {
    let git = |arguments: &[&str]| {
        let output = Command::new("git")
            .args(arguments)
            .current_dir(project)
            .output();
        let output = output.map_err(|error| format!("git: {error}"))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(tail(&output.stderr)),
        }
    };
    Ok(git(&["status", "--porcelain", "--ignored"])? + &git(&["diff"])?)
}

/// Returns the number of rows in all JSON files. Every JSON file that the script names must exist
/// and have rows.
fn rows(script: &str, out: &Path) -> Result<usize, String> {
    let mut all = 0;
    for word in script.split_whitespace() {
        let Some(name) = word.strip_prefix("$OUT/") else {
            continue;
        };
        if !name.ends_with(".json") {
            continue;
        }
        let text =
            fs::read_to_string(out.join(name)).map_err(|error| format!("{name}: {error}"))?;
        let value: Value =
            serde_json::from_str(&text).map_err(|error| format!("{name}: {error}"))?;
        // A result file is a list of rows, or has one.
        match value.get("rows").unwrap_or(&value) {
            Value::Array(rows) if !rows.is_empty() => all += rows.len(),
            _ => return Err(format!("{name} has no rows")),
        }
    }
    Ok(all)
}
