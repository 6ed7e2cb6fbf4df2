//! The row that this process explores, and how each of its executions begins and ends.

#![cfg_attr(
    not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)),
    allow(dead_code)
)]

use std::env;
use std::sync::OnceLock;

#[cfg(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))]
use spanlock_sync::check;

#[cfg(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))]
use crate::info::{Fault, FaultKind};
use crate::messages::REFUSES;
use crate::mode::Mode;
use crate::plan::Job;
#[cfg(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))]
use crate::trace::outside;

/// The environment variable that sets the seed of random programs and scenarios.
pub(crate) const SEED: &str = "SPANLOCK_SEED";

/// The environment variable that replaces all scenarios of a row by one.
pub(crate) const SCENARIO: &str = "SPANLOCK_SCENARIO";

/// Returns an error if an environment variable for replays is set: it would change what rows run.
pub(crate) fn no_replay() -> Result<(), String> {
    for name in [SCENARIO, SEED] {
        if env::var_os(name).is_some() {
            return Err(format!(
                "{name} is set: it would silently change what rows run\n  unset it, or use it with \
                 `cargo verify --replay`"
            ));
        }
    }
    Ok(())
}

/// The mode of this process's row.
pub(crate) static MODE: OnceLock<Mode> = OnceLock::new();

/// Returns the mode of the row that this process explores, if it explores one.
pub fn mode() -> Option<Mode> {
    MODE.get().copied()
}

/// Returns the number of the current step of the execution, for [`Crashes`](crate::Crashes). Only
/// the explorer counts steps.
pub fn step() -> u32 {
    #[cfg(spanlock_explorer)]
    return spanlock_explorer::Moment::now().to_bits();
    #[cfg(not(spanlock_explorer))]
    0
}

/// A row that this process explores.
pub(crate) struct Search {
    pub(crate) job: Job,
    /// The arguments that change the code under test.
    #[cfg_attr(spanlock_loom, allow(dead_code))]
    pub(crate) mutations: Vec<String>,
}

/// The exit status of a process in which an execution has failed: that of a panic.
#[cfg(spanlock_explorer)]
pub(crate) const FAILS: i32 = 101;

/// Returns the faults that the program states.
#[cfg(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))]
pub(crate) fn stated(job: &Job) -> check::FaultPlan {
    job.program.faults.iter().map(occasion).collect()
}

#[cfg(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))]
fn occasion(fault: &Fault) -> check::Occasion {
    let &Fault { kind, thread, nth } = fault;
    let fault = match kind {
        FaultKind::WeakCas => check::Fault::WeakCas,
        FaultKind::SpuriousWake => check::Fault::SpuriousWake,
        FaultKind::TimeOut => check::Fault::TimeOut,
    };
    check::Occasion { fault, thread, nth }
}

/// Begins an execution.
#[cfg(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))]
pub(crate) fn begin_execution() {
    spanlock_sync::check::begin_execution();
    #[cfg(spanlock_explorer)]
    crate::panics::begin_execution();
    crate::trace::begin();
}

/// Runs an execution.
#[cfg(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))]
pub(crate) fn execute(run: impl FnOnce()) {
    begin_execution();
    run();
    crate::trace::finished();
    compare();
    crate::trace::end();
}

/// What the first execution of this process did: a hash of its operations, and its notes.
static FIRST: OnceLock<(u64, String)> = OnceLock::new();

/// Remembers what the first execution did. Panics if a repeat of it does something else.
#[cfg(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))]
fn compare() {
    let done = || (spanlock_sync::check::fingerprint(), crate::trace::events());
    let is_same = outside(|| *FIRST.get_or_init(done) == done());
    assert!(
        is_same || !crate::panics::is_repeat(),
        "repeated after the search, the first execution does something else"
    );
}

/// Prints the reason, and exits with the code of a refused request.
pub(crate) fn refuse(reason: &str) -> ! {
    eprintln!("models: {reason}");
    std::process::exit(REFUSES)
}
