//! Runs Promela models with Spin: translates one to C, compiles that, and searches every state for
//! claims of the form *eventually*.

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::process::{End, Ended, Exited, exited};
use crate::rows::row::{EVENTS, FAILURE, Found};

const MISSING: &str =
    "Spin is not installed: `apt-get install spin` (Debian, Ubuntu), or https://spinroot.com";

/// Returns the version of Spin; none if it is not installed.
pub(super) fn version() -> Option<String> {
    let output = Command::new("spin").arg("-V").output().ok()?;
    let said = String::from_utf8_lossy(&output.stdout);
    said.split_whitespace().nth(2).map(str::to_owned)
}

/// Searches every state of the model in `file` for at most `limit`, with `macros` defined: injected
/// bugs. With `trace`, reports every step to a failure.
pub(super) fn check(
    file: &Path,
    macros: &[&str],
    trace: bool,
    limit: Option<Duration>,
) -> Result<Ended> {
    if version().is_none() {
        return Ok(Ended::without_process(End::Skipped(MISSING.to_owned())));
    }
    let start = Instant::now();
    let name = file.file_name().and_then(|it| it.to_str());
    let name = name.with_context(|| format!("{}: not the name of a file", file.display()))?;
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    // Spin writes its files where it runs.
    std::fs::copy(file, folder.path().join(name))
        .with_context(|| format!("cannot copy {}", file.display()))?;
    let defines: Vec<String> = macros.iter().map(|name| format!("-D{name}")).collect();
    let spin = |args: &[&str]| {
        let mut spin = Command::new("spin");
        run(folder.path(), spin.args(&defines).args(args).arg(name))
    };
    spin(&["-a"])?;
    // Weak fairness needs a bit for each thread and two more, in bytes.
    let cc = ["-w", "-O2", "-DNFAIR=2", "-o", "pan", "pan.c"];
    run(folder.path(), Command::new("cc").args(cc))?;
    let mut pan = Command::new(folder.path().join("pan"));
    // Acceptance cycles under weak fairness, without the list of unreached code; the depth, and
    // the logarithm of the table's first size.
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
            let steps = spin(&["-t", "-p", "-g"])?;
            stderr.push_str(&String::from_utf8_lossy(&steps.stdout));
        }
    }
    Ok(Ended {
        end,
        stderr,
        elapsed: start.elapsed(),
    })
}

/// Returns the states that a search found; none if it failed, or did not see all.
fn judge(printed: &str) -> Option<Found> {
    // A search that runs out of memory or depth also reports no error, and ends with status 0.
    let stopped = ["search depth too small", "Search not completed"];
    let whole = printed.contains("errors: 0") && !stopped.iter().any(|why| printed.contains(why));
    let mut lines = printed.lines().filter(|_| whole);
    let states = lines.find(|line| line.contains("states, stored"))?;
    Some(Found {
        executions: states.split_whitespace().next()?.parse().ok()?,
        ..Found::default()
    })
}

fn run(folder: &Path, command: &mut Command) -> Result<Output> {
    let output = command.current_dir(folder).stdin(Stdio::null()).output();
    let program = command.get_program().display();
    let output =
        output.with_context(|| format!("cannot run {program}, which Promela models need"))?;
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
    fn a_search_that_was_cut_off_has_no_finding() {
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
