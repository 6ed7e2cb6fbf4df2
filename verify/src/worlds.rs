//! Runs one execution, or the executions of a row, under the checker of this build.

#![cfg_attr(not(any(spanlock_loom, spanlock_shuttle)), allow(dead_code))]

#[cfg(spanlock_loom)]
mod loom;
#[cfg(spanlock_shuttle)]
mod shuttle;

#[cfg(spanlock_loom)]
use self::loom::once;
#[cfg(spanlock_shuttle)]
use self::shuttle::once;

#[cfg(spanlock_loom)]
pub(crate) use self::loom::explore;
#[cfg(spanlock_shuttle)]
pub(crate) use self::shuttle::{drawn, explore, scenarios, under};

use std::env;
use std::sync::OnceLock;
#[cfg(any(spanlock_loom, spanlock_shuttle))]
use std::{sync::Mutex, thread};

use crate::mode::Mode;
use crate::plan::Job;
use crate::runner::Args;

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

/// Returns the number of the current step of the execution, for [`Crashes`](crate::Crashes).
pub fn step() -> u32 {
    crate::search::order::AT.get()
}

/// Runs a function outside the search, where it can use code that uses the facade: under a checker,
/// in an execution of its own on another system thread.
pub fn apart(run: Box<dyn FnOnce() + Send>) {
    #[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
    return run();
    #[cfg(any(spanlock_loom, spanlock_shuttle))]
    {
        let run = Mutex::new(Some(run));
        let execution = move || {
            if let Some(run) = crate::trace::lock(&run).take() {
                run();
            }
        };
        let system_thread = thread::spawn(|| once(execution));
        if let Err(panic) = system_thread.join() {
            std::panic::resume_unwind(panic);
        }
    }
}

/// A row that this process explores.
pub(crate) struct Search<'a> {
    pub(crate) job: Job,
    pub(crate) args: &'a Args,
}

// These two run under shuttle only: loom's `explore` refuses such rows.
#[cfg(not(spanlock_shuttle))]
pub(crate) fn drawn<S, R>(_: &Search, _: &S, _: &R, _: u64) {}

#[cfg(not(spanlock_shuttle))]
pub(crate) fn scenarios<M, S>(_: &Search, _: &M, _: S) {}

/// Begins an execution.
#[cfg(any(spanlock_loom, spanlock_shuttle))]
pub(crate) fn begin_execution() {
    spanlock_sync::check::begin_execution();
    crate::trace::begin();
}

/// Runs an execution.
#[cfg(any(spanlock_loom, spanlock_shuttle))]
pub(crate) fn execute(run: impl FnOnce()) {
    begin_execution();
    run();
    crate::trace::finished();
    crate::trace::end();
}

/// Prints the reason, and exits with the code of a refused request.
pub(crate) fn refuse(reason: &str) -> ! {
    eprintln!("models: {reason}");
    std::process::exit(crate::rows::row::REFUSES)
}
