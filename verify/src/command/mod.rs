//! `cargo verify`: builds the models under each checker, runs them one process a row, and judges.

mod args;
mod build;
mod circumstances;
mod counts;
mod judge;
mod merge;
mod mutants;
mod pairs;
mod partition;
mod report;
mod run;
pub mod spin;
mod table;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Serialize;

pub use args::{Args, MergeArgs, MutantsArgs, PairsArgs, Subcommand};
pub use build::{Built, build};
use counts::Counts;
pub use partition::Partition;
pub use run::{Ended, explore};

use crate::pairs::{Table, problems, tables};
use crate::plan::{Checker, Job, jobs};
use crate::row::{Circumstances, Row};

/// Runs the command: exit code 0 if every row passes and no pair of operations is without a model, 1 if not.
///
/// # Errors
/// A wrong filter or row name, a file that cannot be read or written, a build that fails.
pub fn run(args: &Args) -> Result<ExitCode> {
    match &args.command {
        Some(Subcommand::Merge(args)) => return merge(args),
        Some(Subcommand::Mutants(args)) => return mutants::mutants(args),
        Some(Subcommand::Pairs(args)) => return pairs::pairs(args),
        None => {}
    }
    if let Some(name) = &args.replay {
        return replay(name, args.weaken.as_deref());
    }
    let counts = Counts::read()?;
    let selection = select(args, &counts)?;
    if args.list {
        println!("{}", table::list(&selection.jobs));
        return Ok(ExitCode::SUCCESS);
    }
    let outputs = Outputs::of(args)?;
    // Of some rows they would say what others show.
    let whole = args.filter.is_empty();
    let tables = if whole { tables() } else { Vec::new() };
    let built = build(&checkers(&selection.jobs))?;
    let limit = args.limit.unwrap_or(if args.full { 5400 } else { 900 });
    let (limit, workers) = (Duration::from_secs(limit), run::workers(args.jobs));
    let ended = run::run_all(&selection.jobs, &built, &counts, workers, limit)?;
    let mut rows = judge::judge(&selection, &ended, &built, &counts);
    if args.accept {
        counts.accept(&rows, &jobs())?;
        for row in rows.iter_mut().filter(|row| row.drifts()) {
            row.committed = Some(row.executions);
        }
    }
    // Of a part the mutants are no part: they are for the machine that has the whole.
    let mutants = if args.full && args.filter.is_empty() && args.partition.is_none() {
        mutants::matrix(&[], workers)?
    } else {
        Vec::new()
    };
    conclude(&rows, &mutants, &tables, outputs)
}

/// Shows the rows and writes them, with the tables of pairs; exit code 0 if all is well.
fn conclude(
    rows: &[Row],
    mutants: &[mutants::Mutant],
    tables: &[Table],
    outputs: Outputs,
) -> Result<ExitCode> {
    println!("{}", table::rows(rows));
    print!("{}{}", table::failures(rows), table::drifts(rows));
    println!("{}", table::summary(rows));
    if !mutants.is_empty() {
        println!("{}", mutants::told(mutants));
    }
    let problems = problems(tables);
    if !tables.is_empty() {
        println!("{}", pairs::told(tables));
    }
    problems.iter().for_each(|problem| println!("{problem}"));
    outputs.write(rows, mutants, tables)?;
    let well = rows.iter().all(|row| row.verdict.passes() && !row.drifts());
    Ok(
        if well && mutants::all_well(mutants) && problems.is_empty() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        },
    )
}

fn merge(args: &MergeArgs) -> Result<ExitCode> {
    let rows = merge::merge(&args.files)?;
    let whole = !rows
        .iter()
        .any(|row| row.run.selection.contains("--filter"));
    let tables = if whole { tables() } else { Vec::new() };
    conclude(
        &rows,
        &[],
        &tables,
        Outputs::new(args.json.clone(), args.report.clone())?,
    )
}

/// The rows that the arguments ask for.
struct Selection {
    jobs: Vec<Job>,
    /// Of each its place among the rows of all partitions, from 1.
    numbers: Vec<usize>,
    circumstances: Circumstances,
}

