//! Runs rows, and records what they found.
//!
//! `--accept` measures a search that is not recorded. The search gets a short time to finish. If it
//! does not, it runs with its default bound, or becomes a long row. The result is recorded.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};

use super::build::Built;
use super::models::{Models, Task, tasks};
use super::pool::at_the_same_time;
use super::process::{End, Ended, explore};
use crate::info::Kind;
use crate::mode::Mode;
use crate::plan::{Job, Unrecorded, jobs};
use crate::rows::counts::{Count, path};
use crate::rows::row::Row;

/// How long a search that is not recorded may take to finish without a bound.
const TRIAL: Duration = Duration::from_secs(20);

/// The same for a search of the full run.
const LONG_TRIAL: Duration = Duration::from_secs(600);

/// How rows are run.
pub(super) struct Way {
    /// Rows at the same time.
    pub(super) workers: usize,
    /// A row is stopped after this time.
    pub(super) limit: Duration,
    /// Whether searches that are not recorded are measured.
    pub(super) measures: bool,
}

/// What to do if a search does not end in its trial.
enum Fallback {
    /// Search it up to a number of preemptions.
    Bounded(Task),
    /// Leave it to the full run, if it ends there.
    Long,
}

/// Runs every row, the costly ones first. The answers are in the order of `tasks`; a task that was
/// measured comes back as it ran.
pub(super) fn run_all(tasks: &[Task], built: &Built, way: &Way) -> Vec<(Task, Ended)> {
    let mut order: Vec<(usize, &Task)> = tasks.iter().enumerate().collect();
    // So that none of those is left for the end.
    order.sort_by_key(|(_, task)| Reverse(task.cost()));
    let fallbacks = match way.measures {
        true => fallbacks(tasks),
        false => HashMap::new(),
    };
    let name = |(_, task): &(usize, &Task)| task.job.name();
    let mut ran = at_the_same_time(&order, way.workers, "rows", name, |&(i, task)| {
        let ran = measure(built, task, fallbacks.get(&task.job.name()), way.limit);
        // The other rows' findings are worth keeping if one row cannot be run.
        let broken = |error: anyhow::Error| End::Broken(format!("{error:#}"));
        let broken = |error| (task.clone(), Ended::without_process(broken(error)));
        (i, ran.unwrap_or_else(broken))
    });
    ran.sort_by_key(|&(i, _)| i);
    ran.into_iter().map(|(_, ran)| ran).collect()
}

/// Returns what to do with each search that is planned to its end and not recorded.
fn fallbacks(planned: &[Task]) -> HashMap<String, Fallback> {
    let is_open = |task: &&Task| {
        let job = &task.job;
        job.mode.is_counted() && job.bound.is_none() && task.recorded().is_none()
    };
    let open: Vec<&Task> = planned.iter().filter(is_open).collect();
    let mut models: Vec<Arc<Models>> = open.iter().map(|task| task.models.clone()).collect();
    models.dedup_by(|a, b| Arc::ptr_eq(a, b));
    let mut bounded = tasks(&models, Unrecorded::Bounded);
    bounded.retain(|task| task.job.bound.is_some());
    let mut bounded: HashMap<_, _> = bounded.into_iter().map(|it| (it.job.name(), it)).collect();
    let fallback = |task: &Task| {
        let (job, name) = (&task.job, task.job.name());
        let may_be_long = job.mode == Mode::Dfs && !job.long && job.program.kind == Kind::Once;
        let fallback = match bounded.remove(&name) {
            Some(bounded) => Some(Fallback::Bounded(bounded)),
            None => may_be_long.then_some(Fallback::Long),
        };
        fallback.map(|fallback| (name, fallback))
    };
    open.into_iter().filter_map(fallback).collect()
}

/// Runs a row; if it has a fallback, for a trial first. Returns the task as it ran.
fn measure(
    built: &Built,
    task: &Task,
    fallback: Option<&Fallback>,
    limit: Duration,
) -> Result<(Task, Ended)> {
    let trial = match (fallback, task.job.long) {
        (None, _) => limit,
        (Some(_), true) => LONG_TRIAL.min(limit),
        (Some(_), false) => TRIAL.min(limit),
    };
    let ended = explore(built, task, &[], Some(trial))?;
    match fallback {
        Some(Fallback::Bounded(bounded)) if ended.is_stopped() => {
            let ended = explore(built, bounded, &[], Some(limit))?;
            Ok((bounded.clone(), ended))
        }
        Some(Fallback::Long) if ended.is_stopped() => {
            let ended = explore(built, task, &[], Some(LONG_TRIAL.min(limit)))?;
            let mut long = task.clone();
            long.job.long = true;
            Ok((long, ended))
        }
        _ => Ok((task.clone(), ended)),
    }
}

/// Records the executions of rows that drifted or were not recorded, and forgets rows that no
/// longer exist. Returns how many were recorded.
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
                counts.set(row.name.clone(), count);
                row.committed = Some(row.executions);
                accepted += 1;
            }
        }
        let planned = jobs(&models.description, &counts, Unrecorded::Bounded);
        counts.keep(&planned.iter().map(Job::name).collect());
        if accepted > before || path(folder).exists() {
            counts.write(folder).map_err(|why| anyhow!(why))?;
        }
    }
    Ok(accepted)
}

/// Whether a row differs from its record.
fn is_news(task: &Task, row: &Row) -> bool {
    let has_bound = task.recorded().is_some_and(|it| it.bound != row.bound);
    let is_counted = task.job.mode.is_counted() && row.verdict.passes();
    row.drifts() || (is_counted && has_bound)
}
