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
    use std::process::exit;
    use std::str::FromStr;

    use spanlock_sync::check::{self, Config, Site, Weakening};
    use spanlock_verify::plan::{Job, Mode, jobs};
    use spanlock_verify::program::{Fault, FaultKind};
    use spanlock_verify::row::{EVENTS, FAILURE, Found};
    use spanlock_verify::trace;

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
        let (mut name, mut sites) = (None, false);
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
                "--trace" => config.trace = true,
                _ => refuse(&format!("unknown argument {arg}")),
            }
        }
        let name = name.unwrap_or_else(|| refuse("no --row"));
        let job = jobs().into_iter().find(|job| job.name() == name);
        let job = job.unwrap_or_else(|| refuse(&format!("no row is called {name}")));
        if job.mode == Mode::RmwLoad {
            config.mode = check::Mode::RmwLoad;
        }
        config.faults = job.faults.iter().map(injected).collect();
        check::configure(config).expect("configured once, here");
        report_panics();
        explore(job);
        let sites = if sites { check::sites() } else { Vec::new() };
        let found = Found {
            executions: check::executions() as u64,
            outcomes: trace::outcomes(),
            weakened: check::weakened() as u64,
            injected: check::injected() as u64,
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

    fn execute(job: &Job) {
        check::begin_execution();
        trace::begin();
        (job.program.run)();
        trace::end();
    }

    #[cfg(spanlock_loom)]
    fn explore(job: Job) {
        let mut builder = loom::model::Builder::new();
        // Stated here, not taken from the environment: a search that is cut off there ends green.
        builder.max_duration = None;
        builder.max_permutations = None;
        builder.max_branches = 10_000;
        builder.preemption_bound = job.bound.map(|bound| bound as usize);
        builder.check(move || execute(&job));
    }

    #[cfg(spanlock_shuttle)]
    fn explore(job: Job) {
        use shuttle::scheduler::{DfsScheduler, PctScheduler, RandomScheduler};
        let mut config = shuttle::Config::new();
        config.max_steps = shuttle::MaxSteps::FailAfter(100_000);
        let schedules = job.bound.map(|bound| bound as usize);
        let mode = job.mode;
        let body = move || execute(&job);
        match mode {
            Mode::Dfs => {
                shuttle::Runner::new(DfsScheduler::new(schedules, false), config).run(body);
            }
            Mode::Random => {
                let scheduler = RandomScheduler::new_from_seed(1, schedules.unwrap_or(10_000));
                shuttle::Runner::new(scheduler, config).run(body);
            }
            _ => {
                let scheduler = PctScheduler::new_from_seed(1, 3, schedules.unwrap_or(10_000));
                shuttle::Runner::new(scheduler, config).run(body);
            }
        }
    }
}
