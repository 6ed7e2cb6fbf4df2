//! Runs rows, and records their numbers of executions.
//!
//! `--accept` gives each search without a record a *trial*, a short time to end. If the search does
//! not end, what the normal run has instead runs: the same search without faults, or a long row. A
//! long row that does not end either is recorded as such.

use std::cmp::Reverse;
use std::collections::BTreeSet;
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
use super::models::{Models, Task};
use super::output::{say, warn};
use super::process::{End, Ended};
use crate::info::Kind;
use crate::mode::Mode;
use crate::plan::{Job, jobs};
use crate::rows::counts::{Count, path};
use crate::rows::row::{Row, Verdict};

/// The time limit of a search without a record that a further run repeats: longer searches are part
/// of the full run. Loom only confirms what the explorer shows.
const TRIAL: Duration = Duration::from_secs(4);
const TRIAL_BY_LOOM: Duration = Duration::from_secs(1);

/// The time limits of a long row without a record. If it does not end, the record says so, and no
/// run has it.
const LONG_TRIAL: Duration = Duration::from_secs(30);
const LONG_TRIAL_WITH_CRASHES: Duration = Duration::from_secs(60);
const LONG_TRIAL_BY_LOOM: Duration = Duration::from_secs(10);

/// Runs every row for at most `limit`, costliest first. If `measures`, searches without a record
/// get a trial. Returns the results in the order of `tasks`, each with the task that ran: the given
/// one, or the one that the normal run has [instead](Job::instead).
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
    let name = |(_, task): &(usize, &Task)| task.job.name();
    let mut ran = at_the_same_time(&order, workers, "rows", name, |&(i, task)| {
        let is_new = task.recorded().is_none() && task.job.mode.is_counted();
        let ran = match measures && is_new && task.job.program.kind == Kind::Once {
            true => measure(built, task, limit),
            false => explore(built, task, &[], Some(limit)).map(|ended| (task.clone(), ended)),
        };
        // If one row cannot be run, keep the results of the others.
        let broken = |error: anyhow::Error| End::Broken(format!("{error:#}"));
        let broken = |error| (task.clone(), Ended::without_process(broken(error)));
        (i, ran.unwrap_or_else(broken))
    });
    ran.sort_by_key(|&(i, _)| i);
    ran.into_iter().map(|(_, ran)| ran).collect()
}

/// Runs a row without a record. If it does not end in time, runs what the normal run has instead.
/// Returns the task that ran last.
fn measure(built: &Built, task: &Task, limit: Duration) -> Result<(Task, Ended)> {
    let (mut task, is_known) = (task.clone(), task.job.long);
    loop {
        let job = &task.job;
        let trial = match (job.mode, job.long) {
            (Mode::Weak, true) => LONG_TRIAL_BY_LOOM,
            (_, true) if job.program.has_crashes => LONG_TRIAL_WITH_CRASHES,
            (_, true) => LONG_TRIAL,
            (Mode::Weak, false) => TRIAL_BY_LOOM,
            (_, false) => TRIAL,
        };
        let mut asked = task.clone();
        // Until a long row is recorded, the binary does not know its name.
        asked.job.long = is_known;
        let ended = explore(built, &asked, &[], Some(trial.min(limit)))?;
        if job.long || !matches!(ended.end, End::Stopped) {
            return Ok((task, ended));
        }
        task.job = job.instead();
    }
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
            let is_truncated = row.verdict == Verdict::Truncated;
            let is_endless = task.job.long && is_truncated && task.recorded().is_none();
            if Arc::ptr_eq(&task.models, models) && (is_news(task, row) || is_endless) {
                let count = match is_endless {
                    true => Count::ENDLESS,
                    false => Count {
                        bound: row.bound,
                        executions: row.executions,
                        millis: Some((row.seconds * 1_000.0) as u64),
                    },
                };
                counts.0.insert(row.name.clone(), count);
                row.committed = Some(row.executions);
                accepted += 1;
            }
        }
        let planned = jobs(&models.description, &counts);
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
