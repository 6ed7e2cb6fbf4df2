//! `cargo verify` without a subcommand: the rows. And what every run of rows ends with.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow, bail};

use super::args::Args;
use super::build::Built;
use super::evidence::{Evidence, SHARED_BY_NONE};
use super::kill::{self, Judged};
use super::models::{Models, Task, describe, suites, tasks};
use super::output::{Output, json_at, write_json};
use super::partition::{Partition, part};
use super::run::{Way, accept, run_all};
use super::workspace::{MODELS, Workspace};
use super::{circumstances, exit_code, judge, pairs, pool, report, retain_meant, table};
use crate::info::SuiteInfo;
use crate::plan::{Job, Unrecorded};
use crate::rows::pairs::{problems, tables};
use crate::rows::row::{Circumstances, Row};
use crate::worlds::no_replay;

/// Runs the rows: exit code 0 if each passes as recorded, and nothing else is wrong.
pub(super) fn verify(args: &Args) -> Result<ExitCode> {
    let workspace = Workspace::find(&args.common.scope)?;
    let mut built = Built::none_of(workspace, MODELS)?;
    if args.list {
        let models = describe(&mut built)?;
        let (tasks, ..) = select(args, &built, &models)?;
        println!("{}", table::list(&tasks));
        return Ok(ExitCode::SUCCESS);
    }
    // Tables of some rows would name cells empty that other rows fill.
    let whole = args.common.is_everything();
    let outputs = outputs(args, &built.workspace)?;
    no_replay().map_err(|why| anyhow!(why))?;
    let models = describe(&mut built)?;
    let (tasks, numbers, run) = select(args, &built, &models)?;
    built.add(tasks.iter().map(|task| task.job.mode.checker()))?;
    let limit = args.limit.unwrap_or(if args.full { 5400 } else { 900 });
    let way = Way {
        workers: pool::workers(args.common.jobs),
        limit: Duration::from_secs(limit),
        measures: args.accept,
    };
    let ran = run_all(&tasks, &built, &way);
    let mut rows = judge::judge(&ran, &numbers, &built, &run);
    if args.accept {
        let accepted = accept(&models, &ran, &mut rows)?;
        println!("{accepted} searches recorded.");
    }
    let suites = suites(&models);
    let mut evidence = Evidence::default();
    if tasks.is_empty() && args.partition.is_none() {
        let why = "No row was run: record searches with `cargo verify --accept`, or add programs.";
        evidence.errors.push(why.to_owned());
    }
    if whole {
        evidence.tables = tables(&suites);
        evidence.errors.extend(gone(&models, args.accept));
    }
    // One machine makes these for all partitions.
    if args.full && whole && args.partition.is_some() {
        evidence.notes.push(SHARED_BY_NONE.to_owned());
    } else if args.full && whole {
        let injected = evidence.inject(&mut built, &models, way.workers, &run);
        if let Err(why) = injected {
            let what = "The mutants and the injected bugs could not be judged";
            evidence.errors.push(format!("{what}: {why:#}"));
        }
    }
    conclude(&rows, &evidence, &suites, outputs)
}

/// Returns an error for each recorded row that no program has any more: a program that was removed
/// or renamed by mistake must not go unnoticed.
fn gone(models: &[Arc<Models>], accepted: bool) -> Vec<String> {
    let planned: BTreeSet<String> = tasks(models, Unrecorded::Bounded)
        .iter()
        .map(|task| task.job.name())
        .collect();
    let recorded = models.iter().flat_map(|it| it.counts.rows());
    let gone = recorded.filter(|row| !accepted && !planned.contains(*row));
    gone.map(|row| {
        format!("GONE: {row} is recorded, and no program has it: restore it, or `--accept`")
    })
    .collect()
}

