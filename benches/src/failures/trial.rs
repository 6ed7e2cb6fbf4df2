//! One plan for one contestant: a run in a child, then a look in another child at what a power cut would leave.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use super::child::{DURABLE, FILES, Line, Size};
use super::contestants::Contestant;
use super::plan::Plan;
use super::record::Id;

/// How trials are done.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// Of each run.
    pub size: Size,
    /// How long a silence of a child is. After two, it hangs if nothing has moved between their ends.
    pub patience: Duration,
    /// Whether what children say on standard error is let through.
    pub loud: bool,
}

/// What came out of a trial.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The planned failure happened: the run came so far.
    pub failed: bool,
    /// Records that were acknowledged.
    pub acknowledged: BTreeSet<Id>,
    /// Those of them that a power cut has taken.
    pub lost: Vec<Id>,
    /// How much is there that nobody appended.
    pub foreign: usize,
    /// The run did not end.
    pub hung: bool,
    /// Messages of panics; `killed by signal …` if the process ended so.
    pub panics: Vec<String>,
    /// Errors that callers were told.
    pub told: Vec<String>,
    /// Why it could not be opened again.
    pub cannot_reopen: Option<String>,
    /// Writes and flushes of a run that ended.
    pub counts: Option<(u64, u64)>,
}

impl Outcome {
    /// Nothing is wrong. (That a caller is told an error is not.)
    pub fn is_clean(&self) -> bool {
        let is_whole = self.lost.is_empty() && self.foreign == 0;
        is_whole && !self.hung && self.panics.is_empty() && self.cannot_reopen.is_none()
    }
}

/// Runs a contestant under a plan, or with no failure, and looks what is left.
///
/// # Errors
/// The child cannot be run, or cannot begin; the folder for temporary files cannot be used.
pub fn trial(
    contestant: &Contestant,
    plan: Option<Plan>,
    conditions: &Conditions,
) -> Result<Outcome> {
    let folder = tempfile::Builder::new().prefix("failures-").tempdir()?;
    let folder = folder.path();
    let mut outcome = Outcome::default();
    run(contestant, plan, conditions, folder, &mut outcome)?;
    // Names are durable at once: so a file of which nothing was flushed is there, and empty.
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
    contestant: &Contestant,
    plan: Option<Plan>,
    conditions: &Conditions,
    folder: &Path,
    outcome: &mut Outcome,
) -> Result<()> {
    let Size { threads, records } = conditions.size;
    let mut command = command("run", contestant, folder, conditions)?;
    command.args([threads.to_string(), records.to_string()]);
    if let Some(plan) = plan {
        command.arg(plan.to_string());
    }
    let ended = watch(command, conditions.patience, |line| match line {
        Line::Failed => outcome.failed = true,
        Line::Acknowledged(id) => {
            outcome.acknowledged.insert(id);
        }
        Line::Told(error) => outcome.told.push(error),
        Line::Panicked(message) => outcome.panics.push(message),
        Line::NotReopened(error) => {
            outcome.cannot_reopen.get_or_insert(error);
        }
        Line::Ended { writes, flushes } => outcome.counts = Some((writes, flushes)),
        Line::Reopened | Line::Found(_) | Line::Foreign | Line::Read => {}
    })?;
    match ended {
        None => outcome.hung = true,
        Some(status) => {
            if let Some(signal) = status.signal() {
                outcome.panics.push(format!("killed by signal {signal}"));
            } else if outcome.counts.is_none() && outcome.panics.is_empty() {
                let name = contestant.name;
                return Err(anyhow!(
                    "{name} could not be run ({status}): run it alone to see why, by --contestant {name} --plan none"
                ));
            }
        }
    }
    Ok(())
}

fn look(
    contestant: &Contestant,
    conditions: &Conditions,
    durable: &Path,
    outcome: &mut Outcome,
) -> Result<()> {
    let command = command("read", contestant, durable, conditions)?;
    let mut found = BTreeSet::new();
    let (mut is_read, mut why) = (false, None);
    let ended = watch(command, conditions.patience, |line| match line {
        Line::Found(id) => {
            found.insert(id);
        }
        Line::Foreign => outcome.foreign += 1,
        Line::Panicked(error) | Line::NotReopened(error) => why = Some(error),
        Line::Read => is_read = true,
        _ => {}
    })?;
    if is_read {
        let lost = outcome.acknowledged.difference(&found);
        outcome.lost = lost.copied().collect();
        return Ok(());
    }
    let why = match (ended, why) {
        (None, _) => "opening it hangs".to_owned(),
        (Some(_), Some(why)) => why,
        (Some(status), None) => status.to_string(),
    };
    outcome.cannot_reopen.get_or_insert(why);
    Ok(())
}

fn command(
    what: &str,
    contestant: &Contestant,
    folder: &Path,
    conditions: &Conditions,
) -> Result<Command> {
    let own = std::env::current_exe().context("looking for this program")?;
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

/// Silences after which a child that runs all the time hangs all the same.
const MOST_SILENCES: u32 = 60;

/// Hears a child out. `None` if it hangs, and was killed: it says nothing, and between the ends of two silences none of its threads has run or wants to. So on a
/// busy machine, where it gets no processor, it is waited for.
fn watch(
    mut command: Command,
    patience: Duration,
    mut heard: impl FnMut(Line),
) -> Result<Option<ExitStatus>> {
    let mut child = Reaped(command.spawn().context("starting a child")?);
    let stdout = child.0.stdout.take().context("a child without a voice")?;
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
                if silences == MOST_SILENCES || (now.is_some() && now == before) {
                    return Ok(None);
                }
                before = now;
            }
        }
    }
    Ok(Some(child.0.wait()?))
}

/// How often the threads of a process have been put to sleep or to work. `None` if one of them runs or would, had it a processor.
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

/// A child that does not outlive this.
struct Reaped(Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        // It may have ended: then there is nothing to do.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
