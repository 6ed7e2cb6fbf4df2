//! `cargo verify`: builds the models under each checker, runs them one process a row, and judges.

mod args;
mod build;
mod circumstances;
mod counts;
mod defects;
mod evidence;
mod judge;
mod kill;
mod matrix;
mod merge;
mod mutants;
mod pairs;
mod partition;
mod report;
mod run;
pub mod spin;
mod table;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use spanlock_result_file::ResultFile;
use spanlock_testkit::histories::SEED;

pub use args::{Args, DefectsArgs, MergeArgs, MutantsArgs, PairsArgs, Subcommand};
pub use build::{Built, build};
use counts::Counts;
use evidence::Evidence;
pub use partition::Partition;
pub use run::{End, Ended, explore};

use crate::models::linear::SCENARIO;
use crate::pairs::{problems, tables};
use crate::plan::{Checker, Job, jobs};
use crate::row::{Circumstances, Found, REFUSES, Row};

/// Runs the command: exit code 0 if every row passes and no pair of operations is without a model, 1 if not.
///
/// # Errors
/// A wrong filter or row name, a file that cannot be read or written, a build that fails.
pub fn run(args: &Args) -> Result<ExitCode> {
    match &args.command {
        Some(Subcommand::Merge(args)) => return merge(args),
        Some(Subcommand::Mutants(args)) => return mutants::mutants(args),
        Some(Subcommand::Defects(args)) => return defects::defects(args),
        Some(Subcommand::Pairs(args)) => return pairs::pairs(args),
        None => {}
    }
    if let Some(name) = &args.replay {
        return replay(name, args);
    }
    let counts = Counts::read()?;
    let selection = select(args, &counts)?;
    if args.list {
        println!("{}", table::list(&selection.jobs));
        return Ok(ExitCode::SUCCESS);
    }
    let outputs = Outputs::of(args)?;
    for (name, what) in [
        (SCENARIO, "that scenario and none of its own"),
        (
            SEED,
            "what that seed draws, and its command would not say so",
        ),
    ] {
        if std::env::var_os(name).is_some() {
            bail!("{name} is set: a row would run {what}; it goes with --replay");
        }
    }
    // Of some rows they would say what others show.
    let whole = args.filter.is_empty();
    let mut evidence = Evidence::default();
    if whole {
        evidence.tables = tables();
    }
    let built = build(&checkers(&selection.jobs))?;
    let limit = args.limit.unwrap_or(if args.full { 5400 } else { 900 });
    let (limit, workers) = (Duration::from_secs(limit), run::workers(args.jobs));
    let ended = run::run_all(&selection.jobs, &built, &counts, workers, limit);
    let mut rows = judge::judge(&selection, &ended, &built, &counts);
    if args.accept {
        counts.accept(&rows, &jobs())?;
        for row in rows.iter_mut().filter(|row| row.drifts()) {
            row.committed = Some(row.executions);
        }
    }
    // Of a part these are no part: they are for the machine that has the whole.
    if args.full && whole && args.partition.is_none() {
        evidence.make_wrong(&built, workers);
    } else if args.full && whole {
        evidence.notes.push(NOT_SHARED.to_owned());
    }
    conclude(&rows, &evidence, outputs)
}

/// What a whole run has, and the parts of one together have not.
const NOT_SHARED: &str = "Mutants and seeded defects are in no part: `cargo verify mutants --json` and `cargo verify defects --json`, once, on one machine; `merge` takes them.";

