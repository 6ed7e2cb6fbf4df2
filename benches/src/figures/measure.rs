//! Runs the commands that write the result files.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::results::Results;
use super::runs::Run;
use crate::load::Others;

/// Runs comparisons one after another, each as a child process of `program`, which is this program.
/// They write their results into `dir`. `say` receives lines about the progress.
///
/// # Errors
/// A comparison fails. The result files of those before it are kept.
pub fn measure(program: &Path, chosen: &[&Run], dir: &Path, say: impl Fn(&str)) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
    let seconds = chosen.iter().map(|it| it.seconds).sum();
    let begun = Instant::now();
    say(&format!(
        "measuring takes about {}; run nothing else meanwhile",
        minutes(Duration::from_secs(seconds))
    ));
    let mut disturbed = Vec::new();
    for (nth, run) in (1..).zip(chosen) {
        let (count, about) = (chosen.len(), run.seconds);
        say(&format!(
            "{nth} of {count}: {}, about {about} s",
            run.command()
        ));
        let (path, started) = (dir.join(format!("{}.json", run.name)), Instant::now());
        // The table goes to documents, and the progress bar and errors to the terminal.
        let status = Command::new(program)
            .args(run.arguments.split_whitespace())
            .arg("--json")
            .arg(&path)
            .args(["--report", "/dev/null"])
            .stdout(Stdio::null())
            .status()
            .with_context(|| format!("starting {}", run.command()))?;
        ensure!(status.success(), "{} failed: {status}", run.command());
        let results = Results::new(dir).of(run.name)?;
        let others = Others::of_share(results.origin.disturbed);
        say(&format!("    {} s; {others}", started.elapsed().as_secs()));
        if others.too_much() {
            disturbed.push(run.name);
        }
    }
    say(&format!("measured in {}", minutes(begun.elapsed())));
    if !disturbed.is_empty() {
        say(&format!(
            "disturbed by other programs, so measure again on an idle machine: {}",
            disturbed.join(", ")
        ));
    }
    Ok(())
}

fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    format!("{} min {} s", seconds / 60, seconds % 60)
}
