//! Looking for a program that fails: what mutants and injected bugs have in common.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, bail};

use super::build::Built;
use super::models::{Plan, Task};
use super::mutants::sites::Site;
use super::pool::at_the_same_time;
use super::process::{End, explore};
use crate::info::BugSite;
use crate::mode::Mode;
use crate::rows::verdict::told;

/// Preemptions of the first searches for a failure.
const FEW: &str = "2";

/// Executions of a row that is searched as it is.
const AFFORDABLE: u64 = 20_000;

/// A search that is busy for longer has found no failure.
const LIMIT: Duration = Duration::from_secs(60);

/// A row to search, and whether with few preemptions.
pub(super) type Search<'a> = (&'a Task, bool);

/// A program that failed.
pub(super) struct Kill {
    /// Its row.
    pub(super) model: String,
    /// The execution in which it failed.
    pub(super) execution: Option<u64>,
    /// What it said.
    pub(super) said: String,
}

/// What the programs reach: each with the rows that reach it, the cheap ones first.
pub(super) struct Reached<'a> {
    /// Sites of the facade in the sources of packages that have models.
    pub(super) sites: BTreeMap<Site, Vec<&'a Task>>,
    /// Places where a bug can be injected.
    pub(super) bugs: BTreeMap<BugSite, Vec<&'a Task>>,
}

impl<'a> Reached<'a> {
    /// Runs every program under loom, with few preemptions, and asks what it reaches.
    ///
    /// # Errors
    /// A program fails.
    pub(super) fn by(plan: &'a Plan, built: &Built, workers: usize) -> Result<Self> {
        let mut tasks: Vec<&Task> = plan.tasks.iter().filter(|it| is_asked(it)).collect();
        by_cost(&mut tasks);
        let name = |task: &&Task| task.job.name();
        let found = at_the_same_time(&tasks, workers, "programs asked for sites", name, |task| {
            explore(built, task, &["--sites", "--preemptions", FEW], None)
        });
        let mut reached = Reached {
            sites: BTreeMap::new(),
            bugs: BTreeMap::new(),
        };
        for (task, ended) in tasks.into_iter().zip(found) {
            let ended = ended?;
            let End::Found(found) = ended.end else {
                let said = ended.stderr.trim();
                bail!("{} fails as it is: {said}", task.job.name());
            };
            for site in found.bugs {
                reached.bugs.entry(site).or_default().push(task);
            }
            // A litmus suite shows what the checkers do, and kills no mutant.
            if is_litmus(task) {
                continue;
            }
            let is_ours = |site: &Site| {
                let mut packages = built.packages.iter();
                packages.any(|package| site.file.starts_with(&package.sources))
            };
            let sites = found.sites.iter().filter_map(|site| site.parse().ok());
            for site in sites.filter(is_ours) {
                reached.sites.entry(site).or_default().push(task);
            }
        }
        Ok(reached)
    }
}

/// One and three threads show sooner what double faults show.
fn is_asked(task: &Task) -> bool {
    task.job.mode == Mode::Weak && task.job.faults < 2
}

fn is_litmus(task: &Task) -> bool {
    let suites = &task.models.description.suites;
    let suite = suites.iter().find(|it| it.name == task.job.program.suite);
    suite.is_some_and(|it| it.programs.iter().any(|program| program.expected.is_some()))
}

/// Sorts the cheap rows to the front.
pub(super) fn by_cost(tasks: &mut [&Task]) {
    tasks.sort_by_key(|task| {
        let program = &task.job.program;
        (task.cost(), program.threads, program.operations)
    });
}

/// Returns searches in both modes of loom, with few preemptions.
pub(super) fn short<'a>(plan: &'a Plan, models: &[&'a Task]) -> Vec<Search<'a>> {
    let modes = [Mode::Weak, Mode::RmwLoad].into_iter();
    let tasks = modes.flat_map(|mode| in_mode(plan, models, mode));
    tasks.map(|task| (task, true)).collect()
}

/// Returns searches for after the [short](short) ones: those of these modes that are affordable,
/// as they are.
pub(super) fn long<'a>(plan: &'a Plan, models: &[&'a Task], modes: &[Mode]) -> Vec<Search<'a>> {
    let affordable = |task: &&Task| {
        let recorded = task.recorded();
        recorded.is_some_and(|count| count.executions <= AFFORDABLE)
    };
    let tasks = modes.iter().flat_map(|&mode| in_mode(plan, models, mode));
    tasks.filter(affordable).map(|task| (task, false)).collect()
}

fn in_mode<'a>(plan: &'a Plan, models: &[&'a Task], mode: Mode) -> impl Iterator<Item = &'a Task> {
    models
        .iter()
        .filter_map(move |task| plan.in_mode(task, mode))
}

/// Runs `searches` in order, with a change of the code under test, until one fails.
///
/// # Errors
/// A process ends in another way than by a failure that it tells.
pub(super) fn first_failure(
    built: &Built,
    searches: &[Search],
    change: [&str; 2],
) -> Result<Option<Kill>> {
    for (task, few) in searches {
        let mut more = change.to_vec();
        if *few {
            more.extend(["--preemptions", FEW]);
        }
        let ended = explore(built, task, &more, Some(LIMIT))?;
        if let Some(kill) = kill(task, &ended.stderr) {
            return Ok(Some(kill));
        }
        match ended.end {
            End::Failed(_) => {
                let said = ended.stderr.trim();
                bail!("{} with {}: {said}", task.job.name(), change[1]);
            }
            End::Broken(why) | End::Skipped(why) => bail!("{}: {why}", task.job.name()),
            End::Found(_) | End::Stopped => {}
        }
    }
    Ok(None)
}

/// Returns what a row's process wrote, if a program failed: `execution 7: panicked at …:`, and
/// what the panic says.
pub(super) fn kill(task: &Task, stderr: &str) -> Option<Kill> {
    let mut told = told(stderr).into_iter();
    let first = told.next()?;
    let number = first.strip_prefix("execution ");
    Some(Kill {
        model: task.job.name(),
        execution: number.and_then(|told| told.split(':').next()?.parse().ok()),
        // Spin says it in the first line.
        said: (number.and_then(|_| told.next()).unwrap_or(first)).to_owned(),
    })
}
