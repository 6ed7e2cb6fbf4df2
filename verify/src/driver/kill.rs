//! Looking for a model that fails: what `mutants` and `defects` have in common.

use std::time::Duration;

use anyhow::{Result, bail};

use super::counts::Counts;
use super::{Built, End, explore};
use crate::plan::{Job, Mode};
use crate::row::FAILURE;

/// Preemptions of the first searches for a failure.
pub(super) const FEW: &str = "2";

/// Executions of a row that is searched as it is.
const AFFORDABLE: u64 = 20_000;

/// What keeps a model busy for longer has not made it fail.
const LIMIT: Duration = Duration::from_secs(60);

/// A row to search, and whether with few preemptions.
pub(super) type Search = (Job, bool);

/// A model that failed.
pub(super) struct Kill {
    /// Its row.
    pub(super) model: String,
    /// In which execution.
    pub(super) execution: Option<u64>,
    /// What it said.
    pub(super) said: String,
}

/// The cheap ones first.
pub(super) fn by_cost(rows: &mut [Job], counts: &Counts) {
    rows.sort_by_key(|job| {
        (
            counts.cost(job),
            job.program.threads,
            job.program.operations,
        )
    });
}

/// In both modes of loom, with few preemptions.
pub(super) fn short(models: &[Job]) -> Vec<Search> {
    let loom = in_mode(models, Mode::Weak).chain(in_mode(models, Mode::RmwLoad));
    loom.map(|job| (job, true)).collect()
}

/// After the [short](short) ones: those of these modes that can be afforded, as they are.
pub(super) fn long(models: &[Job], modes: &[Mode], counts: &Counts) -> Vec<Search> {
    let affordable = |job: &Job| counts.of(job).is_some_and(|n| n <= AFFORDABLE);
    let in_modes = modes.iter().flat_map(|&mode| in_mode(models, mode));
    // Shuttle's rows have no faults.
    let there = in_modes.filter(|job| job.mode != Mode::Dfs || job.faults == 0);
    there.filter(affordable).map(|job| (job, false)).collect()
}

fn in_mode(models: &[Job], mode: Mode) -> impl Iterator<Item = Job> {
    models.iter().map(move |job| Job {
        mode,
        ..job.clone()
    })
}

/// Runs `searches` in order, with what `change` tells the model to do wrong, until one fails.
pub(super) fn first_failure(
    built: &Built,
    searches: &[Search],
    change: [&str; 2],
) -> Result<Option<Kill>> {
    for (job, few) in searches {
        let mut more = change.to_vec();
        if *few {
            more.extend(["--preemptions", FEW]);
        }
        let ended = explore(built, job, &more, Some(LIMIT))?;
        if let Some(kill) = kill(job, &ended.stderr) {
            return Ok(Some(kill));
        }
        // A model that fails says so. Whatever else ends a process is no kill.
        if let End::Failed(_) = ended.end {
            bail!("{} with {}: {}", job.name(), change[1], ended.stderr.trim());
        }
    }
    Ok(None)
}

/// What a model's process wrote, if it failed: `failure: execution 7: panicked at file:line:column:`, and what the panic says.
fn kill(job: &Job, stderr: &str) -> Option<Kill> {
    let mut told = stderr.lines().filter_map(|line| line.strip_prefix(FAILURE));
    let first = told.next()?;
    let number = first.strip_prefix("execution ");
    Some(Kill {
        model: job.name(),
        execution: number.and_then(|told| told.split(':').next()?.parse().ok()),
        said: told.next().unwrap_or(first).to_owned(),
    })
}
