//! Runs rows under the explorer.

use std::sync::Arc;

use spanlock_explorer::arena::Arena;
use spanlock_explorer::draw;
use spanlock_explorer::{End, Graph, Model, Moment, Observer, Report, Search as Explorer, Verdict};
use spanlock_sync::check;

use crate::crashes::{ComesBefore, Crashes};
use crate::execution::{FAILS, Search, execute, stated};
use crate::panics;
use crate::trace;

/// Frees what an execution has allocated, even if its threads never end.
#[global_allocator]
static ARENA: Arena = Arena;

/// How often a thread may repeat a loop that waits before the explorer assumes that it waits for
/// another thread. A loop whose rounds write needs more than one.
const ROUNDS: u32 = 1;

/// Searches the executions of the row, each of which runs `run`.
pub(crate) fn search(
    search: &Search,
    run: &Arc<dyn Fn() + Send + Sync>,
    crashes: Option<&Arc<dyn Crashes>>,
) {
    let report = match crashes {
        None => explore(search, Explorer::new(), &mut (), run),
        Some(crashes) => {
            let images = &mut Crashing(crashes);
            let report = explore(search, Explorer::new(), images, run);
            match crashes.judge() {
                Ok(images) => trace::found().images = Some(images),
                Err(why) => fail(&why),
            }
            report
        }
    };
    trace::found().executions = report.counts.executions;
}

/// Records the crash images of each execution.
struct Crashing<'a>(&'a Arc<dyn Crashes>);

impl Observer for Crashing<'_> {
    fn ended(&mut self, graph: &Graph, end: End) {
        if end != End::Complete {
            return;
        }
        let moment = Moment::from_bits;
        let with_order = |steps: &[(u32, u32)]| {
            let order = steps.iter().map(|&(a, b)| (moment(a), moment(b)));
            let graph = graph.with_order(&order.collect::<Vec<_>>(), Model::Cpp20)?;
            let comes_before = move |a, b| graph.is_before(moment(a), moment(b));
            Some(Box::new(comes_before) as Box<ComesBefore<'_>>)
        };
        let comes_before = |a, b| graph.is_before(moment(a), moment(b));
        self.0.executed(&comes_before, &with_order);
    }
}

/// Runs the first execution of the row.
pub(crate) fn first(search: &Search, run: &Arc<dyn Fn() + Send + Sync>) {
    explore(search, Explorer::new().limit(1), &mut (), run);
}

/// Runs a function of one thread. Outside an execution, the facade's objects are plain values.
pub(super) fn once(execution: impl Fn() + Send + Sync + 'static) {
    execution();
}

/// Ends the process if an execution fails.
fn explore(
    search: &Search,
    explorer: Explorer,
    observer: &mut dyn Observer,
    run: &Arc<dyn Fn() + Send + Sync>,
) -> Report {
    let job = &search.job;
    check::set_faults(stated(job));
    let run = run.clone();
    let report = explorer
        .faults(job.faults)
        .rounds(ROUNDS)
        .explore(observer, move || execute(|| run()));
    if let Verdict::Failed(failure) = &report.verdict {
        let is_traced = !check::steps().is_empty();
        if is_traced {
            eprintln!("{}", draw::text(&failure.graph));
        }
        fail(&failure.message);
    }
    report
}

fn fail(why: &str) -> ! {
    panics::tell_reason(why);
    std::process::exit(FAILS);
}
