//! Runs rows: `cargo verify` without a subcommand, `cargo verify known-bugs`, and `--replay`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Error, Result, bail, ensure};

use super::args::{Args, Change, Common, KnownBugsArgs, Scope};
use super::build::{Built, KNOWN_BUGS, MODELS};
use super::explore::explore;
use super::models::{Models, Task, models, suites, tasks};
use super::output::{exit_code, say, tell_lines};
use super::outputs::Outputs;
use super::partition::Partition;
use super::process::End;
use super::report::{Results, SHARED_BY_NONE, conclude};
use super::run::{accept, run_all, workers};
use super::{judge, kill, table};
use crate::info::Kind;
use crate::messages::REFUSES;
use crate::mode::Mode;
use crate::plan::Job;
use crate::rows::counts::{Count, Counts};
use crate::rows::pairs::tables;
use crate::rows::row::{Circumstances, Row, Verdict};

/// The time limit of each row of a known bug.
const LIMIT: Duration = Duration::from_secs(900);

/// Runs the selected rows. Returns exit code 0 if all pass as recorded and no other check fails.
pub(super) fn verify(args: &Args) -> Result<ExitCode> {
    // A table of only some programs would have empty cells that other programs fill.
    let whole = args.common.is_everything();
    let mut outputs = Outputs::new(args.common.json.as_ref(), args.report.as_ref())?;
    let (mut built, models) = models(&args.common.scope, MODELS, false)?;
    let (tasks, run) = select(args, &built, &models)?;
    if args.list {
        say!("{}", table::list(&tasks));
        return Ok(ExitCode::SUCCESS);
    }
    if args.full && whole && args.partition.is_none() && outputs.report.is_none() {
        let folder = built.folder.join("verify").join("report");
        fs::create_dir_all(&folder)?;
        outputs = Outputs::new(args.common.json.as_ref(), Some(&folder))?;
    }
    built.add(tasks.iter().map(|task| task.job.mode.checker()))?;
    let limit = args.limit.unwrap_or(900);
    let (workers, limit) = (workers(args.common.jobs), Duration::from_secs(limit));
    let ran = run_all(&tasks, &built, workers, limit, args.accept);
    let mut results = Results {
        rows: judge::judge(&ran, &built, &run),
        ..Results::default()
    };
    if args.accept {
        let accepted = accept(&models, &ran, &mut results.rows)?;
        say!("{accepted} searches recorded.");
    }
    // What the record says has changed.
    let models = match args.accept {
        true => recorded_anew(&models)?,
        false => models,
    };
    let left_out = tasks_left_out(&models);
    if args.full && left_out > 0 {
        results.notes.push(format!(
            "{left_out} long searches do not end in time, so no run has them: their records have 0 \
             executions."
        ));
    }
    if tasks.is_empty() && args.partition.is_none() {
        let why = "No row ran: record searches with `cargo verify --accept`, or add programs.";
        results.errors.push(why.to_owned());
    }
    if whole {
        results.tables = tables(&suites(&models));
        results.errors.extend(gone(&models, args.accept));
    }
    // The mutants and the bugs run once, on one machine, for all partitions.
    if args.full && whole && args.partition.is_some() {
        results.notes.push(SHARED_BY_NONE.to_owned());
    } else if args.changes || (args.full && whole) {
        let run = Circumstances {
            selection: String::new(),
            ..run
        };
        match kill::judge_all(&mut built, &models, &ran, workers, &run) {
            Ok((changes, errors)) => {
                results.changes = changes;
                results.errors.extend(errors);
            }
            Err(why) => results.errors.push(format!(
                "The mutants and the injected bugs could not be judged: {why:#}"
            )),
        }
    }
    conclude(&results, &outputs)
}

/// Returns the models with their records as they are now.
fn recorded_anew(models: &[Arc<Models>]) -> Result<Vec<Arc<Models>>> {
    let anew = |it: &Arc<Models>| {
        Ok(Arc::new(Models {
            package: it.package.clone(),
            description: it.description.clone(),
            counts: Counts::read(&it.package.folder).map_err(Error::msg)?,
        }))
    };
    models.iter().map(anew).collect()
}

fn is_left_out(task: &Task) -> bool {
    task.recorded() == Some(Count::ENDLESS)
}

/// Returns how many long rows no run has.
fn tasks_left_out(models: &[Arc<Models>]) -> usize {
    let tasks = tasks(models);
    tasks.iter().filter(|task| is_left_out(task)).count()
}

