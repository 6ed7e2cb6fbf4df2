//! The process that explores one row.

use std::process::ExitCode;

use spanlock_sync::check::{self, Config, Site};

use super::args::Args;
use crate::execution::{MODE, Search, refuse};
use crate::info::{BugSite, Description};
use crate::messages;
use crate::mode::{Checker, Mode};
use crate::panics::{begin_repeats, report_panics};
use crate::plan::{Job, jobs_here};
use crate::program::{Body, Program};
use crate::suite::Suite;
use crate::trace;
use crate::worlds;

/// Explores the row of this name, and prints the result.
pub(super) fn run(row: &str, suites: &[Suite], description: &Description, args: &Args) -> ExitCode {
    let job = job(row, description, args);
    let (suite, name) = (&job.program.suite, &job.program.name);
    let mut programs = suites.iter().flat_map(|it| &it.programs);
    let program = programs.find(|it| it.info.suite == *suite && it.info.name == *name);
    let program = program.expect("described just now");
    configure(&job, args);
    report_panics();
    MODE.set(job.mode).expect("set once, here");
    let search = Search {
        job,
        mutations: args.mutations(),
    };
    explore(&search, program);
    record();
    // A repeat sets the stated faults again, and with them the count of injected faults.
    repeat(&search, program);
    messages::tell(&*trace::found())
}

/// Records what the facade counted in the search.
fn record() {
    let mut found = trace::found();
    if cfg!(not(spanlock_explorer)) {
        found.executions = check::executions() as u64;
    }
    found.weakened = check::weakened() as u64;
    found.injected = check::injected() as u64;
    found.bug_fired = check::bug_fired() as u64;
    #[cfg(spanlock_shuttle)]
    (found.longest = Some(check::longest() as u64));
    found.uses_facade = check::operations() > 0;
    found.sites = check::sites().iter().map(site).collect();
    found.bugs = check::bugs().iter().map(bug).collect();
}

fn explore(search: &Search, program: &Program) {
    match &program.body {
        Body::Once(run) => worlds::search(search, run, program.crashes.as_ref()),
        Body::Many(explore) => explore(search),
        Body::None => refuse("Promela models run under Spin"),
    }
}

/// Repeats the first execution, which fails if the program does something else then.
fn repeat(search: &Search, program: &Program) {
    let Body::Once(run) = &program.body else {
        return;
    };
    begin_repeats();
    // Twice: state that alternates has the value of the first execution at most once.
    worlds::first(search, run);
    worlds::first(search, run);
}

fn job(row: &str, description: &Description, args: &Args) -> Job {
    let rows = jobs_here(description).unwrap_or_else(|why| refuse(&why));
    let mut rows = rows.into_iter();
    let job = rows.find(|job| job.name() == row);
    let mut job = job.unwrap_or_else(|| refuse(&format!("there is no row `{row}`")));
    let checker = job.mode.checker();
    if Checker::of_this_build() != Some(checker) {
        refuse(&format!("{row} needs a build for {}", checker.name()));
    }
    if args.unbounded || args.bound.is_some() {
        job.bound = args.bound;
    }
    if job.mode == Mode::Explorer {
        let most = match args.without_faults {
            true => 0,
            false => job.program.most_faults(),
        };
        job.faults = job.bound.map_or(most, |bound| most.min(bound as usize));
    }
    job
}

/// Configures the facade for the row.
fn configure(job: &Job, args: &Args) {
    let weaken = args.weaken.as_ref();
    let weaken = weaken.map(|site| site.parse().unwrap_or_else(|why: String| refuse(&why)));
    let config = Config {
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
