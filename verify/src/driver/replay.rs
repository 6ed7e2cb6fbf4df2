//! `cargo verify --replay`: one row, with every step of its last execution.

use std::process::ExitCode;

use anyhow::{Result, bail};

use super::args::{Change, Scope};
use super::build::Built;
use super::models::{Task, describe, tasks};
use super::process::{End, Ended, explore};
use super::workspace::Workspace;
use super::{circumstances, exit_code, judge, table};
use crate::info::Kind;
use crate::plan::Unrecorded;
use crate::rows::row::{Found, REFUSES};

/// A row to replay.
pub(super) struct Replay<'a> {
    /// Its name.
    pub(super) name: &'a str,
    /// The packages among which it is.
    pub(super) scope: &'a Scope,
    /// The test target that it is in.
    pub(super) target: &'static str,
    /// What is changed in the code under test.
    pub(super) change: &'a Change,
}

/// Runs one row in the foreground and prints what it prints; then the rows that it is compared
/// with.
///
/// # Errors
/// There is no such row, or nothing reaches the change.
pub(super) fn replay(asked: &Replay) -> Result<ExitCode> {
    let name = asked.name;
    let mut built = Built::none_of(Workspace::find(asked.scope)?, asked.target)?;
    let models = describe(&mut built)?;
    let all = tasks(&models, Unrecorded::Bounded);
    let Some(task) = all.iter().find(|task| task.job.name() == *name) else {
        bail!(
            "there is no row `{name}`: it may come from another version\n  `cargo verify --list` \
             shows the rows of this one, with --full the long ones too"
        );
    };
    let change = change_of(asked.change);
    if asked.change.weaken.is_some() && matches!(task.job.program.kind, Kind::Promela(_)) {
        bail!("{name}: a Promela model has no orderings to weaken");
    }
    let tasks = [vec![task.clone()], judge::beside(task, &all)].concat();
    built.add(tasks.iter().map(|task| task.job.mode.checker()))?;
    println!("{name}: {}", task.job.program.claim);
    let mut ran = Vec::new();
    for (i, task) in tasks.iter().enumerate() {
        let mut more = change.clone();
        more.extend((i == 0).then_some("--trace"));
        more.extend(asked.change.plain.then_some("--plain"));
        let ended = explore(&built, task, &more, None)?;
        ran.push((task.clone(), ended));
    }
    let ended = &ran[0].1;
    // The binary says itself which arguments it does not take.
    if let End::Failed(status) = &ended.end
        && status.code() == Some(REFUSES)
    {
        bail!("{}", ended.stderr.trim_end());
    }
    print!("{}", ended.stderr);
    check_reached(task, ended, &change)?;
    conclude(&ran, &built, &change)
}

fn change_of(change: &Change) -> Vec<&str> {
    let mut words = Vec::new();
    if let Some(weaken) = &change.weaken {
        words.extend(["--weaken", weaken]);
    }
    if let Some(bug) = &change.bug {
        words.extend(["--bug", bug]);
    }
    words
}

/// A change that no execution reaches would show nothing.
fn check_reached(task: &Task, ended: &Ended, change: &[&str]) -> Result<()> {
    let Some(found) = ended.found() else {
        return Ok(());
    };
    if matches!(task.job.program.kind, Kind::Promela(_)) {
        return Ok(());
    }
    for change in change.chunks(2) {
        let is_reached = |found: &Found| match change[0] {
            "--weaken" => found.weakened > 0,
            _ => found.bug_fired > 0,
        };
        if !is_reached(found) {
            bail!(
                "{}: no execution of {} reaches it: it may be of other sources\n  `cargo verify \
                 mutants --sites` and `cargo verify bugs --list` show those of these",
                change.join(" "),
                task.job.name()
            );
        }
    }
    Ok(())
}

fn conclude(ran: &[(Task, Ended)], built: &Built, change: &[&str]) -> Result<ExitCode> {
    let numbers: Vec<usize> = (1..=ran.len()).collect();
    let scope = Scope::default();
    let circumstances = circumstances::of_filter(&[], &scope, &built.workspace);
    let mut rows = judge::judge(ran, &numbers, built, &circumstances);
    for row in &mut rows {
        row.replay = [&[&*row.replay], change].concat().join(" ");
    }
    println!("{}", table::rows(&rows));
    print!("{}", table::failures(&rows));
    Ok(exit_code(rows.iter().all(|row| row.verdict.passes())))
}