/// Returns an error for each recorded row that no program has any more. Otherwise, nobody would
/// notice a program that was removed or renamed by mistake.
fn gone(models: &[Arc<Models>], accepted: bool) -> Vec<String> {
    let planned = tasks(models);
    let planned: BTreeSet<String> = planned.iter().map(|task| task.job.name()).collect();
    let recorded = models.iter().flat_map(|it| it.counts.0.keys());
    let gone = recorded.filter(|row| !accepted && !planned.contains(*row));
    gone.map(|row| {
        format!("GONE: {row} is recorded, but no program has it: restore it, or use `--accept`")
    })
    .collect()
}

/// Returns the selected rows, and the circumstances of the run (options, versions, machine).
fn select(
    args: &Args,
    built: &Built,
    models: &[Arc<Models>],
) -> Result<(Vec<Task>, Circumstances)> {
    let mut all = tasks(models);
    all.retain(|task| !is_left_out(task));
    if args.full {
        let long = all.iter().map(|task| &task.job).filter(|job| job.long);
        let long: BTreeSet<String> = long.map(Job::name).collect();
        all.retain(|task| !long.contains(&format!("{}/long", task.job.name())));
    } else {
        all.retain(|task| !task.job.long);
    }
    all.retain(|task| !args.quick || task.job.is_quick(&task.models.counts));
    let among = match (args.quick, args.full) {
        (true, _) => " among the quick ones",
        (_, true) => "",
        _ => " among the rows that run without --full",
    };
    let missing = format!(
        "no row's name contains `{{}}`{among}\n  names look like SUITE/PROGRAM/explorer; `cargo \
         verify --list` shows them all"
    );
    let name = |task: &Task| task.job.name();
    args.common.retain(&mut all, name, &missing)?;
    number(&mut all);
    let options = [
        ("--quick", args.quick),
        ("--full", args.full),
        ("--accept", args.accept),
    ];
    let partition = args.partition.unwrap_or(Partition::WHOLE);
    let run = Circumstances {
        rows: all.len(),
        partition: partition.to_string(),
        ..built.circumstances(&args.common, &options)
    };
    Ok((part(all, partition), run))
}

fn number(tasks: &mut [Task]) {
    for (i, task) in tasks.iter_mut().enumerate() {
        task.number = i + 1;
    }
}

/// Checks re-created bugs of other projects, each in a buggy and a fixed form. Returns exit code 0
/// if every buggy form fails in the modes that must find the bug, and all other rows pass.
pub(super) fn known_bugs(args: &KnownBugsArgs) -> Result<ExitCode> {
    let common = &args.common;
    if let Some(name) = &args.replay {
        return replay(name, &common.scope, KNOWN_BUGS, &Change::default());
    }
    let outputs = Outputs::new(common.json.as_ref(), None)?;
    let (mut built, models) = models(&common.scope, KNOWN_BUGS, false)?;
    let mut tasks = tasks(&models);
    tasks.retain(|task| {
        let job = &task.job;
        // A known bug has no record, so only loom's searches of three threads are long.
        let is_searched = !job.long || job.mode == Mode::Weak;
        is_searched && job.program.form.is_some()
    });
    let missing = "no known bug's name contains `{}`";
    let name = |task: &Task| task.job.program.suite.clone();
    common.retain(&mut tasks, name, missing)?;
    number(&mut tasks);
    built.add(tasks.iter().map(|task| task.job.mode.checker()))?;
    let ran = run_all(&tasks, &built, workers(common.jobs), LIMIT, true);
    let run = Circumstances {
        rows: tasks.len(),
        ..built.circumstances(common, &[])
    };
    let judged = judge::judge(&ran, &built, &run);
    let mut wrong = Vec::new();
    for ((task, _), row) in ran.iter().zip(&judged) {
        match (task.job.program.must_fail, row.verdict) {
            (true, Verdict::Failed) => {}
            (false, verdict) if verdict.passes() => {}
            _ => wrong.push(row.clone()),
        }
    }
    let (mut rows, mut bugs, mut unfound) = (Vec::new(), 0, Vec::new());
    for form in judged.chunk_by(|a, b| (&a.primitive, &a.property) == (&b.primitive, &b.property)) {
        if form[0].known.as_ref().is_none_or(|it| it.form != "buggy") {
            rows.extend_from_slice(form);
            continue;
        }
        // Of a buggy form: the first mode that finds the bug.
        let failed = form.iter().find(|row| row.verdict == Verdict::Failed);
        if failed.is_none() {
            let (bug, checker) = (&form[0].primitive, &form[0].blind_spot);
            unfound.push(format!("NOT FOUND: {bug}: {checker}"));
        }
        bugs += 1;
        rows.push(failed.unwrap_or(&form[0]).clone());
    }
    say!("{}", table::rows(&rows));
    say!("{} of {bugs} known bugs found.", bugs - unfound.len());
    unfound.iter().for_each(|line| say!("{line}"));
    let told = |row: &Row| say!("WRONG: {} is {:?}", row.name, row.verdict);
    wrong.iter().for_each(told);
    tell_lines(&table::failures(&wrong));
    outputs.write(&rows)?;
    Ok(exit_code(wrong.is_empty()))
}

