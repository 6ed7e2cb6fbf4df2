//! `cargo verify --replay`: one row, with every step of its last execution.

use std::process::ExitCode;

use anyhow::{Result, bail, ensure};

use super::args::{Change, Common, Scope};
use super::models::{models_of_replay, tasks};
use super::process::{End, explore};
use super::{exit_code, judge, table};
use crate::info::Kind;
use crate::plan::Unrecorded;
use crate::rows::row::{Found, REFUSES};

/// Runs the row of this name, of the test target `target`, and prints its output. Then runs the
/// rows that it is compared with.
pub(super) fn replay(
    name: &str,
    scope: &Scope,
    target: &'static str,
    change: &Change,
) -> Result<ExitCode> {
    let (mut built, models) = models_of_replay(scope, target)?;
    let all = tasks(&models, Unrecorded::Bounded);
    let Some(task) = all.iter().find(|task| task.job.name() == *name) else {
        bail!(
            "there is no row `{name}`: it may come from another version\n  `cargo verify --list` \
             shows the rows of this one, with --full the long ones too"
        );
    };
    let Change { weaken, bug, plain } = change;
    let words = weaken.iter().flat_map(|site| ["--weaken", &**site]);
    let words = words.chain(bug.iter().flat_map(|name| ["--bug", &**name]));
    let words: Vec<&str> = words.collect();
    let is_promela = matches!(task.job.program.kind, Kind::Promela { .. });
    ensure!(
        weaken.is_none() || !is_promela,
        "{name}: a Promela model has no orderings to weaken"
    );
    let tasks = [vec![task.clone()], judge::beside(task, &all)].concat();
    built.add(tasks.iter().map(|task| task.job.mode.checker()))?;
    println!("{name}: {}", task.job.program.claim);
    let mut ran = Vec::new();
    for task in tasks {
        let mut more = words.clone();
        more.extend(ran.is_empty().then_some("--trace"));
        more.extend(plain.then_some("--plain"));
        let ended = explore(&built, &task, &more, None)?;
        ran.push((task, ended));
    }
    let ended = &ran[0].1;
    // The binary says itself which arguments it does not take.
    if let End::Failed(status) = &ended.end
        && status.code() == Some(REFUSES)
    {
        bail!("{}", ended.stderr.trim_end());
    }
    print!("{}", ended.stderr);
    if let Some(found) = ended.found().filter(|_| !is_promela) {
        check_reached(name, found, change)?;
    }
    let run = built.workspace.circumstances(&Common::default(), &[]);
    let mut rows = judge::judge(&ran, &built, &run);
    for row in &mut rows {
        row.replay = [&[&*row.replay], &words[..]].concat().join(" ");
    }
    println!("{}", table::rows(&rows));
    print!("{}", table::failures(&rows));
    Ok(exit_code(rows.iter().all(|row| row.verdict.passes())))
}

/// Checks that some execution reaches the change: otherwise the replay shows nothing.
fn check_reached(name: &str, found: &Found, change: &Change) -> Result<()> {
    let weaken = (change.weaken.as_ref()).map(|site| (format!("--weaken {site}"), found.weakened));
    let bug = (change.bug.as_ref()).map(|bug| (format!("--bug {bug}"), found.bug_fired));
    for (change, reached) in weaken.into_iter().chain(bug) {
        if reached == 0 {
            bail!(
                "{change}: no execution of {name} reaches it: it may be of other sources\n  `cargo \
                 verify mutants --sites` and `cargo verify bugs --list` show those of these"
            );
        }
    }
    Ok(())
}
