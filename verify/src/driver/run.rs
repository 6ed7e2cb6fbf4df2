//! Runs rows, and records their numbers of executions.
//!
//! `--accept` first gives each search without a record a *trial*, a short time to finish. If it
//! does not finish, its *fallback* runs: the same search with a bound, or a long row.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use indicatif::{ProgressBar, ProgressStyle};
use rayon::ThreadPoolBuilder;
use rayon::iter::{ParallelBridge, ParallelIterator};

use super::build::Built;
use super::explore::explore;
use super::models::{Models, Task, tasks};
use super::output::{say, warn};
use super::process::{End, Ended};
use crate::info::Kind;
use crate::mode::Mode;
use crate::plan::{FEW_PREEMPTIONS, Job, Unrecorded, jobs};
use crate::rows::counts::{Count, path};
use crate::rows::row::Row;

/// The time limit of a trial.
const TRIAL: Duration = Duration::from_secs(4);

/// The time after which a search is too slow for the normal run: the main search of a program with
/// crashes, or a search with a bound, which then runs with [`FEW_PREEMPTIONS`].
const SLOW: Duration = Duration::from_secs(10);

/// The time limit of a trial of a long row that has a fallback. There are many such rows, and a
/// full run should end within hours.
const LONG_TRIAL: Duration = Duration::from_secs(60);

/// The time limit of a long row that is a fallback itself. It has no other.
const LONG_FALLBACK: Duration = Duration::from_secs(600);

/// Runs every row for at most `limit`, costliest first. If `measures`, searches without a record
/// get a trial. Returns the results in the order of `tasks`, each with the task that ran: the given
/// one or its fallback.
pub(super) fn run_all(
    tasks: &[Task],
    built: &Built,
    workers: usize,
    limit: Duration,
    measures: bool,
) -> Vec<(Task, Ended)> {
    let mut order: Vec<(usize, &Task)> = tasks.iter().enumerate().collect();
    // The costliest rows come first, so that none of them is left for the end.
    order.sort_by_key(|(_, task)| Reverse(task.cost()));
    let fallbacks = match measures {
        true => fallbacks(tasks),
        false => HashMap::new(),
    };
    let name = |(_, task): &(usize, &Task)| task.job.name();
    let mut ran = at_the_same_time(&order, workers, "rows", name, |&(i, task)| {
        let ran = measure(built, task, fallbacks.get(&task.job.name()), limit);
        // If one row cannot be run, keep the results of the others.
        let broken = |error: anyhow::Error| End::Broken(format!("{error:#}"));
        let broken = |error| (task.clone(), Ended::without_process(broken(error)));
        (i, ran.unwrap_or_else(broken))
    });
    ran.sort_by_key(|&(i, _)| i);
    ran.into_iter().map(|(_, ran)| ran).collect()
}

/// Returns the fallback of each search that has no record, and no bound unless it is with crashes:
/// the same search with a bound on preemptions, or the same row as a long one.
fn fallbacks(planned: &[Task]) -> HashMap<String, Task> {
    let is_open = |task: &&Task| {
        let (job, is_new) = (&task.job, task.recorded().is_none());
        is_new && job.mode.is_counted() && (job.bound.is_none() || job.mode.has_crashes())
    };
    let open: Vec<&Task> = planned.iter().filter(is_open).collect();
    let mut models: Vec<Arc<Models>> = open.iter().map(|task| task.models.clone()).collect();
    models.dedup_by(|a, b| Arc::ptr_eq(a, b));
    let mut bounded = tasks(&models, Unrecorded::Bounded);
    bounded.retain(|task| task.job.bound.is_some());
    let mut bounded: HashMap<_, _> = bounded.into_iter().map(|it| (it.job.name(), it)).collect();
    let fallback = |task: &Task| {
        let (job, name) = (&task.job, task.job.name());
        let (program, mut long) = (&job.program, task.clone());
        long.job.long = true;
        let fallback = match job.mode {
            Mode::Explorer | Mode::Dfs if !job.long && program.kind == Kind::Once => {
                bounded.remove(&name).or(Some(long))
            }
            mode if !mode.has_crashes() => bounded.remove(&name),
            mode => (!job.long && !program.more_in_full_run.contains(&mode)).then_some(long),
        };
        Some((name, fallback?))
    };
    open.into_iter().filter_map(fallback).collect()
}