/// Runs the row `name` of the test target `target`, and the rows with which it is compared. Prints
/// the output of `name` and the verdicts on all of them.
pub(super) fn replay(
    name: &str,
    scope: &Scope,
    target: &'static str,
    change: &Change,
) -> Result<ExitCode> {
    let (mut built, models) = models(scope, target, true)?;
    let all = tasks(&models);
    let Some(task) = all.iter().find(|task| task.job.name() == *name) else {
        bail!(
            "there is no row `{name}`: is the name from another version?\n  `cargo verify --list` \
             shows this version's rows; with --full, also the long ones"
        );
    };
    let Change { weaken, bug } = change;
    let changes = [("--weaken", weaken), ("--bug", bug)];
    let words = changes
        .iter()
        .filter_map(|(option, value)| Some([*option, value.as_deref()?]));
    let words: Vec<&str> = words.flatten().collect();
    let is_promela = matches!(task.job.program.kind, Kind::Promela { .. });
    ensure!(
        weaken.is_none() || !is_promela,
        "{name}: a Promela model has no orderings to weaken"
    );
    let tasks = [vec![task.clone()], judge::beside(task, &all)].concat();
    built.add(tasks.iter().map(|task| task.job.mode.checker()))?;
    say!("{name}: {}", task.job.program.claim);
    let mut ran = Vec::new();
    for task in tasks {
        let mut more = words.clone();
        more.extend(ran.is_empty().then_some("--trace"));
        let ended = explore(&built, &task, &more, None)?;
        ran.push((task, ended));
    }
    let ended = &ran[0].1;
    // The binary's own message names the arguments that it refuses.
    if let End::Failed(status) = &ended.end
        && status.code() == Some(REFUSES)
    {
        bail!("{}", ended.stderr.trim_end());
    }
    tell_lines(&ended.stderr);
    if let Some(found) = ended.found().filter(|_| !is_promela) {
        // If no execution reaches the change, the replay shows nothing.
        for ((option, value), reached) in changes.iter().zip([found.weakened, found.bug_fired]) {
            let value = value.as_deref().unwrap_or_default();
            ensure!(
                value.is_empty() || reached > 0,
                "{option} {value}: no execution of {name} reaches it: is it out of date?\n  \
                 `cargo verify mutants --list` and `cargo verify bugs --list` show what exists now"
            );
        }
    }
    let run = built.circumstances(&Common::default(), &[]);
    let mut rows = judge::judge(&ran, &built, &run);
    for row in &mut rows {
        row.replay = [&[&*row.replay], &words[..]].concat().join(" ");
    }
    say!("{}", table::rows(&rows));
    tell_lines(&table::failures(&rows));
    Ok(exit_code(rows.iter().all(|row| row.verdict.passes())))
}

/// Returns the rows of this part, in order.
///
/// The rows of a program are compared, so they stay in one part. The costliest programs are
/// distributed first.
fn part(tasks: Vec<Task>, partition: Partition) -> Vec<Task> {
    let mut programs: BTreeMap<(String, String), u64> = BTreeMap::new();
    let program = |task: &Task| {
        let program = &task.job.program;
        (program.suite.clone(), program.name.clone())
    };
    for task in &tasks {
        let cost = programs.entry(program(task)).or_default();
        *cost = cost.saturating_add(task.cost());
    }
    let mut programs: Vec<_> = programs.into_iter().collect();
    programs.sort_by_key(|&(_, cost)| Reverse(cost));
    let mine = partition.of(programs).map(|(program, _)| program);
    let mine: BTreeSet<_> = mine.collect();
    let mut tasks = tasks;
    tasks.retain(|task| mine.contains(&program(task)));
    tasks
}