/// Returns the rows that the arguments ask for, the number of each among the rows of all
/// partitions, and the circumstances of the run.
fn select(
    args: &Args,
    built: &Built,
    models: &[Arc<Models>],
) -> Result<(Vec<Task>, Vec<usize>, Circumstances)> {
    let unrecorded = match args.accept {
        true => Unrecorded::Whole,
        false => Unrecorded::Bounded,
    };
    let mut all = tasks(models, unrecorded);
    if args.full {
        let long = all.iter().map(|task| &task.job).filter(|job| job.long);
        let long: BTreeSet<String> = long.map(Job::name).collect();
        all.retain(|task| !long.contains(&format!("{}/long", task.job.name())));
    } else {
        all.retain(|task| !task.job.long);
    }
    all.retain(|task| !args.quick || task.models.counts.is_quick(&task.job));
    let among = match (args.quick, args.full) {
        (true, _) => " among the quick ones",
        (_, true) => "",
        _ => " among those that are not for --full alone",
    };
    let missing = format!(
        "no row's name contains `{{}}`{among}\n  names look like SUITE/PROGRAM/loom/weak; `cargo \
         verify --list` shows them all"
    );
    retain_meant(
        &mut all,
        &args.common.filter,
        |task| task.job.name(),
        &missing,
    )?;
    let options = [
        ("--quick", args.quick),
        ("--full", args.full),
        ("--accept", args.accept),
    ];
    let options = options.into_iter().filter(|(_, is_given)| *is_given);
    let options: Vec<&str> = options.map(|(name, _)| name).collect();
    let partition = args.partition.unwrap_or(Partition::WHOLE);
    let run = Circumstances {
        rows: all.len(),
        partition: partition.to_string(),
        ..circumstances::now(&args.common, &options, &built.workspace)
    };
    let part = part(&all, partition);
    let tasks = part.iter().map(|&i| all[i].clone()).collect();
    Ok((tasks, part.iter().map(|i| i + 1).collect(), run))
}

/// Prints and writes the rows and the other results: exit code 0 if all is well.
pub(super) fn conclude(
    rows: &[Row],
    evidence: &Evidence,
    suites: &[SuiteInfo],
    outputs: Outputs,
) -> Result<ExitCode> {
    println!("{}", table::rows(rows));
    print!("{}{}", table::failures(rows), table::drifts(rows));
    println!("{}", table::summary(rows));
    let Evidence { mutants, bugs, .. } = evidence;
    if !mutants.is_empty() {
        println!("{}", kill::summary(mutants));
    }
    if !bugs.is_empty() {
        println!("{}", kill::summary(bugs));
    }
    let mut empty = Vec::new();
    if !evidence.tables.is_empty() {
        println!("{}", pairs::told(&evidence.tables));
        empty = problems(suites);
    }
    let remarks = empty.iter().chain(evidence.remarks());
    remarks.for_each(|remark| println!("{remark}"));
    outputs.write(rows, evidence)?;
    let pass = rows.iter().all(|row| row.verdict.passes() && !row.drifts());
    let killed = mutants.iter().all(Judged::is_well) && bugs.iter().all(Judged::is_well);
    Ok(exit_code(
        pass && killed && empty.is_empty() && evidence.errors.is_empty(),
    ))
}

fn outputs(args: &Args, workspace: &Workspace) -> Result<Outputs> {
    let whole = args.full && args.partition.is_none() && args.common.is_everything();
    let mut report = args.report.clone();
    if report.is_none() && whole {
        let folder = workspace.target.join("verify").join("report");
        std::fs::create_dir_all(&folder)?;
        report = Some(folder);
    }
    Outputs::new(args.common.json.as_deref(), report.as_deref())
}

/// Where the result goes, besides the terminal.
pub(super) struct Outputs {
    json: Option<Output>,
    report: Vec<Output>,
}

impl Outputs {
    /// Checks that everything can be written, so that a run is not in vain.
    pub(super) fn new(json: Option<&Path>, report: Option<&Path>) -> Result<Self> {
        if let Some(folder) = report.filter(|folder| !folder.is_dir()) {
            bail!("--report {}: there is no such folder", folder.display());
        }
        Ok(Outputs {
            json: json_at(json)?,
            report: report.map_or(Ok(Vec::new()), report::files)?,
        })
    }

    fn write(self, rows: &[Row], evidence: &Evidence) -> Result<()> {
        write_json(self.json.as_ref(), "Rows", rows)?;
        match &self.report[..] {
            [] => Ok(()),
            files => report::write(files, rows, evidence),
        }
    }
}
