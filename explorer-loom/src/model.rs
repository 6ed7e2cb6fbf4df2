//! Models: programs whose executions are all explored.

use core::time::Duration;
use std::str::FromStr;
use std::sync::{Arc, Once};
use std::time::Instant;

use spanlock_explorer::{
    Failure, MAX_EVENTS, MAX_THREADS, Reason, Report, Search, Verdict, is_exploring,
};

use crate::execution::{Execution, Known, known};
use crate::quarantine::{self, Keeping};
use crate::report;
use crate::watch::Watch;

/// The most lines of a drawing of a failure at its beginning, and at its end.
const DRAWN: [usize; 2] = [20, 200];

/// Checkpoints do not exist here, so no value of this type does.
#[derive(Clone, Copy, Debug)]
pub enum CheckpointsAreNotSupported {}

/// What [`Builder::checkpoint_file`] would take.
#[diagnostic::on_unimplemented(
    message = "the explorer stores no checkpoints: remove this call of `checkpoint_file`",
    note = "a failure draws its execution, so no search is needed to reach it again"
)]
pub trait Checkpoint {}

/// Says how to explore a model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Builder {
    /// The most threads of an execution, the main thread included. At most and by default 8.
    pub max_threads: usize,
    /// The most operations of a thread. A longer execution fails the model. `LOOM_MAX_BRANCHES`
    /// sets it, and 4,000 is the default.
    pub max_branches: usize,
    /// The most executions, without a limit by default. `LOOM_MAX_PERMUTATIONS` sets it.
    pub max_permutations: Option<usize>,
    /// The longest time of a search, without a limit by default. `LOOM_MAX_DURATION` sets it, in
    /// seconds.
    pub max_duration: Option<Duration>,
    /// Changes nothing: all preemptions are explored.
    pub preemption_bound: Option<usize>,
    /// Can only be `None`.
    pub checkpoint_file: Option<CheckpointsAreNotSupported>,
    /// Changes nothing.
    pub checkpoint_interval: usize,
    /// Changes nothing: everything is explored.
    pub expect_explicit_explore: bool,
    /// Changes nothing: each failure names the lines of its operations.
    pub location: bool,
    /// Changes nothing: a failure draws its execution.
    pub log: bool,
    /// The most spurious failures and wakeups of an execution, 1 by default. `LOOM_MAX_FAULTS` sets
    /// it. Loom does not have it.
    pub max_faults: usize,
    /// The most rounds of each spin loop, 16 by default. `LOOM_MAX_ROUNDS` sets it. The search
    /// begins with one round, which is enough for a loop that only reads, and doubles the number if
    /// the loop may have given up after more. Loom does not have it.
    pub max_rounds: u32,
}

/// Returns the value of an environment variable.
fn variable<T: FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    let Ok(value) = text.parse() else {
        panic!("invalid value for `{name}`: `{text}` is not a number");
    };
    Some(value)
}

/// Says once which variables of loom have no meaning here.
fn say_what_is_ignored() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let ignored = [
            ("LOOM_MAX_PREEMPTIONS", "all preemptions are explored"),
            ("LOOM_CHECKPOINT_FILE", "the explorer stores no checkpoints"),
            (
                "LOOM_CHECKPOINT_INTERVAL",
                "the explorer stores no checkpoints",
            ),
            ("LOOM_LOG", "a failure draws its execution"),
            ("LOOM_LOCATION", "each failure names its lines"),
        ];
        for (name, why) in ignored {
            if std::env::var_os(name).is_some() {
                report::line(&format!("`{name}` changes nothing: {why}"));
            }
        }
    });
}

impl Builder {
    /// Returns a builder with the limits that the environment sets.
    ///
    /// # Panics
    /// If one of the variables is not a number.
    pub fn new() -> Builder {
        Builder {
            max_threads: MAX_THREADS,
            max_branches: variable("LOOM_MAX_BRANCHES").unwrap_or(4_000),
            max_permutations: variable("LOOM_MAX_PERMUTATIONS"),
            max_duration: variable("LOOM_MAX_DURATION").map(Duration::from_secs),
            preemption_bound: None,
            checkpoint_file: None,
            checkpoint_interval: 0,
            expect_explicit_explore: false,
            location: true,
            log: false,
            max_faults: variable("LOOM_MAX_FAULTS").unwrap_or(1),
            max_rounds: variable("LOOM_MAX_ROUNDS").unwrap_or(16),
        }
    }

