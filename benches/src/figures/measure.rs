//! Runs the commands that write the result files.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::results::Results;
use crate::load::Others;

/// A comparison, and how it is run for the figures of documents.
pub struct Run {
    /// The name, which is also that of the result file.
    pub name: &'static str,
    /// The arguments of `cargo compare`.
    pub arguments: &'static str,
    /// About how many seconds it takes on two cores.
    pub seconds: u64,
}

/// All comparisons, in the order in which they run.
#[rustfmt::skip] // A comparison is one line.
pub const RUNS: [Run; 7] = [
    Run { name: "micro", arguments: "--micro --seconds 0.5", seconds: 75 },
    Run { name: "compare", arguments: "--threads 1,2,8 --seconds 0.8", seconds: 140 },
    Run { name: "contention", arguments: "contention", seconds: 85 },
    Run { name: "journal", arguments: "journal --workload commit,blocks --threads 1,2,8,16 --think 0 --seconds 0.35", seconds: 150 },
    Run { name: "file-core", arguments: "file-core", seconds: 60 },
    Run { name: "recovery", arguments: "recovery --files 1000000 --large", seconds: 90 },
    Run { name: "failures", arguments: "failures", seconds: 90 },
];

impl Run {
    /// Returns the command line.
    pub fn command(&self) -> String {
        format!("cargo compare {}", self.arguments)
    }
}

/// Returns the comparisons of these names, or all if there are none.
pub fn chosen(names: &[String]) -> Vec<&'static Run> {
    let is_chosen = |run: &&Run| names.is_empty() || names.iter().any(|it| it == run.name);
    RUNS.iter().filter(is_chosen).collect()
}

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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Args;

    #[test]
    fn the_arguments_of_every_comparison_are_valid() {
        for run in &RUNS {
            let words = run.arguments.split_whitespace();
            let args = Args::try_parse_from(["compare"].into_iter().chain(words)).unwrap();
            let name = match (&args.command, args.micro) {
                (None, true) => "micro",
                (None, false) => "compare",
                _ => run.arguments.split(' ').next().unwrap(),
            };
            assert_eq!(name, run.name);
        }
        let total: u64 = RUNS.iter().map(|it| it.seconds).sum();
        assert!(total <= 12 * 60, "{total} s");
    }
}
