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
    use std::sync::OnceLock;

    use spanlock_sync::check::{self, Config, Site, Weakening};
    #[cfg(spanlock_shuttle)]
    use spanlock_testkit::Driven;
    use spanlock_verify::plan::{Job, Mode, jobs};
    use spanlock_verify::program::{Fault, FaultKind, Run};
    #[cfg(spanlock_loom)]
    use spanlock_verify::prune;
    #[cfg(spanlock_shuttle)]
    use spanlock_verify::reduce::Reduced;
    use spanlock_verify::row::{EVENTS, FAILURE, Found};
    use spanlock_verify::trace;

    /// Set if the checker's own search is asked for, with nothing left out.
    static PLAIN: OnceLock<()> = OnceLock::new();

    fn is_plain() -> bool {
        PLAIN.get().is_some()
    }

    /// A file to write to; without it loom's weak mode leaves nothing out.
    #[cfg_attr(spanlock_shuttle, allow(dead_code))]
    static SCRATCH: OnceLock<PathBuf> = OnceLock::new();

    /// Ends the process with status 2 and the reason.
    fn refuse(reason: &str) -> ! {
        eprintln!("model: {reason}");
        exit(2)
    }

    fn injected(fault: &Fault) -> (check::Fault, u32) {
        let kind = match fault.kind {
            FaultKind::WeakCas => check::Fault::WeakCas,
            FaultKind::SpuriousWake => check::Fault::SpuriousWake,
            FaultKind::TimeOut => check::Fault::TimeOut,
        };
        (kind, fault.occurrence)
    }

    pub(super) fn main() {
        let mut config = Config::default();
        let (mut name, mut sites, mut preemptions) = (None, false, None);
        let mut args = std::env::args().skip(1);
        while let Some(arg) = args.next() {
            let mut value = || {
                args.next()
                    .unwrap_or_else(|| refuse(&format!("{arg} wants a value")))
            };
            match &*arg {
                "--row" => name = Some(value()),
                "--weaken" => {
                    let parsed = Weakening::from_str(&value());
                    config.weaken = Some(parsed.unwrap_or_else(|error| refuse(&error)));
                }
                "--sites" => sites = true,
                // At most so many, whatever the row's bound is.
                "--preemptions" => match value().parse() {
                    Ok(n) => preemptions = Some(n),
                    Err(error) => refuse(&format!("--preemptions: {error}")),
                },
                "--plain" => PLAIN.set(()).unwrap_or_default(),
                "--scratch" => SCRATCH.set(value().into()).unwrap_or_default(),
                "--trace" => config.trace = true,
                _ => refuse(&format!("unknown argument {arg}")),
            }
        }
        let name = name.unwrap_or_else(|| refuse("no --row"));
        let job = jobs().into_iter().find(|job| job.name() == name);
        let mut job = job.unwrap_or_else(|| refuse(&format!("no row is called {name}")));
        if let Some(few) = preemptions {
            job.bound = Some(job.bound.map_or(few, |bound| bound.min(few)));
        }
        if job.mode == Mode::RmwLoad {
            config.mode = check::Mode::RmwLoad;
        }
        config.faults = job.faults.iter().map(injected).collect();
        config.threads = Some(job.program.threads as usize);
        check::configure(config).expect("configured once, here");
        explore(job);
        let sites = if sites { check::sites() } else { Vec::new() };
        let found = Found {
            executions: check::executions() as u64,
            outcomes: trace::outcomes(),
            weakened: check::weakened() as u64,
            injected: check::injected() as u64,
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

    /// What failed, and the way there, goes to standard error with the panic.
    fn report_panics() {
        std::panic::set_hook(Box::new(move |info| {
            for line in format!("execution {}: {info}", check::executions()).lines() {
                eprintln!("{FAILURE}{line}");
            }
            eprintln!("{FAILURE}{EVENTS}{}", trace::events());
            for (i, step) in check::steps().iter().enumerate() {
                let (thread, what) = (step.thread, &step.what);
                // A column a thread.
                let column = thread * 26;
                eprintln!("{i:5}  {:column$}T{thread} {what:<24}  {}", "", step.place);
            }
        }));
    }

    fn execute(run: impl FnOnce()) {
        check::begin_execution();
        trace::begin();
        run();
        trace::end();
    }

    #[cfg(spanlock_loom)]
    fn explore(job: Job) {
        let Run::Once(run) = job.program.run.clone() else {
            refuse("histories are for shuttle, twins for Spin");
        };
        report_panics();
        let mut builder = loom::model::Builder::new();
        // Stated here, not taken from the environment: a search that is cut off there ends green.
        builder.max_duration = None;
        builder.max_permutations = None;
        builder.max_branches = 10_000;
        builder.preemption_bound = job.bound.map(|bound| bound as usize);
        // A weak compare-exchange that fails by plan is a load in either mode.
        let values = job.mode == Mode::Weak || !job.faults.is_empty();
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

    #[cfg(spanlock_shuttle)]
    fn explore(job: Job) {
        match job.program.run {
            Run::Once(run) => {
                report_panics();
                schedules(job.mode, job.bound, 1, false, move || execute(|| run()));
            }
            Run::Histories(make) => histories(job.mode, job.bound, make),
            Run::Twin(_) => refuse("twins are for Spin"),
        }
    }

    /// Runs `body` under so many schedules; silently, if a failure is not to be told.
    #[cfg(spanlock_shuttle)]
    fn schedules(
        mode: Mode,
        bound: Option<u64>,
        seed: u64,
        silent: bool,
        body: impl Fn() + Send + Sync + 'static,
    ) {
        use shuttle::scheduler::{DfsScheduler, PctScheduler, RandomScheduler, UrwRandomScheduler};
        let mut config = shuttle::Config::new();
        config.max_steps = shuttle::MaxSteps::FailAfter(100_000);
        if silent {
            config.failure_persistence = shuttle::FailurePersistence::None;
        }
        let schedules = bound.map(|bound| bound as usize);
        let some = schedules.unwrap_or(10_000);
        match mode {
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
    fn histories(mode: Mode, bound: Option<u64>, make: fn() -> Driven) {
        use std::panic::catch_unwind;
        use std::sync::Arc;
        use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

        use proptest::test_runner::{TestCaseError, TestError};
        use spanlock_testkit::op::Program;
        use spanlock_testkit::{histories, op, threads};
        use spanlock_verify::models::history::{ENOUGH, OPERATIONS, THREADS};

        static DONE: AtomicU64 = AtomicU64::new(0);
        let run = move |program: &Program, silent| {
            let program = program.clone();
            schedules(mode, bound, 1, silent, move || {
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
        schedules(Mode::Random, Some(1), 1, false, move || {
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
