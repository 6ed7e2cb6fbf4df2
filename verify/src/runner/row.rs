//! The process that explores one row.

use std::process::ExitCode;

use spanlock_sync::check::{self, Config, Site};

use super::{Args, print_json, rows};
use crate::info::{BugSite, Description};
use crate::mode::{Checker, Mode};
use crate::plan::Job;
use crate::rows::row::{EVENTS, FAILURE};
use crate::search::NOT_REPEATABLE;
use crate::suite::Suite;
use crate::trace;
use crate::worlds::{self, Search, refuse};

/// Explores the row of this name, and prints the result.
pub(super) fn run(row: &str, suites: &[Suite], description: &Description, args: &Args) -> ExitCode {
    let job = job(row, description, args);
    let (suite, name) = (&job.program.suite, &job.program.name);
    let mut programs = suites.iter().flat_map(|it| &it.programs);
    let program = programs.find(|it| it.info.suite == *suite && it.info.name == *name);
    let program = program.expect("described just now");
    configure(&job, args);
    report_panics();
    worlds::MODE.set(job.mode).expect("set once, here");
    let search = Search { job, args };
    worlds::explore(&search, program);
    let mut found = trace::found();
    found.executions = check::executions() as u64;
    found.weakened = check::weakened() as u64;
    found.injected = check::injected() as u64;
    found.bug_fired = check::bug_fired() as u64;
    found.uses_facade = check::operations() > 0;
    found.sites = check::sites().iter().map(site).collect();
    found.bugs = check::bugs().iter().map(bug).collect();
    print_json(&*found)
}

fn job(row: &str, description: &Description, args: &Args) -> Job {
    let mut rows = rows(description).into_iter();
    let job = rows.find(|job| job.name() == row);
    let mut job = job.unwrap_or_else(|| refuse(&format!("there is no row `{row}`")));
    let checker = job.mode.checker();
    if Checker::of_this_build() != Some(checker) {
        refuse(&format!("{row} needs a build for {}", checker.name()));
    }
    if args.unbounded || args.bound.is_some() {
        job.bound = args.bound;
    }
    if let Some(few) = args.preemptions {
        job.bound = Some(job.bound.map_or(few, |bound| bound.min(few)));
    }
    job
}

/// Configures the facade for the row.
fn configure(job: &Job, args: &Args) {
    let weaken = args.weaken.as_ref();
    let weaken = weaken.map(|site| site.parse().unwrap_or_else(|why: String| refuse(&why)));
    let config = Config {
        mode: match job.mode {
            Mode::RmwLoad => check::Mode::RmwLoad,
            _ => check::Mode::Weak,
        },
        trace: args.trace,
        threads: Some(job.program.threads as usize),
        weaken,
        bug: args.bug.clone(),
    };
    check::configure(config).expect("configured once, here");
}

fn site(site: &Site) -> String {
    let op = format!("{:?}", site.op).to_lowercase();
    let place = format!("{}:{}:{}", site.file, site.line, site.column);
    format!("{place}:{op}={}", site.ordering)
}

fn bug(site: &check::BugSite) -> BugSite {
    let killed_by = site.killed_by.split(',').map(str::trim);
    let killed_by = killed_by.filter(|it| !it.is_empty()).map(str::to_owned);
    BugSite {
        name: site.name.to_owned(),
        what: site.what.to_owned(),
        killed_by: killed_by.collect(),
        place: format!("{}:{}", site.file, site.line),
    }
}

/// Reports the first panic, and the events before it, on standard error. Later panics come only
/// from the checker, as it unwinds the first.
pub(crate) fn report_panics() {
    let first = std::sync::Once::new();
    std::panic::set_hook(Box::new(move |info| {
        first.call_once(|| tell(&info.to_string()));
    }));
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
    if let Some((_, advice)) = advice {
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