fn select(args: &Args, counts: &Counts) -> Result<Selection> {
    let mut all = jobs();
    let among = match (args.quick, args.full) {
        (true, _) => " among the quick ones",
        (_, true) => "",
        _ => " among those that are not for --full alone",
    };
    all.retain(|job| args.full || !job.long);
    all.retain(|job| !args.quick || counts.is_quick(job));
    if !args.filter.is_empty() {
        for filter in &args.filter {
            if !all.iter().any(|job| job.name().contains(filter)) {
                bail!(
                    "no row's name contains `{filter}`{among}\n  names look like \
                     srl-array/exclusion/loom/weak; `cargo verify --list` shows them all"
                );
            }
        }
        all.retain(|job| args.filter.iter().any(|filter| job.name().contains(filter)));
    }
    let circumstances = circumstances::now(args, all.len());
    let part = partition::part(&all, counts, args.partition.unwrap_or(Partition::WHOLE));
    Ok(Selection {
        jobs: part.iter().map(|&i| all[i].clone()).collect(),
        numbers: part.iter().map(|&i| i + 1).collect(),
        circumstances,
    })
}

fn checkers(jobs: &[Job]) -> Vec<Checker> {
    let needed = |checker: &Checker| jobs.iter().any(|job| job.mode.checker() == *checker);
    Checker::ALL.into_iter().filter(needed).collect()
}

/// Runs one row in the foreground, every step of its last execution kept: what it prints is shown as it is.
fn replay(name: &str, weaken: Option<&str>) -> Result<ExitCode> {
    let Some(job) = jobs().into_iter().find(|job| job.name() == *name) else {
        bail!(
            "there is no row `{name}`: it may come from another version\n  `cargo verify --list` shows \
             those of this one, with --full the long ones too"
        );
    };
    let built = build(&checkers(std::slice::from_ref(&job)))?;
    println!("{name}: {}", job.program.claim);
    let mut more = vec!["--trace"];
    if let Some(weaken) = weaken {
        more.extend(["--weaken", weaken]);
    }
    let ended = explore(&built, &job, &more, None)?;
    print!("{}", ended.stderr);
    let args = <Args as clap::Parser>::parse_from(["verify"]);
    let selection = Selection {
        jobs: vec![job],
        numbers: vec![1],
        circumstances: circumstances::now(&args, 1),
    };
    let rows = judge::judge(&selection, &[ended], &built, &Counts::read()?);
    println!("{}", table::rows(&rows));
    print!("{}", table::failures(&rows));
    let passes = rows.iter().all(|row| row.verdict.passes());
    Ok(if passes {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// Where the result goes, besides the terminal.
struct Outputs {
    json: Option<(File, PathBuf)>,
    report: Option<PathBuf>,
}

impl Outputs {
    fn of(args: &Args) -> Result<Self> {
        let whole = args.full && args.partition.is_none();
        let here = || whole.then(|| PathBuf::from("."));
        Outputs::new(args.json.clone(), args.report.clone().or_else(here))
    }

    /// Looks whether it can be written, so that a run is not in vain.
    fn new(json: Option<PathBuf>, report: Option<PathBuf>) -> Result<Self> {
        if let Some(folder) = &report
            && !folder.is_dir()
        {
            bail!("--report {}: there is no such folder", folder.display());
        }
        let json = json.map(|path| writable(&path).map(|file| (file, path)));
        Ok(Outputs {
            json: json.transpose()?,
            report,
        })
    }

    fn write(self, rows: &[Row], mutants: &[mutants::Mutant], tables: &[Table]) -> Result<()> {
        if let Some((file, path)) = self.json {
            write_json(file, &path, rows)?;
            println!("Rows written to {}.", path.display());
        }
        let Some(folder) = self.report else {
            return Ok(());
        };
        report::write(&folder, rows, mutants, tables)
    }
}

/// `path` opened for writing, with what it has so far.
fn writable(path: &Path) -> Result<File> {
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path);
    file.with_context(|| format!("--json {}: cannot write there", path.display()))
}

fn write_json(mut file: File, path: &Path, rows: &[impl Serialize]) -> Result<()> {
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
