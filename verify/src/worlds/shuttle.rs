//! Shuttle.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use proptest::prelude::Rng as _;
use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use shuttle::scheduler::{
    DfsScheduler, PctScheduler, RandomScheduler, Scheduler, UrwRandomScheduler,
};

use super::{SCENARIO, SEED, Search, execute, refuse};
use crate::mode::Mode;
use crate::oracles::linearizability::run::{self, Subject};
use crate::oracles::linearizability::{Model, SCHEDULES_OF_EACH, Scenario, Scenarios};
use crate::plan::Job;
use crate::program::Body;
use crate::rows::row::{FAILURE, Found};
use crate::runner::row::report_panics;
use crate::search::reduction::Reduced;

/// Random programs of one round of proptest.
const CASES: u32 = 16;

/// Explores the row. Returns how many scenarios and histories there were.
pub(crate) fn explore(search: &Search, body: &Body) -> Found {
    let mut explored = Found::default();
    match body {
        Body::Once(run) => {
            let run = run.clone();
            schedules(search, &search.job, false, move || execute(|| run()));
        }
        Body::Many(explore) => explored.explained = explore(search),
        Body::None => refuse("Promela models run under Spin"),
    }
    explored
}

/// Runs `body` under the schedules of a row; `silent`: a failure is not printed.
fn schedules(search: &Search, job: &Job, silent: bool, body: impl Fn() + Send + Sync + 'static) {
    let mut config = shuttle::Config::new();
    config.max_steps = shuttle::MaxSteps::FailAfter(steps(search));
    if silent {
        config.failure_persistence = shuttle::FailurePersistence::None;
    }
    let schedules = job.bound.map(|bound| bound as usize);
    let some = schedules.unwrap_or(10_000);
    let scheduler: Box<dyn Scheduler + Send> = match job.mode {
        Mode::Dfs if job.is_reduced() && !search.is_plain => {
            shuttle::Runner::new(Reduced::new(), config).run(body);
            return;
        }
        Mode::Dfs => Box::new(DfsScheduler::new(schedules, false)),
        Mode::Random => Box::new(RandomScheduler::new_from_seed(1, some)),
        Mode::Urw => Box::new(UrwRandomScheduler::new_from_seed(1, some)),
        _ => Box::new(PctScheduler::new_from_seed(1, 3, some)),
    };
    shuttle::Runner::new(scheduler, config).run(body);
}

fn steps(search: &Search) -> usize {
    search.steps.expect("a row of shuttle's has a step bound") as usize
}

fn seed() -> u64 {
    let Ok(given) = std::env::var(SEED) else {
        return 1;
    };
    (given.parse()).unwrap_or_else(|_| refuse(&format!("{SEED}={given}: not a number")))
}

/// Returns a runner that draws the same for the same seed.
fn runner(seed: u64, cases: u32) -> TestRunner {
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
    // The cheapest generator: each choice between strategies makes one of its own.
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::XorShift, &bytes))
}

/// Runs random programs until `operations` have been performed. Reduces and reports one that fails.
pub(crate) fn drawn<S, M, R>(search: &Search, strategy: &Arc<M>, run: &Arc<R>, operations: u64)
where
    S: Strategy + Send + Sync + 'static,
    S::Value: Clone + Send + Sync,
    M: Fn() -> S + Send + Sync + 'static,
    R: Fn(&S::Value) -> u64 + Send + Sync + 'static,
{
    static DONE: AtomicU64 = AtomicU64::new(0);
    let once = |program: &S::Value, silent| {
        let (program, run) = (program.clone(), run.clone());
        schedules(search, &search.job, silent, move || {
            // Relaxed: a count, by one system thread.
            execute(|| _ = DONE.fetch_add(run(&program), Relaxed));
        });
    };
    // The object under test can be created inside an execution only.
    let made = Arc::new(OnceLock::new());
    let (set, strategy) = (made.clone(), strategy.clone());
    let first = Job {
        mode: Mode::Random,
        bound: Some(1),
        ..search.job.clone()
    };
    schedules(search, &first, false, move || {
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
            let run = AssertUnwindSafe(|| once(&program, true));
            catch_unwind(run).map_err(|_| TestCaseError::fail("it fails"))
        });
        if let Err(TestError::Fail(_, program)) = result {
            eprintln!("{FAILURE}seed {seed}, reduced:");
            for line in format!("{program:#?}").lines() {
                eprintln!("{FAILURE}  {line}");
            }
            report_panics(search.steps);
            once(&program, false);
            refuse("the program that failed passes when it is run again");
        }
    }
}

/// Runs every scenario of the row, or the one that the environment names. Returns how many there
/// were, and how many histories.
pub(crate) fn scenarios<M: Model>(
    search: &Search,
    model: &Arc<M>,
    scenarios: Scenarios,
) -> (u64, u64) {
    let job = &search.job;
    let of_each = match scenarios {
        Scenarios::All {
            schedules: Some(schedules),
            ..
        } => schedules,
        _ => SCHEDULES_OF_EACH,
    };
    let subject = Subject {
        model: model.clone(),
        steps: steps(search) as u64,
        schedules: job.bound.map(|_| of_each as usize),
    };
    let model = &**model;
    let seed = seed();
    let chosen: Box<dyn Iterator<Item = Scenario<M::Op>>> =
        match (std::env::var(SCENARIO), scenarios) {
            (Ok(text), _) => {
                let given = Scenario::parse(model, &text);
                let given =
                    given.unwrap_or_else(|why| refuse(&format!("{SCENARIO}='{text}': {why}")));
                Box::new(std::iter::once(given))
            }
            (
                _,
                Scenarios::Sampled {
                    threads,
                    operations,
                },
            ) => {
                let mut source = runner(seed, 1).new_rng();
                let how_many = job.bound.map_or(1, |bound| bound / SCHEDULES_OF_EACH) as usize;
                let size = (threads, operations);
                let drawn = Scenario::drawn(model, size, how_many, || source.next_u64());
                Box::new(drawn.into_iter())
            }
            (_, Scenarios::All { in_full_run, .. }) if job.long => {
                Box::new(Scenario::of_two(model, in_full_run))
            }
            (_, Scenarios::All { operations, .. }) => Box::new(Scenario::of_two(model, operations)),
        };
    let result = run::all(&subject, chosen);
    report_panics(search.steps);
    result.unwrap_or_else(|(scenario, why)| {
        panic!(
            "reduced (seed {seed}):\n{why}again: {SCENARIO}='{scenario}' cargo verify --replay {}{}",
            job.name(),
            search.mutations
        )
    })
}
