//! A run in a separate process, because it may hang or die, and the check of what is left.
//!
//! Each line of output is a single write to a pipe, so it arrives whole or not at all.

use std::fmt;
use std::io::Write;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context, Result};
use parking_lot::RwLock;
use rustix::process::{Signal, set_parent_process_death_signal};

use super::contestants::{AfterError, FailureContestant};
use super::medium::Medium;
use super::plan::FailurePlan;
use super::record::Id;
use crate::journal::calls;
use crate::journal::peers::Peer;

/// Subfolder of the contestant's files in the folder of a run.
pub const FILES: &str = "files";
/// Subfolder of the durable content of these files.
pub const DURABLE: &str = "durable";

/// A line of output from a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChildLine {
    /// The planned failure happened.
    Failed,
    /// The contestant reported this record as durable.
    Acknowledged(Id),
    /// A caller received an error.
    Told(String),
    /// A thread panicked.
    Panicked(String),
    /// The log was reopened, as its documentation requires after an error.
    Reopened,
    /// Reopening failed.
    NotReopened(String),
    /// The run ended normally, after this many writes and flushes.
    Ended {
        /// Writes to all files.
        writes: u64,
        /// Flushes of all files.
        flushes: u64,
    },
    /// This record exists after a power cut.
    Found(Id),
    /// The log contains a record that was never appended.
    Foreign,
    /// Everything that exists has been reported.
    Read,
}

impl fmt::Display for ChildLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChildLine::Failed => write!(f, "failed"),
            ChildLine::Acknowledged(id) => write!(f, "acknowledged {} {}", id.thread, id.nth),
            ChildLine::Told(error) => write!(f, "told {error}"),
            ChildLine::Panicked(message) => write!(f, "panicked {message}"),
            ChildLine::Reopened => write!(f, "reopened"),
            ChildLine::NotReopened(error) => write!(f, "not-reopened {error}"),
            ChildLine::Ended { writes, flushes } => write!(f, "ended {writes} {flushes}"),
            ChildLine::Found(id) => write!(f, "found {} {}", id.thread, id.nth),
            ChildLine::Foreign => write!(f, "foreign"),
            ChildLine::Read => write!(f, "read"),
        }
    }
}

impl FromStr for ChildLine {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let two = || {
            let (one, other) = rest.split_once(' ')?;
            Some((one.parse::<u32>().ok()?, other.parse::<u32>().ok()?))
        };
        let id = || two().map(|(thread, nth)| Id { thread, nth });
        let text = || rest.to_owned();
        let read = match word {
            "failed" => Some(ChildLine::Failed),
            "acknowledged" => id().map(ChildLine::Acknowledged),
            "told" => Some(ChildLine::Told(text())),
            "panicked" => Some(ChildLine::Panicked(text())),
            "reopened" => Some(ChildLine::Reopened),
            "not-reopened" => Some(ChildLine::NotReopened(text())),
            "ended" => two().map(|(writes, flushes)| ChildLine::Ended {
                writes: writes.into(),
                flushes: flushes.into(),
            }),
            "found" => id().map(ChildLine::Found),
            "foreign" => Some(ChildLine::Foreign),
            "read" => Some(ChildLine::Read),
            _ => None,
        };
        read.ok_or_else(|| format!("not a line of a child: {line:?}"))
    }
}

/// Sends a line to the parent. Errors are ignored, because they mean that the parent is gone.
fn tell(line: ChildLine) {
    let mut text = line.to_string().replace('\n', " ");
    text.push('\n');
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

/// The size of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunSize {
    /// The number of threads that append concurrently.
    pub threads: u32,
    /// The number of records that each thread appends.
    pub records: u32,
}

/// Prepares a child of either kind: it ends with its parent and reports panics.
fn begin(panics_abort: bool) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    std::panic::set_hook(Box::new(move |panic| {
        // If nobody reads it, this must not become another panic.
        let _ = writeln!(std::io::stderr(), "{panic}");
        tell(ChildLine::Panicked(message(panic)));
        if panics_abort {
            std::process::abort();
        }
    }));
    Ok(())
}

/// Returns the message and location of a panic, with the path shortened to what identifies the
/// file.
fn message(panic: &PanicHookInfo<'_>) -> String {
    let text = panic.payload_as_str().unwrap_or("no message");
    let Some(place) = panic.location() else {
        return text.to_owned();
    };
    let parts = Vec::from_iter(place.file().split('/'));
    let short = parts[parts.len().saturating_sub(4)..].join("/");
    format!("{text} ({short}:{})", place.line())
}

