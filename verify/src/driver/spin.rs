//! Runs Promela models with Spin: translates one to C, compiles that, and searches every state for
//! claims of the form *eventually*.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::process::{End, Ended, exited};
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
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    // Spin writes its files where it runs.
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
    // Weak fairness needs a bit for each thread and two more, in bytes.
    run("cc", &["-w", "-O2", "-DNFAIR=2", "-o", "pan", "pan.c"])?;
    let mut pan = Command::new(folder.path().join("pan"));
    // Acceptance cycles under weak fairness, without the list of unreached code; the depth, and
    // the logarithm of the table's first size.
    pan.args(["-a", "-f", "-n", "-m4000000", "-w22"])
        .current_dir(folder.path());
    let mut ended = exited(pan, limit)?;
    let End::Failed(status) = ended.end else {
        return Ok(ended);
    };
    if let Some(found) = judge(&ended.stdout).filter(|_| status.success()) {
        ended.end = End::Found(found);
        return Ok(ended);
    }
    let said = ended.stdout.lines().filter(|line| line.starts_with("pan:"));
    for line in said.chain([&*format!("{EVENTS}the steps of --replay")]) {
        let _ = writeln!(ended.stderr, "{FAILURE}{line}");
    }
    if trace {
        ended.stderr.push_str(&run("spin", &["-t", "-p", "-g"])?);
    }
    Ok(ended)
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
