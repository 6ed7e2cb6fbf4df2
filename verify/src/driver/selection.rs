//! The rows that the arguments ask for.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Result, bail};

use super::args::Args;
use super::circumstances;
use super::models::{Models, Task, tasks};
use super::partition::{self, Partition};
use super::workspace::Workspace;
use crate::plan::{Job, Unrecorded};
use crate::rows::row::Circumstances;

/// The rows to run.
pub(super) struct Selection {
    pub(super) tasks: Vec<Task>,
    /// The place of each among the rows of all partitions, from 1.
    pub(super) numbers: Vec<usize>,
    pub(super) circumstances: Circumstances,
}

/// Returns the rows that the arguments ask for.
///
/// # Errors
/// A filter that no row's name contains.
pub(super) fn select(
    args: &Args,
    workspace: &Workspace,
    models: &[Arc<Models>],
) -> Result<Selection> {
    let unrecorded = match args.accept {
        true => Unrecorded::Whole,
        false => Unrecorded::Bounded,
    };
    let mut all = tasks(models, unrecorded);
    let is_long = |job: &Job| job.long;
    if args.full {
        let long = all.iter().map(|task| &task.job).filter(|job| is_long(job));
        let long: BTreeSet<String> = long.map(Job::name).collect();
        all.retain(|task| task.job.long || !long.contains(&task.job.long_name()));
    } else {
        all.retain(|task| !task.job.long);
    }
    all.retain(|task| !args.quick || task.models.counts.is_quick(&task.job));
    if !args.filter.is_empty() {
        let names: Vec<String> = all.iter().map(|task| task.job.name()).collect();
        check_filters(args, &names)?;
        all.retain(|task| args.filter.iter().any(|it| task.job.name().contains(it)));
    }
    let circumstances = circumstances::now(args, workspace, all.len());
    let part = partition::part(&all, args.partition.unwrap_or(Partition::WHOLE));
    Ok(Selection {
        tasks: part.iter().map(|&i| all[i].clone()).collect(),
        numbers: part.iter().map(|&i| i + 1).collect(),
        circumstances,
    })
}

fn check_filters(args: &Args, names: &[String]) -> Result<()> {
    let among = match (args.quick, args.full) {
        (true, _) => " among the quick ones",
        (_, true) => "",
        _ => " among those that are not for --full alone",
    };
    for filter in &args.filter {
        if !names.iter().any(|name| name.contains(filter)) {
            bail!(
                "no row's name contains `{filter}`{among}\n  names look like \
                 SUITE/PROGRAM/loom/weak; `cargo verify --list` shows them all"
            );
        }
    }
    Ok(())
}
