//! Models of group commit. A process runs one model in one configuration ([`spanlock_sync::check`]), so each test
//! starts its own program again, once for each configuration, and looks how that ends.

use std::env;
use std::process::{Command, exit};

use spanlock_sync::check::{self, Config, Fault, Mode, Occasion};

const VARIABLE: &str = "SPANLOCK_JOURNAL_MODEL";

/// What a run came to.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// No execution panicked, deadlocked or raced.
    pub(crate) passed: bool,
    /// What the door counted; zeros if the model failed.
    pub(crate) executions: usize,
    pub(crate) weakened: usize,
    pub(crate) injected: usize,
    /// Every site of the model's own file: `file:line:column:op`, and the ordering.
    pub(crate) sites: Vec<(String, String)>,
    /// All output.
    pub(crate) text: String,
}

/// A model, by the name of the test whose body it is.
pub(crate) struct Model {
    test: &'static str,
}

impl Model {
    /// In the test's own process, the model of the test called `test`; in a process that [`run`](Self::run)
    /// started, runs it and ends the process.
    pub(crate) fn new(test: &'static str, file: &str, body: fn()) -> Model {
        if let Ok(wanted) = env::var(VARIABLE)
            && let Some((_, settings)) = wanted.split_once('=').filter(|(name, _)| *name == test)
        {
            let (bound, others): (Vec<_>, Vec<_>) =
                (settings.split(' ')).partition(|setting| setting.starts_with("bound="));
            let bound = bound
                .first()
                .map(|bound| bound[6..].parse().expect("a number"));
            let config = config(&others.join(" "));
            check::configure(config).expect("the first model of this process");
            explore(body, bound);
            println!("\nexecutions {}", check::executions());
            println!("weakened {}", check::weakened());
            println!("injected {}", check::injected());
            for site in check::sites().iter().filter(|site| site.file == file) {
                let op = format!("{:?}", site.op).to_lowercase();
                let (line, column) = (site.line, site.column);
                println!("site {file}:{line}:{column}:{op} {}", site.ordering);
            }
            println!("passed 1");
            exit(0);
        }
        Model { test }
    }

    /// Runs the model in a process of its own. Settings, split by spaces: `rmw-load`, `bound=N` (preemptions), `weaken:SITE=ORDERING`,
    /// `weak-cas@N`, `spurious-wake@N`, `time-out@N`.
    pub(crate) fn run(&self, settings: &str) -> Outcome {
        let output = Command::new(env::current_exe().expect("this program"))
            .args([self.test, "--exact", "--nocapture", "--test-threads=1"])
            .env(VARIABLE, format!("{}={settings}", self.test))
            .env("RUST_BACKTRACE", "0")
            .output()
            .expect("this program starts again");
        let mut outcome = Outcome {
            text: String::from_utf8_lossy(&output.stdout).into_owned()
                + &String::from_utf8_lossy(&output.stderr),
            ..Outcome::default()
        };
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let words: Vec<_> = line.split(' ').collect();
            let number = || words[1].parse().unwrap_or(0);
            match words[..] {
                ["executions", _] => outcome.executions = number(),
                ["weakened", _] => outcome.weakened = number(),
                ["injected", _] => outcome.injected = number(),
                ["site", site, ordering] => {
                    outcome.sites.push((site.to_owned(), ordering.to_owned()));
                }
                ["passed", _] => outcome.passed = output.status.success(),
                _ => {}
            }
        }
        outcome
    }

    /// As [`run`](Self::run), and it must pass.
    pub(crate) fn must_pass(&self, settings: &str) -> Outcome {
        let outcome = self.run(settings);
        assert!(outcome.passed, "with `{settings}`: {}", outcome.text);
        outcome
    }

    /// As [`run`](Self::run), and an execution must fail.
    pub(crate) fn must_fail(&self, settings: &str) -> Outcome {
        let outcome = self.run(settings);
        assert!(!outcome.passed, "with `{settings}`: {}", outcome.text);
        outcome
    }
}

fn config(settings: &str) -> Config {
    let mut config = Config::default();
    let mut plan = Vec::new();
    for setting in settings.split(' ').filter(|setting| !setting.is_empty()) {
        if setting == "rmw-load" {
            config.mode = Mode::RmwLoad;
        } else if let Some(site) = setting.strip_prefix("weaken:") {
            config.weaken = Some(site.parse().expect("a weakening"));
        } else {
            let (kind, nth) = setting.split_once('@').expect("a fault");
            let fault = match kind {
                "weak-cas" => Fault::WeakCas,
                "spurious-wake" => Fault::SpuriousWake,
                "time-out" => Fault::TimeOut,
                _ => panic!("no fault is called {kind}"),
            };
            let nth = nth.parse().expect("a number");
            // In whatever thread: these models are of two or three.
            plan.extend((0..3).map(|thread| Occasion { fault, thread, nth }));
        }
    }
    check::set_faults(plan);
    config
}

#[cfg(spanlock_loom)]
fn explore(body: fn(), bound: Option<usize>) {
    let mut builder = loom::model::Builder::new();
    builder.max_duration = None;
    builder.max_permutations = None;
    builder.preemption_bound = bound;
    builder.check(move || {
        check::begin_execution();
        body();
    });
}

#[cfg(spanlock_shuttle)]
fn explore(body: fn(), bound: Option<usize>) {
    let run = move || {
        check::begin_execution();
        body();
    };
    // Depth first, which is complete where there are fewer interleavings than that (loom is, in any case but where it has a bound); then at random.
    if bound.is_none() {
        let scheduler = shuttle::scheduler::DfsScheduler::new(Some(20_000), false);
        shuttle::Runner::new(scheduler, shuttle::Config::new()).run(run);
    }
    shuttle::check_random(run, 20_000);
}
