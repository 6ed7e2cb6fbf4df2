//! Runs the Promela twins by Spin: translates one to C, compiles that, and searches every state, for claims of what happens eventually.

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::run::{End, Ended, Exited, exited};
use crate::models::twins::Twin;
use crate::row::{EVENTS, FAILURE, Found};

/// What to do where there is no Spin.
const MISSING: &str =
    "Spin is not installed: `apt-get install spin` (Debian, Ubuntu), or https://spinroot.com";

/// The version of Spin; none if it is not installed.
pub fn version() -> Option<String> {
    let output = Command::new("spin").arg("-V").output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout);
    said.split_whitespace().nth(2).map(str::to_owned)
}

/// Searches every state of `twin` for at most `limit`. `macros` are defined in it: a defect, or `N=2` for fewer threads. `trace`: tell every step to a
/// failure, if there is one.
///
/// # Errors
/// Spin or the C compiler cannot be run, or does not understand the twin.
pub fn check(twin: &Twin, macros: &[&str], trace: bool, limit: Option<Duration>) -> Result<Ended> {
    let start = Instant::now();
    if version().is_none() {
        return Ok(Ended {
            end: End::Skipped(MISSING.to_owned()),
            stderr: String::new(),
            elapsed: start.elapsed(),
        });
    }
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("promela")
        .join(twin.file);
    // Where it runs, so that what it writes goes there.
    std::fs::copy(&source, folder.path().join(twin.file))
        .with_context(|| format!("cannot copy {}", source.display()))?;
    let defines: Vec<_> = macros.iter().map(|name| format!("-D{name}")).collect();
    let with = |head: &[&'static str], tail: &[&'static str]| {
        let defines = defines.iter().map(String::as_str);
        head.iter()
            .copied()
            .chain(defines)
            .chain(tail.iter().copied())
            .collect::<Vec<_>>()
    };
    run(folder.path(), "spin", &with(&["-a"], &[twin.file]))?;
    // Fairness needs a bit for each thread and two more, in bytes.
    run(
        folder.path(),
        "cc",
        &["-w", "-O2", "-DNFAIR=2", "-o", "pan", "pan.c"],
    )?;
    let mut pan = Command::new(folder.path().join("pan"));
    // Acceptance cycles under weak fairness; no list of code never reached; so deep, and so large a table to begin with.
    pan.args(["-a", "-f", "-n", "-m4000000", "-w22"])
        .current_dir(folder.path());
    let Exited {
        status,
        stdout,
        mut stderr,
        ..
    } = exited(pan, limit)?;
    let end = match (status, judge(&stdout)) {
        (None, _) => End::Stopped,
        (Some(status), Some(found)) if status.success() => End::Found(found),
        (Some(status), _) => End::Failed(status),
    };
    if let End::Failed(_) = end {
        for line in stdout.lines().filter(|line| line.starts_with("pan:")) {
            let _ = writeln!(stderr, "{FAILURE}{line}");
        }
        let _ = writeln!(stderr, "{FAILURE}{EVENTS}the steps of --replay");
        if trace {
            let steps = run(
                folder.path(),
                "spin",
                &with(&[], &["-t", "-p", "-g", twin.file]),
            )?;
            stderr.push_str(&String::from_utf8_lossy(&steps.stdout));
        }
    }
    Ok(Ended {
        end,
        stderr,
        elapsed: start.elapsed(),
    })
}

/// What a search without errors found: how many states. None if it failed, or did not see all.
fn judge(printed: &str) -> Option<Found> {
    // Who stops for want of memory or depth has found no error either, and ends with status 0.
    let stopped = ["search depth too small", "Search not completed"];
    let whole = printed.contains("errors: 0") && !stopped.iter().any(|why| printed.contains(why));
    let mut lines = printed.lines().filter(|_| whole);
    let states = lines.find(|line| line.contains("states, stored"))?;
    Some(Found {
        executions: states.split_whitespace().next()?.parse().ok()?,
        ..Found::default()
    })
}

fn run(folder: &Path, program: &str, args: &[&str]) -> Result<Output> {
    let output = Command::new(program)
        .args(args)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {program}, which the twins need"))?;
    if !output.status.success() {
        let said = [&output.stdout[..], &output.stderr[..]].concat();
        bail!("{program}: {}", String::from_utf8_lossy(&said).trim());
    }
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_that_was_cut_off_has_found_nothing() {
        let end = "State-vector 64 byte, depth reached 9061, errors: 0\n   233919 states, stored (1.01555e+06 visited)\n";
        assert_eq!(judge(end).map(|found| found.executions), Some(233_919));
        for why in [
            "error: max search depth too small\n",
            "pan: reached -DMEMLIM bound\nWarning: Search not completed\n",
        ] {
            assert!(judge(&format!("{why}{end}")).is_none(), "{why}");
        }
    }
}
