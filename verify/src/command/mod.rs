//! `cargo verify`: builds the models under each checker, runs them one process a row, and judges.

mod args;
mod build;
mod judge;
mod run;
pub mod spin;
mod table;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

pub use args::Args;
pub use build::{Built, build};
pub use run::{Ended, explore};

use crate::plan::{Checker, Job, jobs};
use crate::row::Row;

/// Runs the command: exit code 0 if every row passes, 1 if one does not.
///
/// # Errors
/// A wrong filter or row name, a file that cannot be written, a build that fails.
pub fn run(args: &Args) -> Result<ExitCode> {
    if let Some(name) = &args.replay {
        return replay(name);
    }
    let jobs = select(args)?;
    if args.list {
        println!("{}", table::list(&jobs));
        return Ok(ExitCode::SUCCESS);
    }
    let json = args.json.as_deref().map(writable).transpose()?;
    let built = build(&checkers(&jobs))?;
    let ended = run::run_all(&jobs, &built, args)?;
    let report = judge::judge(&jobs, &ended, &built);
    println!("{}", table::rows(&report.rows));
    print!("{}", table::failures(&report.rows));
    println!("{}", table::summary(&report));
    if let (Some(file), Some(path)) = (json, &args.json) {
        write_json(file, path, &report.rows)?;
        println!("Rows written to {}.", path.display());
    }
    Ok(if report.rows.iter().all(|row| row.verdict.passes()) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The rows that the arguments ask for.
fn select(args: &Args) -> Result<Vec<Job>> {
    let mut selected = jobs();
    if args.quick {
        selected.retain(|job| job.quick);
    }
    if !args.filter.is_empty() {
        for filter in &args.filter {
            if !selected.iter().any(|job| job.name().contains(filter)) {
                bail!(
                    "no row's name contains `{filter}`{}\n  names look like \
                     srl-array/exclusion/loom/weak; `cargo verify --list` shows them all",
                    if args.quick {
                        " among the quick ones"
                    } else {
                        ""
                    }
                );
            }
        }
        selected.retain(|job| args.filter.iter().any(|filter| job.name().contains(filter)));
    }
    Ok(selected)
}

fn checkers(jobs: &[Job]) -> Vec<Checker> {
    let needed = |checker: &Checker| jobs.iter().any(|job| job.mode.checker() == *checker);
    Checker::ALL.into_iter().filter(needed).collect()
}

/// Runs one row in the foreground, every step of its last execution kept: what it prints is shown as it is.
fn replay(name: &str) -> Result<ExitCode> {
    let Some(job) = jobs().into_iter().find(|job| job.name() == *name) else {
        bail!(
            "there is no row `{name}`: it may come from another version\n  `cargo verify --list` shows \
             those of this one"
        );
    };
    let built = build(&checkers(std::slice::from_ref(&job)))?;
    println!("{name}: {}", job.program.claim);
    let ended = explore(&built, &job, &["--trace"], None)?;
    print!("{}", ended.stderr);
    let report = judge::judge(&[job], &[ended], &built);
    println!("{}", table::rows(&report.rows));
    print!("{}", table::failures(&report.rows));
    let passes = report.rows.iter().all(|row| row.verdict.passes());
    Ok(if passes {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// `path` opened for writing, with what it has so far: so that a run is not in vain for a path that cannot be written.
fn writable(path: &Path) -> Result<File> {
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path);
    file.with_context(|| format!("--json {}: cannot write there", path.display()))
}

fn write_json(mut file: File, path: &Path, rows: &[Row]) -> Result<()> {
    let mut text = serde_json::to_vec_pretty(rows)?;
    text.push(b'\n');
    let write = |file: &mut File| {
        // What is no regular file, a pipe for example, has no length to set.
        if file.metadata()?.is_file() {
            file.set_len(0)?;
        }
        file.write_all(&text)
    };
    write(&mut file).with_context(|| format!("--json {}: cannot write", path.display()))
}

fn set_of(outcomes: &[String]) -> BTreeSet<&str> {
    outcomes.iter().map(String::as_str).collect()
}
