//! Models of the facade itself. A process runs one model in one configuration
//! ([`spanlock_sync::check`]). So each test starts its own executable again, once for each
//! configuration.

use std::env;
use std::process::{Command, exit};

use spanlock_sync::check::{self, Config, Fault, FaultPlan, Occasion};

const VARIABLE: &str = "SPANLOCK_SYNC_MODEL";

/// The outcome of a run.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// No execution panicked, deadlocked or raced.
    pub(crate) passed: bool,
    /// The counts of the facade; zeros if the model failed.
    pub(crate) executions: usize,
    pub(crate) weakened: usize,
    pub(crate) injected: usize,
    pub(crate) bug_fired: usize,
    /// Every site of an injected bug: `file:line name (killed by): what`.
    pub(crate) bugs: Vec<String>,
    /// Every site in the model's own file: `file:line:column:op`, and the ordering.
    pub(crate) sites: Vec<(String, String)>,
    /// All output.
    pub(crate) text: String,
}

/// A model, identified by the name of the test that contains it: `MODULE::FUNCTION`.
pub(crate) struct Model {
    test: &'static str,
}

impl Model {
    /// Returns the model of the test called `test`. In a process that [`run`](Self::run) has
    /// started, runs the model and ends the process.
    pub(crate) fn new(test: &'static str, file: &str, body: fn()) -> Model {
        if let Ok(wanted) = env::var(VARIABLE)
            && let Some((_, settings)) = wanted.split_once('=').filter(|(name, _)| *name == test)
        {
            let (config, faults) = configured(settings);
            check::configure(config).expect("the first model of this process");
            check::set_faults(faults);
            explore(body, settings);
            println!("\nexecutions {}", check::executions());
            println!("weakened {}", check::weakened());
            println!("injected {}", check::injected());
            println!("bug-fired {}", check::bug_fired());
            for bug in check::bugs() {
                let (name, killed_by) = (bug.name, bug.killed_by);
                println!(
                    "bug {}:{} {name} ({killed_by}): {}",
                    bug.file, bug.line, bug.what
                );
            }
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

    /// Runs the model in a process of its own. The settings are separated by spaces:
    /// `weaken:SITE=ORDERING`, `bug:NAME`, `weak-cas@T.N`, `spurious-wake@T.N`, `time-out@T.N`;
    /// under shuttle `steps:N`, the bound on steps between two finished operations.
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
        let is_found = outcome.text.contains("running 1 test");
        assert!(is_found, "no test {}: {}", self.test, outcome.text);
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let words: Vec<_> = line.split(' ').collect();
            let number = || words[1].parse().unwrap_or(0);
            match words[..] {
                ["executions", _] => outcome.executions = number(),
                ["weakened", _] => outcome.weakened = number(),
                ["injected", _] => outcome.injected = number(),
                ["bug-fired", _] => outcome.bug_fired = number(),
                ["bug", ref bug @ ..] => outcome.bugs.push(bug.join(" ")),
                ["site", site, ordering] => {
                    outcome.sites.push((site.to_owned(), ordering.to_owned()));
                }
                ["passed", _] => outcome.passed = output.status.success(),
                _ => {}
            }
        }
        outcome
    }

    /// Runs the model as [`run`](Self::run) does, and panics unless it passes.
    pub(crate) fn must_pass(&self, settings: &str) -> Outcome {
        let outcome = self.run(settings);
        assert!(outcome.passed, "with `{settings}`: {}", outcome.text);
        outcome
    }

    /// Runs the model as [`run`](Self::run) does, and panics unless an execution fails.
    pub(crate) fn must_fail(&self, settings: &str) -> Outcome {
        let outcome = self.run(settings);
        assert!(!outcome.passed, "with `{settings}`: {}", outcome.text);
        outcome
    }
}

fn configured(settings: &str) -> (Config, FaultPlan) {
    let mut config = Config::default();
    let mut faults = FaultPlan::new();
    for setting in settings.split(' ').filter(|setting| !setting.is_empty()) {
        if let Some(site) = setting.strip_prefix("weaken:") {
            config.weaken = Some(site.parse().expect("a weakening"));
        } else if let Some(name) = setting.strip_prefix("bug:") {
            config.bug = Some(name.to_owned());
        } else if !setting.starts_with("steps:") {
            let (kind, at) = setting.split_once('@').expect("a fault");
            let (thread, nth) = at.split_once('.').expect("a thread and a number");
            let fault = match kind {
                "weak-cas" => Fault::WeakCas,
                "spurious-wake" => Fault::SpuriousWake,
                "time-out" => Fault::TimeOut,
                _ => panic!("no fault is called {kind}"),
            };
            let (thread, nth) = (thread.parse().ok(), nth.parse().ok());
            let (thread, nth) = thread.zip(nth).expect("numbers");
            faults.push(Occasion { fault, thread, nth });
        }
    }
    (config, faults)
}

#[cfg(spanlock_explorer)]
#[global_allocator]
static ARENA: spanlock_explorer::arena::Arena = spanlock_explorer::arena::Arena;

#[cfg(spanlock_explorer)]
fn explore(body: fn(), _settings: &str) {
    let report = spanlock_explorer::Search::new().explore(&mut (), move || {
        check::begin_execution();
        body();
    });
    if let spanlock_explorer::Verdict::Failed(failure) = report.verdict {
        panic!("{failure}");
    }
}

#[cfg(spanlock_loom)]
fn explore(body: fn(), _settings: &str) {
    let mut builder = loom::model::Builder::new();
    builder.max_duration = None;
    builder.max_permutations = None;
    builder.preemption_bound = None;
    builder.check(move || {
        check::begin_execution();
        body();
    });
}

#[cfg(spanlock_shuttle)]
fn explore(body: fn(), settings: &str) {
    let scheduler = shuttle::scheduler::DfsScheduler::new(None, false);
    let mut config = shuttle::Config::new();
    let mut settings = settings.split(' ');
    if let Some(steps) = settings.find_map(|setting| setting.strip_prefix("steps:")) {
        config.max_steps = shuttle::MaxSteps::FailAfter(steps.parse().expect("a number"));
    }
    shuttle::Runner::new(scheduler, config).run(move || {
        check::begin_execution();
        body();
    });
}
