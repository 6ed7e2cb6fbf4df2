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

    use spanlock_sync::check::{self, Config, Fault, Weakening};
    use spanlock_verify::plan::{Job, Mode, jobs};
    use spanlock_verify::trace;

    /// Ends the process with status 2 and the reason.
    fn refuse(reason: &str) -> ! {
        eprintln!("model: {reason}");
        exit(2)
    }

    fn fault(text: &str) -> (Fault, u32) {
        let parsed = text.split_once('@').and_then(|(kind, nth)| {
            let kind = match kind {
                "weak-cas" => Fault::WeakCas,
                "spurious-wake" => Fault::SpuriousWake,
                "time-out" => Fault::TimeOut,
                _ => return None,
            };
            Some((kind, nth.parse().ok()?))
        });
        parsed.unwrap_or_else(|| refuse(&format!("fault `{text}`: write kind@occurrence")))
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
                "--fault" => config.faults.push(fault(&value())),
                "--sites" => sites = true,
                _ => refuse(&format!("unknown argument {arg}")),
            }
        }
        let name = name.unwrap_or_else(|| refuse("no --row"));
        let job = jobs().into_iter().find(|job| job.name() == name);
        let job = job.unwrap_or_else(|| refuse(&format!("no row is called {name}")));
        if job.mode == Mode::RmwLoad {
            config.mode = check::Mode::RmwLoad;
        }
        check::configure(config).expect("configured once, here");
        report_panics();
        explore(job);
        let seen: Vec<_> = check::sites()
            .iter()
            .filter(|_| sites)
            .map(|site| {
                format!(
                    "{}:{}:{}:{:?}={}",
                    site.file, site.line, site.column, site.op, site.ordering
                )
            })
            .collect();
        let result = serde_json::json!({
            "executions": check::executions(),
            "outcomes": trace::outcomes(),
            "weakened": check::weakened(),
            "injected": check::injected(),
            "sites": seen,
        });
        println!("{result}");
    }

    /// The interleaving that failed goes to standard error with the panic.
    fn report_panics() {
        let default = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            default(info);
            eprintln!("execution {}: {}", check::executions(), trace::events());
        }));
    }

    fn execute(job: &Job) {
        check::begin_execution();
        trace::begin();
        (job.model.run)(job.primitive);
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
