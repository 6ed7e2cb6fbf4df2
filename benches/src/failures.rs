//! Fails every write and every flush of a run once, and reports how our journals and logs and those
//! of other projects react: `cargo compare failures`.
//!
//! Eight threads append numbered records and note which ones are acknowledged. Each run follows one
//! [`FailurePlan`]. It takes place in a [child] process, on a [medium] that knows what a power cut
//! would leave. Another child then reads what is left. A record that was
//! acknowledged but is missing is a *false acknowledgement*.

pub mod args;
pub mod child;
pub mod contestants;
pub mod medium;
mod ours;
pub mod plan;
pub mod record;
pub mod rows;
pub mod trial;
mod wrong;

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use indicatif::ProgressBar;
use parking_lot::Mutex;

use contestants::{FailureContestant, Maker};
use plan::FailurePlan;
use rows::Row;
use trial::{Conditions, TrialOutcome, trial};

use crate::temporary::Choice;

/// The trials to run.
pub struct Trials {
    /// The contestants, in table order.
    pub contestants: Vec<FailureContestant>,
    /// If set, run only this plan, this many times; a plan of `None` has no failure. If not set,
    /// run every plan once.
    pub only: Option<(Option<FailurePlan>, u32)>,
    /// The conditions of each trial.
    pub conditions: Conditions,
    /// The number of concurrent trials.
    pub jobs: usize,
}

/// The result of a whole run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The rows, in the order of the contestants.
    pub rows: Vec<Row>,
}

/// Runs all plans for all contestants.
///
/// # Errors
/// A child cannot be run, or a contestant of another project is not clean even without a failure.
/// In that case its results would be meaningless.
pub fn run(task: &Trials, bar: &ProgressBar) -> Result<Outcome> {
    let mut plans = Vec::new();
    for contestant in &task.contestants {
        has_room(contestant, 1)?;
        plans.push(plans_of(contestant, task)?);
    }
    bar.set_length(plans.iter().map(Vec::len).sum::<usize>() as u64);
    let mut rows = Vec::new();
    for (contestant, plans) in task.contestants.iter().zip(plans) {
        has_room(contestant, task.jobs.min(plans.len()))?;
        bar.set_message(contestant.name);
        let outcomes = all(contestant, &plans, task, bar)?;
        rows.push(Row::new(contestant, plans.into_iter().zip(outcomes)));
    }
    Ok(Outcome { rows })
}

/// Checks that this many trials at a time have enough room for their files. Without it, the errors
/// of a full folder would count as failures of the contestant.
fn has_room(contestant: &FailureContestant, jobs: usize) -> Result<()> {
    let place = trial::place();
    let needed = jobs as u64 * contestant.room();
    // The first trial reports a folder that does not exist.
    let room = place.room().unwrap_or(u64::MAX);
    ensure!(
        room >= needed,
        "the folder {} is full: it has {room} free bytes, and {} needs {needed} in {jobs} runs at a time; free some space there, {}, or use fewer --jobs",
        place.path().display(),
        contestant.name,
        Choice::Tmpdir.advice()
    );
    Ok(())
}

/// Returns the plans for a contestant. Their number is known after a run without a failure.
fn plans_of(contestant: &FailureContestant, task: &Trials) -> Result<Vec<Option<FailurePlan>>> {
    if let Some((plan, times)) = task.only {
        return Ok(vec![plan; times as usize]);
    }
    let name = contestant.name;
    let smooth = trial(contestant, None, &task.conditions).with_context(|| name.to_owned())?;
    let all = task.conditions.size.threads * task.conditions.size.records;
    let is_whole = smooth.acknowledged.len() as u32 == all && smooth.told.is_empty();
    ensure!(
        is_whole && smooth.is_clean(),
        "{name} is not clean even without a failure, so its results would be meaningless: investigate with --contestant {name} --plan none"
    );
    let (writes, flushes) = smooth.counts.unwrap_or_default();
    let plans = FailurePlan::all(writes, flushes).into_iter().map(Some);
    Ok(plans.collect())
}

/// Runs all trials of a contestant, some of them concurrently.
fn all(
    contestant: &FailureContestant,
    plans: &[Option<FailurePlan>],
    task: &Trials,
    bar: &ProgressBar,
) -> Result<Vec<TrialOutcome>> {
    // Relaxed: only hands out unique numbers; the mutex hands over the outcomes.
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(Vec::new());
    let work = || -> Result<()> {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(plan) = plans.get(number) else {
                return Ok(());
            };
            let outcome = trial(contestant, *plan, &task.conditions).inspect_err(|_| {
                next.store(plans.len(), Ordering::Relaxed);
            })?;
            outcomes.lock().push((number, outcome));
            bar.inc(1);
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..task.jobs).map(|_| scope.spawn(work)).collect();
        let joined = workers.into_iter().map(|it| match it.join() {
            Ok(result) => result,
            Err(payload) => std::panic::resume_unwind(payload),
        });
        joined.collect::<Result<()>>()
    })?;
    let mut outcomes = outcomes.into_inner();
    outcomes.sort_by_key(|(number, _)| *number);
    Ok(outcomes.into_iter().map(|(_, outcome)| outcome).collect())
}

/// Returns the names of our contestants that are not clean.
pub fn failed(rows: &[Row]) -> Vec<&'static str> {
    let ours = rows.iter().filter(|row| row.maker != Maker::Others);
    ours.filter(|row| !row.is_clean())
        .map(|row| row.contestant)
        .collect()
}
