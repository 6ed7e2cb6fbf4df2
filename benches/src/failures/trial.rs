//! One plan for one contestant: a run in a child, then a check in another child of what a power cut
//! would leave.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use super::child::{ChildLine, DURABLE, FILES, RunSize};
use super::contestants::FailureContestant;
use super::plan::FailurePlan;
use super::record::Id;
use crate::temporary::{Choice, Place};

/// The conditions of each trial.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// The size of each run.
    pub size: RunSize,
    /// How long a child may be silent before it is checked. A child hangs if it is silent twice in
    /// a row and none of its threads ran during the second silence.
    pub patience: Duration,
    /// Whether to show the children's standard error.
    pub loud: bool,
}

/// The outcome of a trial.
#[derive(Clone, Debug, Default)]
pub struct TrialOutcome {
    /// Whether the planned failure happened, that is, the run got that far.
    pub failed: bool,
    /// The acknowledged records.
    pub acknowledged: BTreeSet<Id>,
    /// The acknowledged records that are missing after the power cut.
    pub lost: Vec<Id>,
    /// The number of records that exist but were never appended.
    pub foreign: usize,
    /// Whether the run did not end.
    pub hung: bool,
    /// The messages of panics, or `killed by signal …` if a signal ended the process.
    pub panics: Vec<String>,
    /// The errors that callers received.
    pub told: Vec<String>,
    /// Why the log could not be reopened.
    pub cannot_reopen: Option<String>,
    /// The number of writes and flushes, if the run ended.
    pub counts: Option<(u64, u64)>,
}

impl TrialOutcome {
    /// Returns whether nothing is wrong. A caller that receives an error is not wrong.
    pub fn is_clean(&self) -> bool {
        let is_whole = self.lost.is_empty() && self.foreign == 0;
        is_whole && !self.hung && self.panics.is_empty() && self.cannot_reopen.is_none()
    }
}

/// Returns where the files of a trial lie.
pub fn place() -> Place {
    Place::system(Choice::Tmpdir)
}

/// Runs a contestant under a plan, or without a failure, and checks what is left.
///
/// # Errors
/// The child cannot be run or cannot begin, or the folder for temporary files cannot be used.
pub fn trial(
    contestant: &FailureContestant,
    plan: Option<FailurePlan>,
    conditions: &Conditions,
) -> Result<TrialOutcome> {
    let name = contestant.name;
    let folder = place().folder(&format!("failures-{name}"))?;
    let folder = folder.path();
    let mut outcome = TrialOutcome::default();
    run(contestant, plan, conditions, folder, &mut outcome)?;
    // Names are durable at once, so a file that was never flushed exists and is empty.
    for entry in fs::read_dir(folder.join(FILES))? {
        let durable = folder.join(DURABLE).join(entry?.file_name());
        if !durable.exists() {
            File::create(durable)?;
        }
    }
    look(contestant, conditions, &folder.join(DURABLE), &mut outcome)?;
    Ok(outcome)
}

fn run(
    contestant: &FailureContestant,
    plan: Option<FailurePlan>,
    conditions: &Conditions,
    folder: &Path,
    outcome: &mut TrialOutcome,
) -> Result<()> {
    let RunSize { threads, records } = conditions.size;
    let mut command = command("run", contestant, folder, conditions)?;
    command.args([threads.to_string(), records.to_string()]);
    if let Some(plan) = plan {
        command.arg(plan.to_string());
    }
    let ended = watch(command, conditions.patience, |line| match line {
        ChildLine::Failed => outcome.failed = true,
        ChildLine::Acknowledged(id) => {
            outcome.acknowledged.insert(id);
        }
        ChildLine::Told(error) => outcome.told.push(error),
        ChildLine::Panicked(message) => outcome.panics.push(message),
        ChildLine::NotReopened(error) => {
            outcome.cannot_reopen.get_or_insert(error);
        }
        ChildLine::Ended { writes, flushes } => outcome.counts = Some((writes, flushes)),
        ChildLine::Reopened | ChildLine::Found(_) | ChildLine::Foreign | ChildLine::Read => {}
    })?;
    match ended {
        None => outcome.hung = true,
        Some(status) => {
            if let Some(signal) = status.signal() {
                outcome.panics.push(format!("killed by signal {signal}"));
            } else if outcome.counts.is_none() && outcome.panics.is_empty() {
                let name = contestant.name;
                return Err(anyhow!(
                    "{name} could not be run ({status}): to see why, run it alone with --contestant {name} --plan none"
                ));
            }
        }
    }
    Ok(())
}