/// Runs a row; if it has a fallback, first as a trial. Returns the task that ran last.
fn measure(
    built: &Built,
    task: &Task,
    fallback: Option<&Task>,
    limit: Duration,
) -> Result<(Task, Ended)> {
    let trial = match fallback {
        None => limit,
        Some(_) if task.job.long => LONG_TRIAL,
        Some(_) if task.job.mode.has_crashes() && task.job.is_main() => SLOW,
        Some(_) => TRIAL,
    };
    let ended = explore(built, task, &[], Some(trial.min(limit)))?;
    let Some(fallback) = fallback.filter(|_| matches!(ended.end, End::Stopped)) else {
        return Ok((task.clone(), ended));
    };
    let mut ran = fallback.clone();
    ran.number = task.number;
    if task.job.long {
        return Ok((ran, explore(built, fallback, &[], Some(limit))?));
    }
    if ran.job.long {
        // Until a long row is recorded, the binary does not know its name.
        let limit = LONG_FALLBACK.min(limit);
        return Ok((ran, explore(built, task, &[], Some(limit))?));
    }
    if ran.job.bound > Some(FEW_PREEMPTIONS) {
        let ended = explore(built, &ran, &[], Some(SLOW.min(limit)))?;
        if !matches!(ended.end, End::Stopped) {
            return Ok((ran, ended));
        }
        ran.job.bound = Some(FEW_PREEMPTIONS);
    }
    let ended = explore(built, &ran, &[], Some(limit))?;
    Ok((ran, ended))
}

/// Records the number of executions of each row that drifted or has no record, and deletes records
/// of rows that no longer exist. Returns how many rows were recorded.
pub(super) fn accept(
    models: &[Arc<Models>],
    ran: &[(Task, Ended)],
    rows: &mut [Row],
) -> Result<usize> {
    let mut accepted = 0;
    for models in models {
        let mut counts = models.counts.clone();
        let folder = &models.package.folder;
        let before = accepted;
        for ((task, _), row) in ran.iter().zip(&mut *rows) {
            if Arc::ptr_eq(&task.models, models) && is_news(task, row) {
                let count = Count {
                    bound: row.bound,
                    executions: row.executions,
                    millis: Some((row.seconds * 1_000.0) as u64),
                };
                counts.0.insert(row.name.clone(), count);
                row.committed = Some(row.executions);
                accepted += 1;
            }
        }
        let planned = jobs(&models.description, &counts, Unrecorded::Bounded);
        let planned: BTreeSet<String> = planned.iter().map(Job::name).collect();
        counts.0.retain(|row, _| {
            let is_planned = planned.contains(row);
            if !is_planned {
                say!("The record of {row} is deleted: no run has this row any more.");
            }
            is_planned
        });
        if accepted > before || path(folder).exists() {
            counts.write(folder).map_err(|why| anyhow!(why))?;
        }
    }
    Ok(accepted)
}

/// Whether a row's executions or bound differ from its record.
fn is_news(task: &Task, row: &Row) -> bool {
    let has_bound = task.recorded().is_some_and(|it| it.bound != row.bound);
    let is_counted = task.job.mode.is_counted() && row.verdict.passes();
    row.drifts() || (is_counted && has_bound)
}

/// Calls `work` on all items, up to `workers` at the same time, and starts them in order. Returns
/// the results in the same order.
pub(super) fn at_the_same_time<T: Sync, R: Send>(
    items: &[T],
    workers: usize,
    what: &str,
    name: impl Fn(&T) -> String + Sync,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let bar = ProgressBar::new(items.len() as u64);
    let template = format!("{{elapsed:>5}} {{bar:30}} {{pos}}/{{len}} {what}  {{wide_msg}}");
    bar.set_style(ProgressStyle::with_template(&template).expect("the template is right"));
    bar.enable_steady_tick(Duration::from_millis(200));
    // The running items, and when a line was last printed (in a CI log, which shows no bar).
    let shown = Mutex::new((BTreeSet::new(), Instant::now()));
    let show = |change: &dyn Fn(&mut BTreeSet<String>)| {
        let (running, told) = &mut *shown.lock().expect("workers do not panic");
        change(running);
        bar.set_message(Vec::from_iter(running.iter().map(String::as_str)).join("  "));
        if bar.is_hidden() && told.elapsed() > Duration::from_secs(30) {
            *told = Instant::now();
            let (done, all) = (bar.position(), items.len());
            warn(format_args!(
                "{done} of {all} {what}, now {}",
                bar.message()
            ));
        }
    };
    let pool = ThreadPoolBuilder::new().num_threads(workers).build();
    let pool = pool.expect("threads can be started");
    // A bridge hands out items one by one, so that a costly item does not wait behind others.
    let mut answers: Vec<(usize, R)> = pool.install(|| {
        let items = items.iter().enumerate().par_bridge();
        let answers = items.map(|(i, item)| {
            let name = name(item);
            show(&|running| _ = running.insert(name.clone()));
            let answer = work(item);
            bar.inc(1);
            show(&|running| _ = running.remove(&name));
            (i, answer)
        });
        answers.collect()
    });
    bar.finish_and_clear();
    answers.sort_by_key(|&(i, _)| i);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// Returns how many rows run at the same time: `given`, or the number of cores.
pub(super) fn workers(given: Option<NonZeroUsize>) -> usize {
    let cores = || thread::available_parallelism().map_or(1, NonZeroUsize::get);
    given.map_or_else(cores, NonZeroUsize::get)
}
