//! Runs one row in this process, and prints what came of it as one line of JSON.
//!
//! Built by `cargo verify` under `--cfg spanlock_loom` or `--cfg spanlock_shuttle`; without either there is
//! no checker to run it.

#[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
fn main() {
    eprintln!("model: built without a checker; `cargo verify` builds it as it should be");
    std::process::exit(2);
}

#[cfg(any(spanlock_loom, spanlock_shuttle))]
fn main() {
    checked::main();
}

#[cfg(any(spanlock_loom, spanlock_shuttle))]
mod checked {
    use std::path::PathBuf;
    use std::process::exit;
    use std::str::FromStr;
    use std::sync::{Once, OnceLock};

    #[cfg(spanlock_shuttle)]
    use proptest::prelude::Rng as _;
    use spanlock_sync::check::{self, Config, Site, Weakening};
    #[cfg(spanlock_shuttle)]
    use spanlock_testkit::Driven;
    use spanlock_verify::defects::Defect;
    #[cfg(spanlock_shuttle)]
    use spanlock_verify::models::linear::Scenarios;
    use spanlock_verify::plan::{Job, Mode, job};
    use spanlock_verify::program::Run;
    #[cfg(spanlock_loom)]
    use spanlock_verify::program::{Fault, FaultKind};
    #[cfg(spanlock_shuttle)]
    use spanlock_verify::reduce::Reduced;
    use spanlock_verify::row::{EVENTS, FAILURE, Found, REFUSES};
    use spanlock_verify::trace;
    #[cfg(spanlock_loom)]
    use spanlock_verify::{faults::every_plan, prune};

    /// Set if the checker's own search is asked for, with nothing left out.
    static PLAIN: OnceLock<()> = OnceLock::new();

    /// What is wrong on purpose, as `cargo verify --replay` takes it: with a space before each word.
    #[cfg_attr(spanlock_loom, allow(dead_code))]
    static MISTAKES: OnceLock<String> = OnceLock::new();

    fn is_plain() -> bool {
        PLAIN.get().is_some()
    }

    /// How many steps of all threads may lie between two finished operations.
    static STEP_BOUND: OnceLock<u64> = OnceLock::new();

    /// A file to write to; without it loom's weak mode leaves nothing out.
    #[cfg_attr(spanlock_shuttle, allow(dead_code))]
    static SCRATCH: OnceLock<PathBuf> = OnceLock::new();

    /// Ends the process with the reason.
    fn refuse(reason: &str) -> ! {
        eprintln!("model: {reason}");
        exit(REFUSES)
    }

    #[cfg(spanlock_loom)]
    fn occasion(fault: &Fault) -> check::Occasion {
        let &Fault { kind, thread, nth } = fault;
        let fault = match kind {
            FaultKind::WeakCas => check::Fault::WeakCas,
            FaultKind::SpuriousWake => check::Fault::SpuriousWake,
            FaultKind::TimeOut => check::Fault::TimeOut,
        };
        check::Occasion { fault, thread, nth }
    }

