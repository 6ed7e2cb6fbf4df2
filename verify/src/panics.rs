//! Reports why an execution failed: its first panic, with advice, and what the threads did before.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use spanlock_sync::check;

use crate::messages::{BRANCH_BOUND, EVENTS, FAILURE, STEP_BOUND};
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

/// The last panic of the current execution. The explorer says whether the execution fails: a
/// thread may catch a panic.
#[cfg(spanlock_explorer)]
static LAST: std::sync::Mutex<Option<String>> = std::sync::Mutex::new(None);

/// Keeps the last panic of each execution, for [`tell_reason`].
#[cfg(spanlock_explorer)]
pub(crate) fn report_panics() {
    std::panic::set_hook(Box::new(|info| {
        trace::outside(|| *trace::lock(&LAST) = Some(info.to_string()));
    }));
}

/// Forgets the panics of the last execution.
#[cfg(spanlock_explorer)]
pub(crate) fn begin_execution() {
    *trace::lock(&LAST) = None;
}

/// Reports why the current execution fails, its last panic, and the events before that. If the
/// panic is the reason, its own message says where it was.
#[cfg(spanlock_explorer)]
pub(crate) fn tell_reason(reason: &str) {
    let last = trace::lock(&LAST).take();
    let said = |panic: &String| panic.lines().skip(1).any(|line| reason.contains(line));
    match last {
        None => tell(reason),
        Some(panic) if said(&panic) => tell(&panic),
        Some(panic) => tell(&format!("{reason}\nbefore that: {panic}")),
    }
}

/// Messages of the checkers about programs that they cannot explore, and the advice for each.
const ADVICE: [(&str, &str); 4] = [
    (
        "gives up a spin loop",
        "Let a spin that gives up use `spanlock_sync::hint::Backoff`, which has no rounds under a \
         checker, instead of `hint::pause`.",
    ),
    (
        STEP_BOUND,
        "No operation finished within that many steps: is a thread spinning? If an operation \
         takes longer than that, raise `Suite::step_bound`.",
    ),
    (
        BRANCH_BOUND,
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