/// Runs a contestant in `folder` under a plan.
///
/// # Errors
/// The contestant cannot be created, or the folder cannot be used.
pub fn run(
    contestant: FailureContestant,
    plan: Option<FailurePlan>,
    folder: &Path,
    size: RunSize,
) -> Result<()> {
    begin(contestant.panics_abort)?;
    let files = folder.join(FILES);
    std::fs::create_dir_all(&files).context("creating the folder of files")?;
    let medium = Medium::new(&files, &folder.join(DURABLE), || tell(ChildLine::Failed))?;
    let medium = Arc::new(medium);
    let _watch = calls::watch(&files, medium.clone())?;
    let log = contestant.open(&files, &medium)?;
    medium.arm(plan)?;
    let run = ChildRun {
        contestant,
        files: &files,
        medium: &medium,
        log: RwLock::new(Opened {
            log: Some(log),
            times: 1,
        }),
    };
    std::thread::scope(|scope| {
        for thread in 0..size.threads {
            let run = &run;
            scope.spawn(move || run.thread(thread, size.records));
        }
    });
    // Closing counts as a caller too: its errors and panics are reported.
    if let Some(log) = run.log.into_inner().log {
        let closed = catch_unwind(AssertUnwindSafe(|| log.close()));
        if let Ok(Err(error)) = closed {
            tell(ChildLine::Told(format!("{error:#}")));
        }
    }
    let (writes, flushes) = medium.counts();
    tell(ChildLine::Ended { writes, flushes });
    Ok(())
}

struct ChildRun<'a> {
    contestant: FailureContestant,
    files: &'a Path,
    medium: &'a Arc<Medium>,
    log: RwLock<Opened>,
}

struct Opened {
    /// `None` if it could not be reopened.
    log: Option<Box<dyn Peer>>,
    times: u32,
}

impl ChildRun<'_> {
    fn thread(&self, thread: u32, records: u32) {
        for nth in 0..records {
            let id = Id { thread, nth };
            let appended = catch_unwind(AssertUnwindSafe(|| self.append(id)));
            match appended {
                Ok(true) => {}
                // There is no log any more, or the thread panicked.
                Ok(false) | Err(_) => return,
            }
        }
    }

    /// Appends a record. Returns false if there is no log any more.
    fn append(&self, id: Id) -> bool {
        let opened = self.log.read();
        let Some(log) = &opened.log else {
            return false;
        };
        let Err(error) = log.append_durable(&id.record()) else {
            tell(ChildLine::Acknowledged(id));
            return true;
        };
        let times = opened.times;
        drop(opened);
        tell(ChildLine::Told(format!("{error:#}")));
        if self.contestant.after_error == AfterError::Reopen {
            self.reopen(times);
        }
        true
    }

    /// Reopens the log, unless another thread has already done so. `times` is the number of times
    /// that the log had been opened when the error occurred.
    fn reopen(&self, times: u32) {
        let mut opened = self.log.write();
        if opened.times != times {
            return;
        }
        opened.times += 1;
        opened.log = None;
        // The first flush after a loss reports it, possibly while the log is being opened, so try
        // twice.
        for is_last in [false, true] {
            match self.contestant.open(self.files, self.medium) {
                Ok(log) => {
                    opened.log = Some(log);
                    return tell(ChildLine::Reopened);
                }
                Err(error) if is_last => tell(ChildLine::NotReopened(format!("{error:#}"))),
                Err(error) => tell(ChildLine::Told(format!("{error:#}"))),
            }
        }
    }
}

/// Reads what a power cut has left in `folder`. If the contestant cannot be opened there, its error
/// is reported as a line.
///
/// # Errors
/// The error of the operating system.
pub fn read(contestant: &FailureContestant, folder: &Path) -> Result<()> {
    begin(contestant.panics_abort)?;
    match (contestant.records)(folder) {
        Ok(records) => {
            for record in records {
                tell(Id::of(&record).map_or(ChildLine::Foreign, ChildLine::Found));
            }
            tell(ChildLine::Read);
        }
        Err(error) => tell(ChildLine::NotReopened(format!("{error:#}"))),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_displayed_line_parses_to_itself() {
        let id = Id { thread: 3, nth: 4 };
        let text = || "a message".to_owned();
        let ended = ChildLine::Ended {
            writes: 5,
            flushes: 6,
        };
        for line in [
            ChildLine::Failed,
            ChildLine::Acknowledged(id),
            ChildLine::Told(text()),
            ChildLine::Panicked(text()),
            ChildLine::Reopened,
            ChildLine::NotReopened(text()),
            ended,
            ChildLine::Found(id),
            ChildLine::Foreign,
            ChildLine::Read,
        ] {
            assert_eq!(line.to_string().parse(), Ok(line));
        }
        assert!("acknowledged 1".parse::<ChildLine>().is_err() && "".parse::<ChildLine>().is_err());
    }
}