    pub(super) fn main() {
        let mut config = Config::default();
        let (mut name, mut sites, mut preemptions) = (None, false, None);
        let mut steps = None;
        let mut mistakes = String::new();
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut value = || {
                args.next()
                    .unwrap_or_else(|| refuse(&format!("{arg} wants a value")))
            };
            match &*arg {
                "--row" => name = Some(value()),
                "--weaken" => {
                    let site = value();
                    mistakes += &format!(" --weaken {site}");
                    let parsed = Weakening::from_str(&site);
                    config.weaken = Some(parsed.unwrap_or_else(|error| refuse(&error)));
                }
                "--defect" => {
                    let defect = value();
                    mistakes += &format!(" --defect {defect}");
                    let parsed = Defect::from_str(&defect);
                    let parsed = parsed.unwrap_or_else(|error| refuse(&error));
                    config.bug = Some(parsed.name().to_owned());
                }
                "--sites" => sites = true,
                // At most so many, whatever the row's bound is.
                "--preemptions" => match value().parse() {
                    Ok(n) => preemptions = Some(n),
                    Err(error) => refuse(&format!("--preemptions: {error}")),
                },
                // The bound on steps between finished operations, in the stead of the row's.
                "--steps" => match value().parse() {
                    Ok(n) => steps = Some(n),
                    Err(error) => refuse(&format!("--steps: {error}")),
                },
                "--plain" => PLAIN.set(()).unwrap_or_default(),
                "--scratch" => SCRATCH.set(value().into()).unwrap_or_default(),
                "--trace" => config.trace = true,
                _ => refuse(&format!("unknown argument {arg}")),
            }
        }
        MISTAKES.set(mistakes).unwrap_or_default();
        let name = name.unwrap_or_else(|| refuse("no --row"));
        let mut job = job(&name).unwrap_or_else(|| refuse(&format!("no row is called {name}")));
        if let Some(few) = preemptions {
            job.bound = Some(job.bound.map_or(few, |bound| bound.min(few)));
        }
        if job.mode == Mode::RmwLoad {
            config.mode = check::Mode::RmwLoad;
        }
        config.threads = Some(job.program.threads as usize);
        check::configure(config).expect("configured once, here");
        if let Some(bound) = steps.or(job.step_bound()) {
            STEP_BOUND.set(bound).unwrap_or_default();
        }
        report_panics();
        let (plans, explained) = explore(&job);
        let sites = if sites { check::sites() } else { Vec::new() };
        let found = Found {
            executions: check::executions() as u64,
            outcomes: trace::outcomes(),
            explained,
            weakened: check::weakened() as u64,
            injected: check::injected() as u64,
            plans,
            #[cfg(spanlock_loom)]
            longest: None,
            #[cfg(spanlock_shuttle)]
            longest: Some(check::longest() as u64),
            overtaking: trace::overtaking(),
            seeded: check::bug_fired() as u64,
            performed: trace::performed(),
            sites: sites.iter().map(describe).collect(),
        };
        println!("{}", serde_json::to_string(&found).expect("plain data"));
    }

    fn describe(site: &Site) -> String {
        let op = format!("{:?}", site.op).to_lowercase();
        format!(
            "{}:{}:{}:{op}={}",
            site.file, site.line, site.column, site.ordering
        )
    }

    /// What failed, and the way there, goes to standard error. Further panics are the checker's unwinding of the first.
    fn report_panics() {
        let first = Once::new();
        std::panic::set_hook(Box::new(move |info| {
            first.call_once(|| tell(&info.to_string()));
        }));
    }

    fn tell(panic: &str) {
        for line in format!("execution {}: {panic}", check::executions()).lines() {
            eprintln!("{FAILURE}{line}");
        }
        if let Some(bound) = STEP_BOUND.get()
            && panic.contains("exceeded max_steps bound")
        {
            eprintln!("{FAILURE}no operation was finished in {bound} steps: does somebody spin?");
        }
        let faults: Vec<_> = check::faults().iter().map(ToString::to_string).collect();
        if !faults.is_empty() {
            eprintln!("{FAILURE}with {}", faults.join(" and "));
        }
        eprintln!("{FAILURE}{EVENTS}{}", trace::events());
        for (i, step) in check::steps().iter().enumerate() {
            let (thread, what) = (step.thread, &step.what);
            // A column a thread.
            let column = thread * 26;
            eprintln!("{i:5}  {:column$}T{thread} {what:<24}  {}", "", step.place);
        }
    }

    fn execute(run: impl FnOnce()) {
        check::begin_execution();
        trace::begin();
        run();
        trace::finished();
        trace::end();
    }

    /// Runs the row; says under how many plans of faults.
    #[cfg(spanlock_loom)]
    fn explore(job: &Job) -> (u64, Option<(u64, u64)>) {
        let Run::Once(run) = &job.program.run else {
            refuse("histories and scenarios are for shuttle, twins for Spin");
        };
        if job.faults > 0 {
            let plans = every_plan(job.faults, |plan| search(job, plan, run.clone()));
            return (plans, None);
        }
        let plan: check::FaultPlan = job.program.faults.iter().map(occasion).collect();
        check::set_faults(plan.clone());
        search(job, &plan, run.clone());
        (0, None)
    }

    /// Searches the program under one plan.
    #[cfg(spanlock_loom)]
    fn search(job: &Job, plan: &[check::Occasion], run: std::sync::Arc<dyn Fn() + Send + Sync>) {
        let mut builder = loom::model::Builder::new();
        // Stated here, not taken from the environment: a search that is cut off there ends green.
        builder.max_duration = None;
        builder.max_permutations = None;
        builder.max_branches = 10_000;
        builder.preemption_bound = job.bound.map(|bound| bound as usize);
        // A weak compare-exchange that fails by plan is a load in either mode.
        let loads = plan.iter().any(|it| it.fault == check::Fault::WeakCas);
        let values = job.mode == Mode::Weak || loads;
        let scratch = SCRATCH.get().filter(|_| values);
        let prunes = job.is_reduced() && !is_plain() && (scratch.is_some() || !values);
        if prunes {
            builder.checkpoint_file = scratch.cloned();
            builder.checkpoint_interval = 1;
            // Loom would go on where a search of before was.
            scratch.map(std::fs::remove_file);
            prune::begin(scratch.cloned());
        }
        builder.check(move || {
            if prunes {
                prune::begin_execution();
            }
            execute(|| run());
        });
    }

    /// Runs the row, which has no plans of faults. Of a row about many scenarios: how many, and how many histories.
    #[cfg(spanlock_shuttle)]
    fn explore(job: &Job) -> (u64, Option<(u64, u64)>) {
        let mut explained = None;
        match &job.program.run {
            Run::Once(run) => {
                let run = run.clone();
                schedules(job, 1, false, move || execute(|| run()));
            }
            Run::Histories(make) => histories(job, *make),
            Run::Scenarios(all) => explained = Some(scenarios(job, all)),
            Run::Twin(_) => refuse("twins are for Spin"),
        }
        (0, explained)
    }

    /// Every scenario of the row, or the one that the environment names.
    #[cfg(spanlock_shuttle)]
    fn scenarios(job: &Job, of: &Scenarios) -> (u64, u64) {
        use spanlock_testkit::histories;
        use spanlock_verify::linear::run::{self, Subject};
        use spanlock_verify::linear::scenario::{Alphabet, Scenario};
        use spanlock_verify::models::linear::{FEW, OF_EACH, SCENARIO};

        let subject = Subject {
            make: of.primitive.make,
            rules: of.rules(),
            steps: *STEP_BOUND.get().expect("a row of shuttle's has one"),
            schedules: job.bound.map(|_| OF_EACH as usize),
        };
        let given = std::env::var(SCENARIO).ok();
        let given = given.map(|text| {
            let given = text.parse::<Scenario>();
            let runs = given.and_then(|given| given.check(of.primitive).map(|()| given));
            runs.unwrap_or_else(|why| refuse(&format!("{SCENARIO}='{text}': {why}")))
        });
        let seed = histories::seed();
        let result = match (given, job.bound) {
            (Some(given), _) => run::all(subject, std::iter::once(given)),
            (None, Some(bound)) if of.alphabet == Alphabet::All => {
                let mut source = histories::runner(seed, 1).new_rng();
                let drawn = of.drawn((bound / OF_EACH) as usize, || source.next_u64());
                run::all(subject, drawn.into_iter())
            }
            (None, _) => run::all(
                subject,
                of.of_two(if job.long { of.operations } else { FEW }),
            ),
        };
        report_panics();
        match result {
            Ok(explained) => (explained.scenarios, explained.histories),
            Err((scenario, why)) => panic!(
                "made small (seed {seed}):\n{why}again: {SCENARIO}='{scenario}' cargo verify --replay {}{}",
                job.name(),
                MISTAKES.get().map_or("", |mistakes| mistakes)
            ),
        }
    }

    /// Runs `body` under so many schedules; silently, if a failure is not to be told.
    #[cfg(spanlock_shuttle)]
    fn schedules(job: &Job, seed: u64, silent: bool, body: impl Fn() + Send + Sync + 'static) {
        use shuttle::scheduler::{DfsScheduler, PctScheduler, RandomScheduler, UrwRandomScheduler};
        let mut config = shuttle::Config::new();
        let steps = STEP_BOUND.get().expect("a row of shuttle's has one");
        config.max_steps = shuttle::MaxSteps::FailAfter(*steps as usize);
        if silent {
            config.failure_persistence = shuttle::FailurePersistence::None;
        }
        let schedules = job.bound.map(|bound| bound as usize);
        let some = schedules.unwrap_or(10_000);
        match job.mode {
            Mode::Dfs if is_plain() => {
                shuttle::Runner::new(DfsScheduler::new(schedules, false), config).run(body)
            }
            Mode::Dfs => shuttle::Runner::new(Reduced::new(), config).run(body),
            Mode::Random => {
                let scheduler = RandomScheduler::new_from_seed(seed, some);
                shuttle::Runner::new(scheduler, config).run(body)
            }
            Mode::Urw => {
                let scheduler = UrwRandomScheduler::new_from_seed(seed, some);
                shuttle::Runner::new(scheduler, config).run(body)
            }
            _ => {
                let scheduler = PctScheduler::new_from_seed(seed, 3, some);
                shuttle::Runner::new(scheduler, config).run(body)
            }
        };
    }

    /// Random programs, until there have been enough operations; one that fails is made small, and told.
    #[cfg(spanlock_shuttle)]
    fn histories(job: &Job, make: fn() -> Driven) {
        use std::panic::catch_unwind;
        use std::sync::Arc;
        use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

        use proptest::test_runner::{TestCaseError, TestError};
        use spanlock_testkit::op::Program;
        use spanlock_testkit::{histories, op, threads};
        use spanlock_verify::models::history::{ENOUGH, OPERATIONS, THREADS};

        static DONE: AtomicU64 = AtomicU64::new(0);
        let run = |program: &Program, silent| {
            let program = program.clone();
            schedules(job, 1, silent, move || {
                execute(|| match threads::run(make(), &program) {
                    // Relaxed: a count.
                    Ok(done) => _ = DONE.fetch_add(done, Relaxed),
                    Err(wrong) => panic!("{wrong}"),
                });
            });
        };
        // A lock can be made, and asked what it can do, inside of an execution only.
        let strategy = Arc::new(OnceLock::new());
        let set = strategy.clone();
        let once = Job {
            mode: Mode::Random,
            bound: Some(1),
            ..job.clone()
        };
        schedules(&once, 1, false, move || {
            set.get_or_init(|| op::program(&make(), THREADS, OPERATIONS));
        });
        let strategy = strategy.get().expect("made just now");
        let seed = histories::seed();
        std::panic::set_hook(Box::new(|_| {}));
        for round in 0.. {
            if DONE.load(Relaxed) >= ENOUGH {
                return;
            }
            let mut runner = histories::runner(seed.wrapping_add(round << 32), 16);
            let result = runner.run(strategy, |program| {
                let run = std::panic::AssertUnwindSafe(|| run(&program, true));
                catch_unwind(run).map_err(|_| TestCaseError::fail("it fails"))
            });
            if let Err(TestError::Fail(_, program)) = result {
                eprintln!("{FAILURE}seed {seed}, made small:");
                for (thread, ops) in program.iter().enumerate() {
                    eprintln!("{FAILURE}  thread {}: {ops:?}", thread + 1);
                }
                report_panics();
                run(&program, false);
                refuse("what failed does so no more");
            }
        }
    }
}
