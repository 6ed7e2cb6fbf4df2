//! Reports why an execution failed: its first panic, with advice, and what the threads did before.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use spanlock_sync::check;

use crate::messages::{EVENTS, FAILURE};
use crate::search::NOT_REPEATABLE;
use crate::trace;

static IS_REPEAT: AtomicBool = AtomicBool::new(false);

/// Says that all further executions repeat the schedule of the first one.
pub(crate) fn begin_repeats() {
    // Relaxed: only the system thread that runs the executions uses this.
    IS_REPEAT.store(true, Relaxed);
}

/// Whether the current execution repeats the schedule of the first one.
pub(crate) fn is_repeat() -> bool {
    // Relaxed: as above.
    IS_REPEAT.load(Relaxed)
}

/// Reports the first panic, and the events before it, on standard error. Later panics come only
/// from the checker, as it unwinds the first.
#[cfg(not(spanlock_explorer))]
pub(crate) fn report_panics() {
    let first = std::sync::Once::new();
    std::panic::set_hook(Box::new(move |info| {
        first.call_once(|| tell(&info.to_string()));
    }));
}

/// The first panic of the current execution. The explorer says whether the execution fails: a
/// thread may panic, and another may join it.
#[cfg(spanlock_explorer)]
static FIRST: std::sync::Mutex<Option<String>> = std::sync::Mutex::new(None);

/// Keeps the first panic of each execution, for [`tell_first`].
#[cfg(spanlock_explorer)]
pub(crate) fn report_panics() {
    std::panic::set_hook(Box::new(|info| {
        trace::outside(|| _ = trace::lock(&FIRST).get_or_insert_with(|| info.to_string()));
    }));
}

/// Forgets the panics of the last execution.
#[cfg(spanlock_explorer)]
pub(crate) fn begin_execution() {
    *trace::lock(&FIRST) = None;
}

/// Reports the first panic of the current execution, or `reason` if there is none, and the events
/// before it.
#[cfg(spanlock_explorer)]
pub(crate) fn tell_first(reason: &str) {
    let first = trace::lock(&FIRST).take();
    tell(first.as_deref().unwrap_or(reason));
}

/// Messages of the checkers about programs that they cannot explore, and the advice for each.
const ADVICE: [(&str, &str); 3] = [
    (
        "exceeded max_steps bound",
        "No operation finished within that many steps: is a thread spinning? If an operation \
         takes longer than that, raise `Suite::step_bound`.",
    ),
    (
        "exceeded maximum number of branches",
        "The program does not end, or is far too long: put `spanlock_sync::hint::pause` into loops \
         that wait, sleep with `Parker`, or perform fewer operations.",
    ),
    (
        "cannot access Loom execution state",
        "A thread that std started uses the facade: start threads with `spanlock_sync::thread`.",
    ),
];

fn tell(panic: &str) {
    for line in format!("execution {}: {panic}", check::executions()).lines() {
        eprintln!("{FAILURE}{line}");
    }
    let advice = ADVICE.iter().find(|(said, _)| panic.contains(said));
    // If a repeated execution differs, loom's own assertions fail. These words mark other failures.
    let findings = ["deadlock", "Causality violation", "leaked"];
    let is_found = || findings.iter().any(|it| panic.contains(it));
    if is_repeat() {
        eprintln!("{FAILURE}This schedule passed at the beginning. {NOT_REPEATABLE}.");
    } else if let Some((_, advice)) = advice {
        eprintln!("{FAILURE}{advice}");
    } else if panic.contains("/src/rt/") && panic.contains("/loom-") && !is_found() {
        eprintln!("{FAILURE}{NOT_REPEATABLE}.");
    }
    let faults: Vec<_> = check::faults().iter().map(ToString::to_string).collect();
    if !faults.is_empty() {
        eprintln!("{FAILURE}with {}", faults.join(" and "));
    }
    eprintln!("{FAILURE}{EVENTS}{}", trace::events());
    for (i, step) in check::steps().iter().enumerate() {
        let (thread, what) = (step.thread, &step.what);
        // One column per thread.
        let column = thread * 26;
        eprintln!("{i:5}  {:column$}T{thread} {what:<24}  {}", "", step.place);
    }
}
