//! Runs rows under the explorer.

use std::sync::Arc;

use spanlock_explorer::arena::Arena;
use spanlock_explorer::{Report, Search as Explorer, Verdict};
use spanlock_sync::check;

use crate::crashes::Crashes;
use crate::execution::{FAILS, Search, execute, stated};
use crate::panics;
use crate::trace;

/// Frees what an execution has allocated, even if its threads never end.
#[global_allocator]
static ARENA: Arena = Arena;

/// How often a thread may repeat a loop that waits before the explorer assumes that it waits for
/// another thread. A loop whose rounds write needs more than one.
const ROUNDS: u32 = 1;

/// Searches the executions of the row, each of which runs `run`. Rows with crashes run under
/// shuttle only.
pub(crate) fn search(
    search: &Search,
    run: &Arc<dyn Fn() + Send + Sync>,
    _: Option<&Arc<dyn Crashes>>,
) {
    let report = explore(search, Explorer::new(), run);
    trace::found().executions = report.counts.executions;
}

/// Runs the first execution of the row.
pub(crate) fn first(search: &Search, run: &Arc<dyn Fn() + Send + Sync>) {
    explore(search, Explorer::new().limit(1), run);
}

/// Runs a function of one thread. Outside an execution, the facade's objects are plain values.
pub(super) fn once(execution: impl Fn() + Send + Sync + 'static) {
    execution();
}

/// Ends the process if an execution fails.
fn explore(search: &Search, explorer: Explorer, run: &Arc<dyn Fn() + Send + Sync>) -> Report {
    let job = &search.job;
    check::set_faults(stated(job));
    let run = run.clone();
    let report = explorer
        .faults(job.faults)
        .rounds(ROUNDS)
        .explore(&mut (), move || execute(|| run()));
    if let Verdict::Failed(failure) = &report.verdict {
        panics::tell_first(&failure.message);
        std::process::exit(FAILS);
    }
    report
}