    /// Does not compile: the explorer stores no checkpoints.
    ///
    /// ```compile_fail,E0277
    /// loom::model::Builder::new().checkpoint_file("file");
    /// ```
    pub fn checkpoint_file<F: Checkpoint>(&mut self, _file: F) -> &mut Self {
        self
    }

    /// Explores every execution of the program.
    ///
    /// # Panics
    /// If an execution fails, with a drawing of it, or within a model.
    #[track_caller]
    pub fn check<F>(&self, program: F)
    where
        F: Fn() + Sync + Send + 'static,
    {
        assert!(!is_exploring(), "`loom::model` is called within a model");
        say_what_is_ignored();
        let began = Instant::now();
        let report = self.search(Arc::new(program), began);
        report::print(&report, self, began.elapsed());
        if let Verdict::Failed(failure) = report.verdict {
            panic!("{}", in_terms_of_loom(&failure));
        }
    }

    fn search(&self, program: Arc<dyn Fn()>, began: Instant) -> Report {
        // Before the memory is kept, and until it is released.
        let mut watch = Watch::new();
        let progress = watch.progress.clone();
        let _keeping = Keeping::new();
        known(|known| {
            *known = Known {
                threads: 2,
                most_threads: self.max_threads,
                ..Known::default()
            }
        });
        let mut rounds = 1;
        loop {
            let mut search = Search::new()
                .rounds(rounds)
                .rounds_by_place()
                .faults(self.max_faults)
                .stack(1 << 20);
            search = search.events(self.max_branches.min(MAX_EVENTS));
            if let Some(most) = self.max_permutations {
                search = search.limit(most as u64);
            }
            if let Some(most) = self.max_duration {
                search = search.deadline(began + most);
            }
            let (program, progress) = (program.clone(), progress.clone());
            let report = search.explore(&mut watch, move || {
                progress.step();
                quarantine::release();
                Execution::begin();
                program();
                Execution::end();
            });
            Execution::clear();
            if known(|known| core::mem::take(&mut known.is_new)) {
                continue;
            }
            if rounds < self.max_rounds && needs_rounds(&report) {
                rounds *= 2;
                continue;
            }
            return report;
        }
    }
}

/// Returns what a failure says, in the terms of this crate, and with the middle of a long drawing
/// left out.
fn in_terms_of_loom(failure: &Failure) -> String {
    let text = failure.to_string();
    let text = text.replace("calls `spin`", "calls `loom::thread::yield_now`");
    let text = text.replace("`Search::events`", "`LOOM_MAX_BRANCHES`");
    let text = text.replace("`Search::rounds`", "`LOOM_MAX_ROUNDS`");
    let lines: Vec<&str> = text.lines().collect();
    let [first, last] = DRAWN;
    if lines.len() <= first + last {
        return text;
    }
    let left_out = format!("... {} lines left out ...", lines.len() - first - last);
    let (head, tail) = (&lines[..first], &lines[lines.len() - last..]);
    [head, &[&left_out], tail].concat().join("\n")
}

/// Returns whether a loop that ends after some rounds may have led to the failure.
fn needs_rounds(report: &Report) -> bool {
    let Verdict::Failed(failure) = &report.verdict else {
        return false;
    };
    let may_be = matches!(failure.reason, Reason::Deadlock | Reason::Misuse);
    may_be && known(|known| known.has_spun)
}

impl Default for Builder {
    fn default() -> Builder {
        Builder::new()
    }
}

/// Explores every execution of the program, within the limits that the environment sets.
///
/// # Panics
/// If an execution fails, with a drawing of it, or within a model.
#[track_caller]
pub fn model<F>(program: F)
where
    F: Fn() + Sync + Send + 'static,
{
    Builder::new().check(program);
}
