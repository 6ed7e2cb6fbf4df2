//! `cargo verify` without a subcommand: the rows. And what every run of rows ends with.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};

use super::args::Args;
use super::build::Built;
use super::evidence::{Evidence, SHARED_BY_NONE};
use super::models::{describe, suites};
use super::output::{Output, json_at, write_json};
use super::run::{Way, accept, run_all};
use super::selection::{Selection, select};
use super::workspace::{MODELS, Workspace};
use super::{bugs, exit_code, judge, mutants, pairs, pool, report, table};
use crate::rows::pairs::tables;
use crate::rows::row::Row;

/// Variables of a replay that would change what a row runs, unnoticed.
const OF_A_REPLAY: [(&str, &str); 2] = [
    ("SPANLOCK_SCENARIO", "that scenario and none of its own"),
    ("SPANLOCK_SEED", "what that seed draws, and not say so"),
];

/// Runs the rows: exit code 0 if each passes and no pair of operations is without a program.
///
/// # Errors
/// A wrong filter, a file that cannot be read or written, a build that fails.
pub(super) fn verify(args: &Args) -> Result<ExitCode> {
    let workspace = Workspace::find(&args.scope)?;
    let mut built = Built::none_of(workspace, MODELS)?;
    let outputs = match args.list {
        true => Outputs::default(),
        false => Outputs::of(args, &built.workspace)?,
    };
    for (name, what) in OF_A_REPLAY {
        if !args.list && std::env::var_os(name).is_some() {
            bail!("{name} is set: a row would run {what}\n  unset it, or use it with --replay");
        }
    }
    let models = describe(&mut built)?;
    let selection = select(args, &built.workspace, &models)?;
    if args.list {
        println!("{}", table::list(&selection.tasks));
        return Ok(ExitCode::SUCCESS);
    }
    let Selection {
        tasks,
        numbers,
        circumstances,
    } = selection;
    // Tables of some rows would name cells empty that other rows fill.
    let whole = is_whole(args);
    let mut evidence = Evidence::default();
    if whole {
        evidence.tables = tables(&suites(&models));
    }
    built.add(tasks.iter().map(|task| task.job.mode.checker()))?;
    let limit = args.limit.unwrap_or(if args.full { 5400 } else { 900 });
    let way = Way {
        workers: pool::workers(args.jobs),
        limit: Duration::from_secs(limit),
        measures: args.accept,
    };
    let ran = run_all(&tasks, &built, &way);
    let mut rows = judge::judge(&ran, &numbers, &built, &circumstances);
    if args.accept {
        let tasks: Vec<_> = ran.into_iter().map(|(task, _)| task).collect();
        let accepted = accept(&models, &tasks, &mut rows)?;
        println!("{accepted} searches recorded.");
    }
    // One machine makes these for all partitions.
    if args.full && whole && args.partition.is_none() {
        evidence.make_wrong(&mut built, &models, way.workers);
    } else if args.full && whole {
        evidence.notes.push(SHARED_BY_NONE.to_owned());
    }
    conclude(&rows, &evidence, &suites(&models), outputs)
}

fn is_whole(args: &Args) -> bool {
    args.filter.is_empty() && args.scope.package.is_empty()
}

/// Shows the rows and writes them, with what stands beside them; exit code 0 if all is well.
///
/// # Errors
/// A file cannot be written.
pub(super) fn conclude(
    rows: &[Row],
    evidence: &Evidence,
    suites: &[crate::info::SuiteInfo],
    outputs: Outputs,
) -> Result<ExitCode> {
    println!("{}", table::rows(rows));
    print!("{}{}", table::failures(rows), table::drifts(rows));
    println!("{}", table::summary(rows));
    if !evidence.mutants.is_empty() {
        println!("{}", mutants::told(&evidence.mutants));
    }
    if !evidence.bugs.is_empty() {
        println!("{}", bugs::told(&evidence.bugs));
    }
    let mut problems = Vec::new();
    if !evidence.tables.is_empty() {
        println!("{}", pairs::told(&evidence.tables));
        problems = crate::rows::pairs::problems(suites);
    }
    problems.iter().for_each(|problem| println!("{problem}"));
    evidence.remarks().for_each(|remark| println!("{remark}"));
    outputs.write(rows, evidence)?;
    let pass = rows.iter().all(|row| row.verdict.passes() && !row.drifts());
    let killed = mutants::all_well(&evidence.mutants) && bugs::all_well(&evidence.bugs);
    Ok(exit_code(
        pass && killed && problems.is_empty() && evidence.errors.is_empty(),
    ))
}

/// Where the result goes, besides the terminal.
#[derive(Default)]
pub(super) struct Outputs {
    json: Option<Output>,
    report: Option<PathBuf>,
}

impl Outputs {
    fn of(args: &Args, workspace: &Workspace) -> Result<Self> {
        let whole = args.full && args.partition.is_none() && is_whole(args);
        let mut report = args.report.clone();
        if report.is_none() && whole {
            let folder = workspace.target.join("verify").join("report");
            std::fs::create_dir_all(&folder)?;
            report = Some(folder);
        }
        Outputs::new(args.json.as_deref(), report)
    }

    /// Checks that everything can be written, so that a run is not in vain.
    ///
    /// # Errors
    /// Something cannot be.
    pub(super) fn new(json: Option<&Path>, report: Option<PathBuf>) -> Result<Self> {
        if let Some(folder) = &report {
            if !folder.is_dir() {
                bail!("--report {}: there is no such folder", folder.display());
            }
            report::check(folder)?;
        }
        let json = json_at(json)?;
        Ok(Outputs { json, report })
    }

    fn write(self, rows: &[Row], evidence: &Evidence) -> Result<()> {
        write_json(self.json.as_ref(), "Rows", rows)?;
        match self.report {
            Some(folder) => report::write(&folder, rows, evidence),
            None => Ok(()),
        }
    }
}
