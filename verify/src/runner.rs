//! The main function of a binary of models.
//!
//! A *row* is a program in one mode. Each row runs in its own process (`--row NAME`), since a
//! checker keeps its state in statics, and a deadlock usually ends in an abort. `cargo verify`
//! starts these processes. The binary also speaks libtest's protocol: each row is a test that
//! starts the row's process. So `cargo test`, `cargo nextest run` and `--partition` work, too.

mod args;
#[cfg(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))]
mod row;

use std::collections::BTreeSet;
use std::process::{Command, ExitCode};

use clap::Parser;
use libtest_mimic::{Failed, Trial};

use self::args::Args;
use crate::execution::{no_replay, refuse};
use crate::info::Description;
use crate::messages::{self, Found, told};
use crate::mode::Checker;
use crate::plan::{Job, jobs_here};
use crate::rows::pairs;
use crate::rows::row::Verdict;
use crate::rows::verdict::verdict;
use crate::suite::Suite;

/// Runs a binary of models, which speaks libtest's protocol: each row is a test. Returns the exit
/// code of a test binary.
pub fn main(suites: impl IntoIterator<Item = Suite>) -> ExitCode {
    let suites: Result<Vec<_>, _> = suites.into_iter().map(Suite::complete).collect();
    let suites = suites.unwrap_or_else(|why| refuse(&why));
    let mut names = BTreeSet::new();
    if let Some(twice) = suites.iter().find(|it| !names.insert(&it.info.name)) {
        refuse(&format!("two suites are called `{}`", twice.info.name));
    }
    let description = Description {
        suites: suites.iter().map(|it| it.info.clone()).collect(),
    };
    let args = Args::parse();
    match &args.row {
        _ if args.describe => messages::tell(&description),
        #[cfg(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))]
        Some(row) => row::run(row, &suites, &description, &args),
        #[cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]
        Some(_) => refuse("built without a checker; `cargo verify` builds it with one"),
        None => tests(&suites, &description, &args),
    }
}

/// Runs the tests that libtest's arguments select.
fn tests(suites: &[Suite], description: &Description, args: &Args) -> ExitCode {
    let problems = pairs::problems(&description.suites);
    let mut tests = vec![Trial::test("pairs", move || match problems.is_empty() {
        true => Ok(()),
        false => Err(problems.join("\n").into()),
    })];
    if let Some(checker) = Checker::of_this_build() {
        no_replay().unwrap_or_else(|why| refuse(&why));
        let mut rows = jobs_here(description).unwrap_or_else(|why| refuse(&why));
        rows.retain(|job| job.mode.checker() == checker);
        tests.extend(rows.into_iter().map(|job| {
            let (is_long, mutations) = (job.long, args.mutations());
            let trial = Trial::test(job.name(), move || test(&job, &mutations));
            trial.with_ignored_flag(is_long)
        }));
        return libtest_mimic::run(&args.libtest, tests).exit_code();
    }
    for suite in suites {
        tests.extend(suite.checks.iter().map(|(name, check)| {
            let (name, check) = (format!("{}/{name}", suite.info.name), check.clone());
            Trial::test(name, move || {
                check();
                Ok(())
            })
        }));
    }
    if !args.libtest.list {
        eprintln!(
            "built without a checker, so no row runs here: `cargo verify` runs all rows, \
             `RUSTFLAGS=\"--cfg spanlock_loom\" cargo test --test models` loom's rows"
        );
    }
    libtest_mimic::run(&args.libtest, tests).exit_code()
}

/// Explores a row in its own process.
fn test(job: &Job, mutations: &[String]) -> Result<(), Failed> {
    let output = Command::new(std::env::current_exe()?)
        .args(["--row", &job.name()])
        .args(mutations)
        .env_remove("RUST_BACKTRACE")
        .output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let (told, has_passed) = (told(&stderr), output.status.success());
    match (has_passed, told.is_empty()) {
        (false, false) if job.program.must_fail => Ok(()),
        _ if job.program.must_fail => Err("the known bug is not found".into()),
        (false, false) => Err(told.join("\n").into()),
        (false, true) => Err(format!("{}: {}", output.status, stderr.trim()).into()),
        (true, _) => {
            let found: Found = serde_json::from_slice(&output.stdout)?;
            match verdict(job, &found) {
                (Verdict::Failed, why) => Err(why.unwrap_or_default().into()),
                _ => Ok(()),
            }
        }
    }
}
