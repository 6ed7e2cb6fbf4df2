//! What the process of a row tells the process that started it: its findings as a line of JSON on
//! standard output, and a failure as marked lines on standard error.

use std::collections::BTreeSet;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use crate::crashes::Images;
use crate::info::BugSite;

/// The findings that the process of a row prints on standard output.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Found {
    /// Executions explored.
    pub executions: u64,
    /// The different outcomes.
    pub outcomes: BTreeSet<String>,
    /// For a row of generated scenarios: the numbers of scenarios and of different histories.
    pub explained: Option<(u64, u64)>,
    /// How often the weakened site was reached.
    pub weakened: u64,
    /// How many faults were injected.
    pub injected: u64,
    /// Under shuttle: the most steps that all threads took between two finished operations.
    pub longest: Option<u64>,
    /// The crash images, if the mode has crashes.
    pub images: Option<Images>,
    /// How arrivals overtook a waiter, if the program is about overtaking.
    pub overtaking: Option<Overtaking>,
    /// How often the injected bug fired.
    pub bug_fired: u64,
    /// The operations that some execution performed, each with its thread.
    pub performed: BTreeSet<(usize, String)>,
    /// Whether the facade saw any operation of the threads.
    pub uses_facade: bool,
    /// The sites that were reached: `file:line:column:op=Ordering`.
    pub sites: Vec<String>,
    /// The sites of injected bugs that were reached.
    pub bugs: Vec<BugSite>,
}

/// How many later arrivals overtook a waiter. The row fails if an execution exceeds the bound, or
/// if none reaches it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overtaking {
    /// The stated bound.
    pub bound: u32,
    /// The largest number of arrivals that overtook a waiter in one execution.
    pub most: u32,
    /// Whether an arrival was refused when it tried. If none was, the bound was not tested.
    pub refused: bool,
}

/// What shuttle says if a schedule takes too many steps.
#[cfg(any(
    feature = "command",
    spanlock_explorer,
    spanlock_loom,
    spanlock_shuttle
))]
pub(crate) const STEP_BOUND: &str = "exceeded max_steps bound";
/// What loom says if an execution has too many branches.
#[cfg(any(
    feature = "command",
    spanlock_explorer,
    spanlock_loom,
    spanlock_shuttle
))]
pub(crate) const BRANCH_BOUND: &str = "exceeded maximum number of branches";

/// The exit status of a model binary that refuses its arguments.
pub(crate) const REFUSES: i32 = 2;

/// The prefix of each line on standard error with which a row's process reports a failure.
pub(crate) const FAILURE: &str = "failure: ";

/// After [`FAILURE`], the prefix of the report's last line: what the threads saw.
pub(crate) const EVENTS: &str = "before the failure: ";

/// Tells the parent process. Returns the exit code for it.
pub(crate) fn tell(message: &impl Serialize) -> ExitCode {
    println!("{}", serde_json::to_string(message).expect("plain data"));
    ExitCode::SUCCESS
}

/// Returns the lines of the failure that a row's process reports on standard error.
pub(crate) fn told(stderr: &str) -> Vec<&str> {
    let lines = stderr.lines();
    let mut told: Vec<_> = lines.filter_map(|it| it.strip_prefix(FAILURE)).collect();
    // Later failures come from the checker's unwinding after the first.
    if let Some(last) = told.iter().position(|line| line.starts_with(EVENTS)) {
        told.truncate(last + 1);
    }
    told
}
