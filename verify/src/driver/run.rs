//! Runs rows, and records what they found.
//!
//! A search that is not recorded is measured when it is to be: it is tried to its end for a short
//! time, and if that does not suffice it is run up to its default bound, which is then recorded.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
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

/// How long a search that is not recorded is tried to its end.
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
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    // So that none of those is left for the end.
    order.sort_by_key(|&i| Reverse(tasks[i].cost()));
    let in_order: Vec<&Task> = order.iter().map(|&i| &tasks[i]).collect();
    let fallbacks = match way.measures {
        true => fallbacks(tasks),
        false => HashMap::new(),
    };
    let name = |task: &&Task| task.job.name();
    let ran = at_the_same_time(&in_order, way.workers, "rows", name, |task| {
        let ran = match fallbacks.get(&task.job.name()) {
            Some(fallback) => measure(built, task, fallback, way.limit),
            None => {
                explore(built, task, &[], Some(way.limit)).map(|ended| ((*task).clone(), ended))
            }
        };
        // The other rows' findings are worth keeping if one row cannot be run.
        ran.unwrap_or_else(|error| ((*task).clone(), Ended::broken(&error)))
    });
    let mut ran: Vec<_> = order.into_iter().zip(ran).collect();
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
    let bounded = tasks(&models, Unrecorded::Bounded).into_iter();
    let bounded: HashMap<String, Task> = bounded.map(|it| (it.job.name(), it)).collect();
    let mut fallbacks = HashMap::new();
    for task in open {
        let (job, name) = (&task.job, task.job.name());
        let other = bounded.get(&name).filter(|it| it.job.bound.is_some());
        let fallback = match other {
            Some(other) => Fallback::Bounded(other.clone()),
            None if job.mode == Mode::Dfs && !job.long && job.program.kind == Kind::Once => {
                Fallback::Long
            }
            None => continue,
        };
        fallbacks.insert(name, fallback);
    }
    fallbacks
}

fn measure(
    built: &Built,
    task: &Task,
    fallback: &Fallback,
    limit: Duration,
) -> Result<(Task, Ended)> {
    let trial = if task.job.long { LONG_TRIAL } else { TRIAL };
    let ended = explore(built, task, &[], Some(trial.min(limit)))?;
    if !matches!(ended.end, End::Stopped) {
        return Ok((task.clone(), ended));
    }
    match fallback {
        Fallback::Bounded(bounded) => {
            let ended = explore(built, bounded, &[], Some(limit))?;
            Ok((bounded.clone(), ended))
        }
        Fallback::Long => {
            let ended = explore(built, task, &[], Some(LONG_TRIAL.min(limit)))?;
            let long = Job {
                long: true,
                ..task.job.clone()
            };
            Ok((task.with(long), ended))
        }
    }
}

/// Records the executions of rows that drifted or were not recorded, and forgets rows that exist
/// no more. Returns how many were recorded.
///
/// # Errors
/// A record cannot be written.
pub(super) fn accept(models: &[Arc<Models>], tasks: &[Task], rows: &mut [Row]) -> Result<usize> {
    let mut accepted = 0;
    for models in models {
        let mut counts = models.counts.clone();
        let folder = &models.package.folder;
        let mut of_package = 0;
        for (task, row) in tasks.iter().zip(&mut *rows) {
            let is_other = Arc::ptr_eq(&task.models, models) && is_news(task, row);
            if !is_other {
                continue;
            }
            let count = Count {
                bound: row.bound,
                executions: row.executions,
                millis: Some((row.seconds * 1_000.0) as u64),
            };
            counts.set(row.name.clone(), count);
            row.committed = Some(row.executions);
            of_package += 1;
        }
        let planned = jobs(&models.description, &counts, Unrecorded::Bounded);
        let names: BTreeSet<String> = planned.iter().map(Job::name).collect();
        counts.keep(&names);
        if of_package > 0 || path(folder).exists() {
            counts.write(folder).map_err(|why| anyhow!(why))?;
        }
        accepted += of_package;
    }
    Ok(accepted)
}

/// Whether a row found something else than its record says.
fn is_news(task: &Task, row: &Row) -> bool {
    let has_bound = task.recorded().is_some_and(|it| it.bound != row.bound);
    let is_counted = task.job.mode.is_counted() && row.verdict.passes();
    row.drifts() || (is_counted && has_bound)
}
