//! A run in a process of its own, since it may hang or die; and the look at what is left.
//!
//! Each line is one write to a pipe, so it is there as a whole or not at all.

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

/// Where the contestant's files are, in the folder of a run.
pub const FILES: &str = "files";
/// Where what is durable of them is.
pub const DURABLE: &str = "durable";

/// What a child tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// The planned failure happened.
    Failed,
    /// This record is durable, says the contestant.
    Acknowledged(Id),
    /// A caller was told an error.
    Told(String),
    /// A thread panicked.
    Panicked(String),
    /// The log was opened again, as its documentation wants.
    Reopened,
    /// It could not be.
    NotReopened(String),
    /// All went its way: so many writes and flushes.
    Ended {
        /// Of all files.
        writes: u64,
        /// Of all files.
        flushes: u64,
    },
    /// This record is there after a power cut.
    Found(Id),
    /// Something is there that was never appended.
    Foreign,
    /// All that is there has been told.
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
        read.ok_or_else(|| format!("no line of a child: {line:?}"))
    }
}

/// Tells the parent. If it is gone, nobody is there to be told so.
fn tell(line: Line) {
    let mut text = line.to_string().replace('\n', " ");
    text.push('\n');
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

/// What a run is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Threads that append at once.
    pub threads: u32,
    /// Records that each appends.
    pub records: u32,
}

/// What goes on in both kinds of children: they end with their parent, and tell of panics.
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

/// What a panic says, and where: of the path so much that one sees whose file it is.
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
/// It cannot be made, before anything fails; the folder cannot be used.
pub fn run(contestant: Contestant, plan: Option<Plan>, folder: &Path, size: Size) -> Result<()> {
    begin(contestant.panics_abort)?;
    let files = folder.join(FILES);
    std::fs::create_dir_all(&files).context("making the folder of files")?;
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
    // Whoever closes it is a caller, too.
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
    /// Nothing if it could not be opened again.
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
                // Without a log, or after a panic: the thread is gone.
                Ok(false) | Err(_) => return,
            }
        }
    }

    /// Appends a record. False if there is no log any more.
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

    /// Opens the log again, unless another thread has done so since it was opened the `times`th time.
    fn reopen(&self, times: u32) {
        let mut opened = self.log.write();
        if opened.times != times {
            return;
        }
        opened.times += 1;
        opened.log = None;
        // The first flush after a loss tells of it, perhaps to whoever opens the log: so once more.
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

/// Reads what a power cut has left in `folder`. What the contestant says when it cannot be opened there is told as a line.
///
/// # Errors
/// The system's.
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
    fn lines_are_read_as_they_were_written() {
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
