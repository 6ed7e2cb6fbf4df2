//! Runs rows under shuttle.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};
use shuttle::scheduler::{
    DfsScheduler, PctScheduler, RandomScheduler, Schedule, Scheduler, Task, TaskId,
    UrwRandomScheduler,
};
use shuttle::{FailurePersistence, MaxSteps};
use spanlock_sync::check;

use crate::crashes::Crashes;
use crate::execution::{SEED, Search, execute, refuse, stated};
use crate::messages::FAILURE;
use crate::mode::Mode;
use crate::panics::report_panics;
use crate::plan::SCHEDULES;
use crate::search::order::Watch;
use crate::search::reduction::Reduced;
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
    match crashes {
        Some(crashes) => images(search, crashes, body),
        None => schedules(search, usize::MAX, body),
    }
}

/// Runs the first execution of the row.
pub(crate) fn first(search: &Search, run: &Arc<dyn Fn() + Send + Sync>) {
    let run = run.clone();
    schedules(search, 1, move || execute(|| run()));
}

/// Runs `body` under the schedules of a row, and judges the images that crashes may leave.
fn images(search: &Search, crashes: &Arc<dyn Crashes>, body: impl Fn() + Send + Sync + 'static) {
    let watcher = crashes.clone();
    let watch: Watch = Box::new(move |executed| {
        let step = |at: u32| &executed[at as usize - 1];
        watcher.executed(&|a, b| step(b).clock[step(a).thread] >= a, None);
        true
    });
    let is_cut = search.job.mode == Mode::Cut;
    let scheduler = Reduced::new(search.job.bound, is_cut.then_some(watch));
    under(scheduler, steps(search), body);
    std::panic::set_hook(Box::new(|_| {}));
    let judged = crashes.judge();
    report_panics();
    let images = judged.unwrap_or_else(|why| panic!("{why}"));
    trace::found().images = Some(images);
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
    let is_reduced = job.is_reduced() && !search.plain;
    let scheduler: Box<dyn Scheduler> = match job.mode {
        Mode::Dfs if !is_reduced => Box::new(DfsScheduler::new(bound, false)),
        Mode::Random => Box::new(RandomScheduler::new_from_seed(1, some)),
        Mode::Urw => Box::new(UrwRandomScheduler::new_from_seed(1, some)),
        Mode::Pct => Box::new(PctScheduler::new_from_seed(1, 3, some)),
        // The reduction ignores a bound on preemptions, which a replay can set.
        Mode::Dfs => Box::new(Reduced::new(None, None)),
        _ => Box::new(Reduced::new(job.bound, None)),
    };
    let left = most;
    under(Limited { scheduler, left }, steps(search), body);
}

/// Chooses as `scheduler` does, in `left` executions.
struct Limited {
    scheduler: Box<dyn Scheduler>,
    left: usize,
}

impl Scheduler for Limited {
    fn new_execution(&mut self) -> Option<Schedule> {
        self.left = self.left.checked_sub(1)?;
        self.scheduler.new_execution()
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

/// Returns the seed of random programs and scenarios.
pub(crate) fn seed() -> u64 {
    let refused = |given: &str| refuse(&format!("{SEED}={given}: not a number"));
    let parse = |given: String| given.parse().unwrap_or_else(|_| refused(&given));
    std::env::var(SEED).map_or(1, parse)
}

/// Returns a runner that draws the same values for the same seed.
pub(crate) fn runner(seed: u64, cases: u32) -> TestRunner {
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 20_000,
        // In milliseconds.
        max_shrink_time: 5_000,
        ..Config::default()
    };
    let mut bytes = [0x5A; 16];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    // The cheapest generator, because each choice between strategies creates another one.
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::XorShift, &bytes))
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