/// Shows the rows and writes them, with what stands beside them; exit code 0 if all is well.
fn conclude(rows: &[Row], evidence: &Evidence, outputs: Outputs) -> Result<ExitCode> {
    println!("{}", table::rows(rows));
    print!("{}{}", table::failures(rows), table::drifts(rows));
    println!("{}", table::summary(rows));
    let Evidence {
        tables,
        mutants,
        defects,
        errors,
        ..
    } = evidence;
    if !mutants.is_empty() {
        println!("{}", mutants::told(mutants));
    }
    if !defects.is_empty() {
        println!("{}", defects::told(defects));
    }
    let problems = problems(tables);
    if !tables.is_empty() {
        println!("{}", pairs::told(tables));
    }
    problems.iter().for_each(|problem| println!("{problem}"));
    evidence.remarks().for_each(|remark| println!("{remark}"));
    outputs.write(rows, evidence)?;
    let well = rows.iter().all(|row| row.verdict.passes() && !row.drifts());
    let made_wrong = mutants::all_well(mutants) && defects::all_well(defects);
    Ok(
        if well && made_wrong && problems.is_empty() && errors.is_empty() {
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
    let mut evidence = Evidence::default();
    if whole {
        evidence.tables = tables();
    }
    let run = rows[0].run.clone();
    let ours = circumstances::commit();
    if run.commit != ours {
        bail!(
            "the rows are of commit {}, and this is {ours}: its pairs of operations would stand beside them\n  check that commit out, and merge there",
            run.commit
        );
    }
    let beside = (&run, &*args.files[0]);
    if let Some(path) = &args.mutants {
        evidence.mutants = merge::judged(path, "cargo verify mutants --json", beside)?;
    }
    if let Some(path) = &args.defects {
        evidence.defects = merge::judged(path, "cargo verify defects --json", beside)?;
    }
    let both = args.mutants.is_some() && args.defects.is_some();
    if run.selection.contains("--full") && !both {
        evidence.notes.push(NOT_SHARED.to_owned());
    }
    if ours.ends_with("-dirty") || ours == "unknown" {
        evidence.notes.push(format!(
            "Commit {ours}: whether the machines had the same sources, nobody can tell."
        ));
    }
    let outputs = Outputs::new(args.json.clone(), args.report.clone())?;
    conclude(&rows, &evidence, outputs)
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
    if args.full {
        let long: BTreeSet<String> = all.iter().filter(|job| job.long).map(Job::name).collect();
        all.retain(|job| job.long || !long.contains(&job.long_name()));
    } else {
        all.retain(|job| !job.long);
    }
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

/// Runs one row in the foreground, every step of its last execution kept: what it prints is shown as it is. And those that it is compared with.
fn replay(name: &str, args: &Args) -> Result<ExitCode> {
    let all = jobs();
    let Some(job) = all.iter().find(|job| job.name() == *name).cloned() else {
        bail!(
            "there is no row `{name}`: it may come from another version\n  `cargo verify --list` shows \
             those of this one, with --full the long ones too"
        );
    };
    let mut change = Vec::new();
    if let Some(weaken) = &args.weaken {
        change.extend(["--weaken", weaken]);
    }
    if let Some(defect) = args.defect {
        change.extend(["--defect", defect.name()]);
    }
    if !change.is_empty() && job.mode.checker().cfg().is_none() {
        bail!("{name}: a twin is no code of ours, and cannot be changed so");
    }
    let jobs = [vec![job.clone()], judge::beside(&job, &all)].concat();
    let built = build(&checkers(&jobs))?;
    println!("{name}: {}", job.program.claim);
    let mut ended = Vec::new();
    for (i, job) in jobs.iter().enumerate() {
        let trace: &[&str] = if i == 0 { &["--trace"] } else { &[] };
        ended.push(explore(&built, job, &[trace, &change].concat(), None)?);
    }
    // What a model does not take, it says so itself.
    if let End::Failed(status) = &ended[0].end
        && status.code() == Some(REFUSES)
    {
        bail!("{}", ended[0].stderr.trim_end());
    }
    print!("{}", ended[0].stderr);
    let found = ended[0].found();
    for change in change.chunks(2) {
        let is_reached = |found: &Found| match change[0] {
            "--weaken" => found.weakened > 0,
            _ => found.seeded > 0,
        };
        if !found.is_none_or(is_reached) {
            bail!(
                "{}: no execution of {name} gets there: it may be of other sources\n  `cargo verify mutants --sites` and \
                 `cargo verify defects --list` show those of these",
                change.join(" ")
            );
        }
    }
    let args = <Args as clap::Parser>::parse_from(["verify"]);
    let selection = Selection {
        numbers: (1..=jobs.len()).collect(),
        circumstances: circumstances::now(&args, jobs.len()),
        jobs,
    };
    let mut rows = judge::judge(&selection, &ended, &built, &Counts::read()?);
    for row in &mut rows {
        row.replay = [&[&*row.replay], &change[..]].concat().join(" ");
    }
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
    json: Option<ResultFile>,
    report: Option<PathBuf>,
}

impl Outputs {
    fn of(args: &Args) -> Result<Self> {
        let whole = args.full && args.partition.is_none() && args.filter.is_empty();
        let here = || whole.then(|| PathBuf::from("."));
        Outputs::new(args.json.clone(), args.report.clone().or_else(here))
    }

    /// Looks whether it can be written, so that a run is not in vain.
    fn new(json: Option<PathBuf>, report: Option<PathBuf>) -> Result<Self> {
        if let Some(folder) = &report {
            if !folder.is_dir() {
                bail!("--report {}: there is no such folder", folder.display());
            }
            report::check(folder)?;
        }
        let json = json.as_deref().map(writable).transpose()?;
        Ok(Outputs { json, report })
    }

    fn write(self, rows: &[Row], evidence: &Evidence) -> Result<()> {
        if let Some(file) = self.json {
            write_json(&file, "Rows", rows)?;
        }
        let Some(folder) = self.report else {
            return Ok(());
        };
        report::write(&folder, rows, evidence)
    }
}

/// What `--json` writes to, if it can be written. Until then what is there stays as it is.
fn writable(path: &Path) -> Result<ResultFile> {
    let file = ResultFile::check(path);
    file.with_context(|| format!("--json {}: cannot write there", path.display()))
}

/// Writes them, and says that `what` is written, and where.
fn write_json(file: &ResultFile, what: &str, rows: &[impl Serialize]) -> Result<()> {
    let mut text = serde_json::to_vec_pretty(rows)?;
    text.push(b'\n');
    let path = file.path().display();
    file.write(&text)
        .with_context(|| format!("--json {path}: cannot write"))?;
    println!("{what} written to {path}.");
    Ok(())
}

fn set_of(outcomes: &[String]) -> BTreeSet<&str> {
    outcomes.iter().map(String::as_str).collect()
}
