//! Runs rows under shuttle.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use proptest::strategy::Strategy;
use proptest::test_runner::TestError;
use shuttle::scheduler::{
    PctScheduler, RandomScheduler, Schedule, Scheduler, Task, TaskId, UrwRandomScheduler,
};
use shuttle::{FailurePersistence, MaxSteps};
use spanlock_sync::check;

use crate::crashes::Crashes;
use crate::execution::{Search, execute, refuse, stated};
use crate::messages::FAILURE;
use crate::mode::Mode;
use crate::panics::report_panics;
use crate::plan::SCHEDULES;
use crate::search::bounded::Bounded;
use crate::seeds::{runner, seed};
use crate::trace;

/// The number of random programs in one round of proptest.
const CASES: u32 = 16;

/// Runs the executions of the row, each of which runs `run`.
pub(crate) fn search(
    search: &Search,
    run: &Arc<dyn Fn() + Send + Sync>,
    crashes: Option<&Arc<dyn Crashes>>,
) {
    check::set_faults(stated(&search.job));
    let run = run.clone();
    let body = move || execute(|| run());
    schedules(search, usize::MAX, body);
    let Some(crashes) = crashes else { return };
    std::panic::set_hook(Box::new(|_| {}));
    let judged = crashes.judge();
    report_panics();
    let images = judged.unwrap_or_else(|why| panic!("{why}"));
    trace::found().images = Some(images);
}

/// Runs the first execution of the row.
pub(crate) fn first(search: &Search, run: &Arc<dyn Fn() + Send + Sync>) {
    let run = run.clone();
    schedules(search, 1, move || execute(|| run()));
}

/// Runs a function in one execution.
pub(super) fn once(execution: impl Fn() + Send + Sync + 'static) {
    let first = RandomScheduler::new_from_seed(1, 1);
    under(first, usize::MAX as u64, execution);
}

/// Runs `body` under the schedules of a row, or under the first `most` of them.
fn schedules(search: &Search, most: usize, body: impl Fn() + Send + Sync + 'static) {
    let job = &search.job;
    let bound = job.bound.map(|bound| bound as usize);
    let some = bound.unwrap_or(SCHEDULES as usize);
    let scheduler: Box<dyn Scheduler> = match job.mode {
        Mode::Random => Box::new(RandomScheduler::new_from_seed(1, some)),
        Mode::Urw => Box::new(UrwRandomScheduler::new_from_seed(1, some)),
        Mode::Pct => Box::new(PctScheduler::new_from_seed(1, 3, some)),
        // A sequence has one thread, and so one schedule.
        _ => Box::new(Bounded::new(job.bound.unwrap_or(u64::MAX))),
    };
    let mut begun = 0;
    let goes_on = Box::new(move || {
        begun += 1;
        begun <= most
    });
    under(Asking { scheduler, goes_on }, steps(search), body);
}

/// Chooses as `scheduler` does, and asks before each execution whether to go on.
pub(crate) struct Asking {
    pub(crate) scheduler: Box<dyn Scheduler>,
    pub(crate) goes_on: Box<dyn FnMut() -> bool>,
}

impl Scheduler for Asking {
    fn new_execution(&mut self) -> Option<Schedule> {
        (self.goes_on)().then(|| self.scheduler.new_execution())?
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        yields: bool,
    ) -> Option<TaskId> {
        self.scheduler.next_task(runnable, current, yields)
    }

    fn next_u64(&mut self) -> u64 {
        self.scheduler.next_u64()
    }
}

/// The stack of a thread under shuttle.
const STACK_BYTES: usize = 256 << 10;

/// Runs `body` under the schedules of `scheduler`.
pub(crate) fn under(
    scheduler: impl Scheduler + 'static,
    steps: u64,
    body: impl Fn() + Send + Sync + 'static,
) {
    let mut config = shuttle::Config::new();
    config.max_steps = MaxSteps::FailAfter(steps as usize);
    // Under a checker an atomic takes many bytes, so an array of them on the stack does, too.
    config.stack_size = STACK_BYTES;
    // Rows are deterministic, so a replay runs the whole row and needs no saved schedule.
    config.failure_persistence = FailurePersistence::None;
    shuttle::Runner::new(scheduler, config).run(body);
}

/// Returns the most steps of all threads between two finished operations.
pub(crate) fn steps(search: &Search) -> u64 {
    let steps = search.job.step_bound();
    steps.expect("a row under shuttle has a step bound")
}

/// Runs random programs until they have performed `operations`. Reduces and reports a failing one.
pub(crate) fn drawn<S, M, R>(search: &Search, strategy: &Arc<M>, run: &Arc<R>, operations: u64)
where
    S: Strategy + Send + Sync + 'static,
    S::Value: Clone + Send + Sync,
    M: Fn() -> S + Send + Sync + 'static,
    R: Fn(&S::Value) -> u64 + Send + Sync + 'static,
{
    static DONE: AtomicU64 = AtomicU64::new(0);
    let search_one = |program: &S::Value| {
        let (program, run) = (program.clone(), run.clone());
        schedules(search, usize::MAX, move || {
            // Relaxed: a counter that only one system thread uses.
            execute(|| _ = DONE.fetch_add(run(&program), Relaxed));
        });
    };
    // `strategy` may create the object under test, which only an execution can do.
    let made = Arc::new(OnceLock::new());
    let (set, strategy) = (made.clone(), strategy.clone());
    once(move || {
        set.get_or_init(|| strategy());
    });
    let strategy = made.get().expect("set by the execution");
    let seed = seed();
    std::panic::set_hook(Box::new(|_| {}));
    for round in 0.. {
        if DONE.load(Relaxed) >= operations {
            return;
        }
        let mut runner = runner(seed.wrapping_add(round << 32), CASES);
        let result = runner.run(strategy, |program| {
            // Proptest catches a panic.
            search_one(&program);
            Ok(())
        });
        if let Err(TestError::Fail(_, program)) = result {
            eprintln!("{FAILURE}seed {seed}, reduced:");
            for line in format!("{program:#?}").lines() {
                eprintln!("{FAILURE}  {line}");
            }
            report_panics();
            search_one(&program);
            refuse("the program that failed passes when it runs again");
        }
    }
}
