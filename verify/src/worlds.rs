//! One execution, and all executions, under the checker of this build.

#![cfg_attr(not(any(spanlock_loom, spanlock_shuttle)), allow(dead_code))]

#[cfg(spanlock_loom)]
mod loom;
#[cfg(not(spanlock_shuttle))]
mod none;
#[cfg(spanlock_shuttle)]
mod shuttle;

#[cfg(spanlock_loom)]
pub(crate) use self::loom::explore;
#[cfg(not(spanlock_shuttle))]
pub(crate) use self::none::{drawn, scenarios};
#[cfg(spanlock_shuttle)]
pub(crate) use self::shuttle::{drawn, explore, scenarios, under};

use std::env;

use crate::plan::Job;
use crate::runner::Args;

/// The variable with the seed of random programs and scenarios: any number.
pub const SEED: &str = "SPANLOCK_SEED";

/// The variable that names the one scenario to run instead of a row's.
pub const SCENARIO: &str = "SPANLOCK_SCENARIO";

/// Checks that the environment has no variable of a replay, which would change rows unnoticed.
///
/// # Errors
/// It has one.
pub(crate) fn no_replay() -> Result<(), String> {
    let of_a_replay = [
        (SCENARIO, "that scenario and none of its own"),
        (SEED, "what that seed draws, and not say so"),
    ];
    match of_a_replay
        .iter()
        .find(|(name, _)| env::var_os(name).is_some())
    {
        None => Ok(()),
        Some((name, what)) => Err(format!(
            "{name} is set: a row would run {what}\n  unset it, or use it with `cargo verify \
             --replay`"
        )),
    }
}

/// A row that this process explores.
pub(crate) struct Search<'a> {
    pub(crate) job: Job,
    pub(crate) args: &'a Args,
}

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

/// Ends the process: it does not accept what it was asked for.
pub(crate) fn refuse(reason: &str) -> ! {
    eprintln!("models: {reason}");
    std::process::exit(crate::rows::row::REFUSES)
}
