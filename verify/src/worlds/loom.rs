//! Runs rows under loom.

use std::sync::Arc;

use spanlock_sync::check;

use crate::crashes::Crashes;
use crate::execution::{Search, execute, stated};

/// The most branches of an execution. Loom's default is too low for long programs.
const BRANCHES: usize = 10_000;

/// Searches the executions of the row, each of which runs `run`. Rows with crashes run under other
/// checkers only.
pub(crate) fn search(
    search: &Search,
    run: &Arc<dyn Fn() + Send + Sync>,
    _: Option<&Arc<dyn Crashes>>,
) {
    explore(search, None, run.clone());
}

/// Runs the first execution of the row.
pub(crate) fn first(search: &Search, run: &Arc<dyn Fn() + Send + Sync>) {
    explore(search, Some(1), run.clone());
}

/// Runs a function of one thread in an execution.
pub(super) fn once(execution: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 1_000_000;
    builder.check(execution);
}

/// Explores all executions, or the first `most`.
fn explore(search: &Search, most: Option<usize>, run: Arc<dyn Fn() + Send + Sync>) {
    let job = &search.job;
    check::set_faults(stated(job));
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
    builder.check(move || execute(|| run()));
}
