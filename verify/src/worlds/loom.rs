//! Runs rows under loom.

use std::sync::Arc;

use spanlock_sync::check;

use crate::crashes::Crashes;
use crate::execution::{Search, execute, stated};
use crate::mode::Mode;
use crate::plan::Job;
use crate::search::faults::every_plan;
use crate::search::pruning;
use crate::trace;

/// The most branches of an execution. Loom's default is too low for long programs.
const BRANCHES: usize = 10_000;

/// Searches the executions of the row, each of which runs `run`. Rows with crashes run under
/// shuttle only.
pub(crate) fn search(
    search: &Search,
    run: &Arc<dyn Fn() + Send + Sync>,
    _: Option<&Arc<dyn Crashes>>,
) {
    let job = &search.job;
    if job.faults > 0 {
        let plans = every_plan(job.faults, |plan| one(search, plan, None, run.clone()));
        trace::found().plans = plans;
    } else {
        let plan = stated(job);
        check::set_faults(plan.clone());
        one(search, &plan, None, run.clone());
    }
}

/// Runs the first execution of the row.
pub(crate) fn first(search: &Search, run: &Arc<dyn Fn() + Send + Sync>) {
    let plan = stated(&search.job);
    check::set_faults(plan.clone());
    one(search, &plan, Some(1), run.clone());
}

/// Runs a function of one thread in an execution.
pub(super) fn once(execution: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 1_000_000;
    builder.check(execution);
}

/// Searches the program under one plan of faults: all executions, or the first `most`.
fn one(
    search: &Search,
    plan: &[check::Occasion],
    most: Option<usize>,
    run: Arc<dyn Fn() + Send + Sync>,
) {
    let job = &search.job;
    let mut builder = loom::model::Builder::new();
    // Set here, or loom's environment variables could cut the search off, and the row would pass.
    builder.max_duration = None;
    // Loom stops before the execution of this number, and looks at every `checkpoint_interval`-th.
    builder.max_permutations = most.map(|most| most + 1);
    if most.is_some() {
        builder.checkpoint_interval = 1;
    }
    builder.max_branches = BRANCHES;
    builder.preemption_bound = job.bound.map(|bound| bound as usize);
    // A weak compare-exchange with an injected failure is a plain load, also in `rmw-load`.
    let loads = plan.iter().any(|it| it.fault == check::Fault::WeakCas);
    let has_values = job.mode == Mode::Weak || loads;
    let scratch = search.scratch.as_ref().filter(|_| has_values);
    let prunes = job.is_reduced() && !search.plain && (scratch.is_some() || !has_values);
    if prunes {
        builder.checkpoint_file = scratch.cloned();
        builder.checkpoint_interval = 1;
        // If an earlier search had left this file, loom would continue that search.
        scratch.map(std::fs::remove_file);
        pruning::begin(scratch.cloned());
    }
    builder.check(move || {
        if prunes {
            pruning::begin_execution();
        }
        execute(|| run());
    });
}
