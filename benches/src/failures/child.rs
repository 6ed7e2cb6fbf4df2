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

use super::contestants::{AfterError, Contestant};
use super::medium::Medium;
use super::plan::Plan;
use super::record::Id;
use crate::journal::calls;
use crate::journal::peers::Peer;

/// Subfolder of the contestant's files in the folder of a run.
pub const FILES: &str = "files";
/// Subfolder of the durable content of these files.
pub const DURABLE: &str = "durable";

/// A line of output from a child.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
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

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Line::Failed => write!(f, "failed"),
            Line::Acknowledged(id) => write!(f, "acknowledged {} {}", id.thread, id.nth),
            Line::Told(error) => write!(f, "told {error}"),
            Line::Panicked(message) => write!(f, "panicked {message}"),
            Line::Reopened => write!(f, "reopened"),
            Line::NotReopened(error) => write!(f, "not-reopened {error}"),
            Line::Ended { writes, flushes } => write!(f, "ended {writes} {flushes}"),
            Line::Found(id) => write!(f, "found {} {}", id.thread, id.nth),
            Line::Foreign => write!(f, "foreign"),
            Line::Read => write!(f, "read"),
        }
    }
}

impl FromStr for Line {
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
            "failed" => Some(Line::Failed),
            "acknowledged" => id().map(Line::Acknowledged),
            "told" => Some(Line::Told(text())),
            "panicked" => Some(Line::Panicked(text())),
            "reopened" => Some(Line::Reopened),
            "not-reopened" => Some(Line::NotReopened(text())),
            "ended" => two().map(|(writes, flushes)| Line::Ended {
                writes: writes.into(),
                flushes: flushes.into(),
            }),
            "found" => id().map(Line::Found),
            "foreign" => Some(Line::Foreign),
            "read" => Some(Line::Read),
            _ => None,
        };
        read.ok_or_else(|| format!("not a line of a child: {line:?}"))
    }
}

/// Sends a line to the parent. Errors are ignored, because they mean that the parent is gone.
fn tell(line: Line) {
    let mut text = line.to_string().replace('\n', " ");
    text.push('\n');
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

/// The size of a run.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The number of threads that append concurrently.
    pub threads: u32,
    /// The number of records that each thread appends.
    pub records: u32,
}

/// Prepares a child of either kind: it ends with its parent and reports panics.
fn begin(panics_abort: bool) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    std::panic::set_hook(Box::new(move |panic| {
        eprintln!("{panic}");
        tell(Line::Panicked(message(panic)));
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
pub fn run(contestant: Contestant, plan: Option<Plan>, folder: &Path, size: Size) -> Result<()> {
    begin(contestant.panics_abort)?;
    let files = folder.join(FILES);
    std::fs::create_dir_all(&files).context("creating the folder of files")?;
    let medium = Medium::new(&files, &folder.join(DURABLE), || tell(Line::Failed))?;
    let medium = Arc::new(medium);
    let _watch = calls::watch(&files, medium.clone())?;
    let log = contestant.open(&files, &medium)?;
    medium.arm(plan)?;
    let run = Run {
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
            tell(Line::Told(format!("{error:#}")));
        }
    }
    let (writes, flushes) = medium.counts();
    tell(Line::Ended { writes, flushes });
    Ok(())
}

struct Run<'a> {
    contestant: Contestant,
    files: &'a Path,
    medium: &'a Arc<Medium>,
    log: RwLock<Opened>,
}

struct Opened {
    /// `None` if it could not be reopened.
    log: Option<Box<dyn Peer>>,
    times: u32,
}

impl Run<'_> {
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
            tell(Line::Acknowledged(id));
            return true;
        };
        let times = opened.times;
        drop(opened);
        tell(Line::Told(format!("{error:#}")));
        if self.contestant.after_error == AfterError::Reopen {
            self.reopen(times);
        }
        true
    }

    /// Reopens the log, unless another thread has done so since it was opened the `times`th time.
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
                    return tell(Line::Reopened);
                }
                Err(error) if is_last => tell(Line::NotReopened(format!("{error:#}"))),
                Err(error) => tell(Line::Told(format!("{error:#}"))),
            }
        }
    }
}

/// Reads what a power cut has left in `folder`. If the contestant cannot be opened there, its error
/// is reported as a line.
///
/// # Errors
/// The error of the operating system.
pub fn read(contestant: &Contestant, folder: &Path) -> Result<()> {
    begin(contestant.panics_abort)?;
    match (contestant.records)(folder) {
        Ok(records) => {
            for record in records {
                tell(Id::of(&record).map_or(Line::Foreign, Line::Found));
            }
            tell(Line::Read);
        }
        Err(error) => tell(Line::NotReopened(format!("{error:#}"))),
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
        let ended = Line::Ended {
            writes: 5,
            flushes: 6,
        };
        for line in [
            Line::Failed,
            Line::Acknowledged(id),
            Line::Told(text()),
            Line::Panicked(text()),
            Line::Reopened,
            Line::NotReopened(text()),
            ended,
            Line::Found(id),
            Line::Foreign,
            Line::Read,
        ] {
            assert_eq!(line.to_string().parse(), Ok(line));
        }
        assert!("acknowledged 1".parse::<Line>().is_err() && "".parse::<Line>().is_err());
    }
}