fn look(
    contestant: &FailureContestant,
    conditions: &Conditions,
    durable: &Path,
    outcome: &mut TrialOutcome,
) -> Result<()> {
    let command = command("read", contestant, durable, conditions)?;
    let mut found = BTreeSet::new();
    let (mut is_read, mut why) = (false, None);
    let ended = watch(command, conditions.patience, |line| match line {
        ChildLine::Found(id) => {
            found.insert(id);
        }
        ChildLine::Foreign => outcome.foreign += 1,
        ChildLine::Panicked(error) | ChildLine::NotReopened(error) => why = Some(error),
        ChildLine::Read => is_read = true,
        _ => {}
    })?;
    if is_read {
        let lost = outcome.acknowledged.difference(&found);
        outcome.lost = lost.copied().collect();
        return Ok(());
    }
    let why = match (ended, why) {
        (None, _) => "opening the log hangs".to_owned(),
        (Some(_), Some(why)) => why,
        (Some(status), None) => status.to_string(),
    };
    outcome.cannot_reopen.get_or_insert(why);
    Ok(())
}

fn command(
    what: &str,
    contestant: &FailureContestant,
    folder: &Path,
    conditions: &Conditions,
) -> Result<Command> {
    let own = std::env::current_exe().context("finding the path of this program")?;
    let mut command = Command::new(own);
    command
        .args(["failures-child", what, contestant.name])
        .arg(folder);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    if !conditions.loud {
        command.stderr(Stdio::null());
    }
    Ok(command)
}

/// The number of silences in a row after which a child counts as hanging even if it keeps running.
const MAX_SILENCES: u32 = 60;

/// Reads a child's output to its end. Returns `None` if the child hangs and was killed.
///
/// A child hangs if it is silent twice in a row, and none of its threads ran during the second
/// silence or is runnable at its end. So a child that merely waits for CPU time on a busy machine
/// is not killed before [`MAX_SILENCES`].
fn watch(
    mut command: Command,
    patience: Duration,
    mut heard: impl FnMut(ChildLine),
) -> Result<Option<ExitStatus>> {
    let mut child = Reaped(command.spawn().context("starting a child")?);
    let stdout = child
        .0
        .stdout
        .take()
        .context("the child has no standard output")?;
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines() {
            let line = line.map_err(|error| error.to_string());
            if sender.send(line.and_then(|it| it.parse())).is_err() {
                return;
            }
        }
    });
    let (mut silences, mut before) = (0, None);
    loop {
        match lines.recv_timeout(patience) {
            Ok(line) => {
                heard(line.map_err(|error: String| anyhow!(error))?);
                (silences, before) = (0, None);
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                silences += 1;
                let now = switches(child.0.id());
                if silences == MAX_SILENCES || (now.is_some() && now == before) {
                    return Ok(None);
                }
                before = now;
            }
        }
    }
    Ok(Some(child.0.wait()?))
}

/// Returns the number of context switches of a process. `None` if one of its threads is running or
/// runnable.
fn switches(process: u32) -> Option<u64> {
    let mut switches = 0;
    for thread in fs::read_dir(format!("/proc/{process}/task")).ok()? {
        let status = fs::read_to_string(thread.ok()?.path().join("status")).ok()?;
        for line in status.lines() {
            let (field, value) = line.split_once(':')?;
            match field {
                "State" if !value.trim_start().starts_with('S') => return None,
                "voluntary_ctxt_switches" | "nonvoluntary_ctxt_switches" => {
                    switches += value.trim().parse::<u64>().ok()?;
                }
                _ => {}
            }
        }
    }
    Some(switches)
}

/// A child process that is killed on drop.
struct Reaped(Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        // Errors are ignored, because the child may already have ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
