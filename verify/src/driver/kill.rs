//! Makes one change to the code under test at a time (a mutant or an injected bug), and runs
//! programs until one fails. Both subcommands share this code.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use comfy_table::Cell;

use super::args::InjectArgs;
use super::build::{Built, MODELS};
use super::change::{Change, Changes, Fate, Kind, is_too_long};
use super::explore::explore;
use super::models::{Models, Plan, Task, models};
use super::output::{exit_code, say};
use super::outputs::Outputs;
use super::process::{End, Ended};
use super::reached::{Candidate, Candidates, Reached, Search};
use super::run::{at_the_same_time, workers};
use super::table::{Column, Fitted};
use super::{bugs, mutants};
use crate::mode::{Checker, Mode};
use crate::rows::row::Circumstances;

/// The time limit of a search. A search that reaches it counts as one without a failure.
const LIMIT: Duration = Duration::from_secs(60);

/// The time after which no further search of an explained change begins: one of which the source
/// says that no program can find it, or one that has made an execution too long. No failure ends
/// its searches, so without this limit they would take most of the time of all.
const LIMIT_OF_EXPLAINED: Duration = Duration::from_secs(10);

fn find<'a>(
    kind: Kind,
    built: &Built,
    plan: &'a Plan,
    reached: &Reached<'a>,
) -> Result<Candidates<'a>> {
    match kind {
        Kind::Mutants => mutants::candidates(built, plan, reached),
        Kind::Bugs => bugs::candidates(built, plan, reached),
    }
}

/// Judges a change: runs `searches` in order until one fails. If an execution exceeds a bound on
/// its length, which may have a harmless reason, looks for another failure for a while.
fn judge_one(change: &mut Change, built: &Built, searches: &[Search]) -> Result<()> {
    change.verdict = match change.reason {
        Some(_) => Fate::Equivalent,
        None => Fate::Survived,
    };
    let begun = Instant::now();
    for (task, has_no_faults) in searches {
        let is_explained = change.reason.is_some() || change.failure.is_some();
        if is_explained && begun.elapsed() > LIMIT_OF_EXPLAINED {
            break;
        }
        let (name, program) = (task.job.name(), &task.job.program.name);
        let mut more = Vec::from_iter(change.arguments.iter().map(String::as_str));
        more.extend(has_no_faults.then_some("--without-faults"));
        let is_spin = task.job.mode == Mode::Ltl;
        let ended = explore(built, task, &more, (!is_spin).then_some(LIMIT))?;
        let told = ended.told();
        // Spin's message is its first line, a panic's message the second.
        let told = told.get(1).filter(|_| !is_spin).or(told.first());
        let failure = match (&told, &ended.end) {
            (Some(failure), _) => Some((**failure).to_owned()),
            // The change has broken the process itself, for example its memory.
            (None, End::Failed(status)) if status.code().is_none() => Some(status.to_string()),
            _ => None,
        };
        if let Some(failure) = failure {
            let is_too_long = is_too_long(&failure);
            if is_too_long && change.failure.is_some() {
                continue;
            }
            let is_right = change.expected.is_empty() || change.expected.contains(program);
            change.verdict = if is_right { Fate::Killed } else { Fate::Missed };
            let arguments = change.arguments.join(" ");
            change.replay = Some(format!("cargo verify --replay {name} {arguments}"));
            change.model = Some(name);
            change.executions = ended.failed_execution();
            change.failure = Some(failure);
            if !is_too_long || !change.expected.is_empty() {
                return Ok(());
            }
            continue;
        }
        match ended.end {
            End::Found(_) | End::Stopped => {}
            End::Skipped(_) if change.failure.is_none() => {
                change.verdict = Fate::Skipped;
                return Ok(());
            }
            End::Skipped(_) => {}
            End::Failed(_) => bail!("{name} with {}: {}", change.name, ended.stderr.trim()),
            End::Broken(why) => bail!("{name}: {why}"),
        }
    }
    Ok(())
}

/// Runs the subcommand that judges the changes of a kind. Reports errors in the definitions only if
/// all packages and changes are selected, because `killed_by` may name programs of other packages.
pub(super) fn command(kind: Kind, args: &InjectArgs) -> Result<ExitCode> {
    let common = &args.common;
    let outputs = Outputs::new(common.json.as_ref(), None)?;
    let workers = workers(common.jobs);
    let (mut built, models) = models(&common.scope, MODELS, false)?;
    built.add(Checker::OF_CODE)?;
    let run = built.circumstances(common, &[]);
    let plan = Plan::of(&models);
    let reached = Reached::by(&plan, &[], &built, workers)?;
    let (mut candidates, mut errors) = find(kind, &built, &plan, &reached)?;
    let list = format!("`cargo verify {} --list` shows them all", kind.command());
    let missing = format!("no name contains `{{}}`\n  {list}");
    let name = |(change, _): &Candidate| change.name.clone();
    common.retain(&mut candidates, name, &missing)?;
    if !common.is_everything() {
        errors.clear();
    }
    errors.iter().for_each(|error| say!("{error}"));
    if args.list {
        let columns: &[Column<Change>] = &[
            (kind.command(), 0, |it| Cell::new(&it.name)),
            ("what", 1, |it| Cell::new(&it.what)),
            ("found by one of", 2, |it| Cell::new(it.finders())),
        ];
        let changes = candidates.iter().map(|(change, _)| change);
        say!("{}", Fitted::of(columns, changes));
        return Ok(exit_code(errors.is_empty()));
    }
    let changes = judge(kind, &built, &candidates, workers, &run)?;
    say!("{}\n{}", changes.table(), changes.summary());
    outputs.write(&changes.all)?;
    Ok(exit_code(changes.are_well() && errors.is_empty()))
}

/// Judges all changes of all kinds, after the rows in `ran`. Also returns the errors in their
/// definitions.
pub(super) fn judge_all(
    built: &mut Built,
    models: &[Arc<Models>],
    ran: &[(Task, Ended)],
    workers: usize,
    run: &Circumstances,
) -> Result<(Vec<Changes>, Vec<String>)> {
    let plan = Plan::of(models);
    built.add(Checker::OF_CODE)?;
    let reached = Reached::by(&plan, ran, built, workers)?;
    let (mut changes, mut errors) = (Vec::new(), Vec::new());
    for kind in Kind::ALL {
        let (candidates, wrong) = find(kind, built, &plan, &reached)?;
        changes.push(judge(kind, built, &candidates, workers, run)?);
        errors.extend(wrong);
    }
    Ok((changes, errors))
}

/// Judges all `candidates`.
fn judge(
    kind: Kind,
    built: &Built,
    candidates: &[Candidate],
    workers: usize,
    run: &Circumstances,
) -> Result<Changes> {
    let name = |(change, _): &Candidate| change.name.clone();
    let judged = at_the_same_time(candidates, workers, kind.many(), name, |(change, rows)| {
        let mut change = change.clone();
        change.kind = kind.command().to_owned();
        change.run = run.clone();
        change.run.rows = candidates.len();
        judge_one(&mut change, built, rows).map(|()| change)
    });
    let all = judged.into_iter().collect::<Result<_>>()?;
    Ok(Changes { kind, all })
}
