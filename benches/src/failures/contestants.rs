//! The contestants under failure injection: our own, those of other projects, and some that are
//! wrong on purpose.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;

use super::medium::Medium;
use super::{ours, wrong};
use crate::journal::peers::{self, Peer};

/// A log or journal that is not open yet.
pub struct FailureContestant {
    /// The name for the command line and the table.
    pub name: &'static str,
    /// The version that is run.
    pub version: &'static str,
    /// A description of the contestant and of how it is used here.
    pub about: &'static str,
    /// The reaction to an error that its documentation requires of a caller.
    pub after_error: AfterError,
    /// Whether a panic aborts the process.
    pub panics_abort: bool,
    /// The maker of the contestant.
    pub maker: Maker,
    open: Open,
    /// Opens the files in a folder as after a power cut, and returns the recovered records.
    pub records: fn(&Path) -> Result<Vec<Vec<u8>>>,
}

/// The reaction of a caller to an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterError {
    /// It continues with the next record.
    GoOn,
    /// It waits for concurrent calls, reopens the log, and continues.
    Reopen,
}

/// The maker of a contestant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// This project. A row that is not clean fails the run.
    Ours,
    /// Another project.
    Others,
    /// This project, wrong on purpose. It is run only when selected by name.
    WrongOnPurpose,
}

enum Open {
    Ours(ours::Open),
    Plain(fn(&Path) -> Result<Box<dyn Peer>>),
}

impl FailureContestant {
    /// Returns the most bytes that a trial's files take, including the copy of what is durable.
    pub fn room(&self) -> u64 {
        match self.maker {
            // A segment of 16 MiB in okaywal.
            Maker::Others => 40 << 20,
            Maker::Ours | Maker::WrongOnPurpose => 8 << 20,
        }
    }

    /// Opens or creates the contestant in a folder, on top of this medium.
    ///
    /// # Errors
    /// The contestant's own error.
    pub fn open(&self, folder: &Path, medium: &Arc<Medium>) -> Result<Box<dyn Peer>> {
        match self.open {
            Open::Ours(open) => open(folder, medium),
            Open::Plain(open) => open(folder),
        }
    }
}

/// Returns all contestants, in table order. Those that are wrong on purpose come last.
pub fn all() -> Vec<FailureContestant> {
    let mut all: Vec<FailureContestant> = ours::KINDS.iter().map(of_ours).collect();
    for peer in peers::PEERS {
        all.push(of_others(peer, false));
        if peer.name == "raft-engine" {
            let mut aborts = of_others(peer, true);
            aborts.name = "raft-engine-abort";
            aborts.about = "the same in a process that aborts on panic, as TiKV does";
            all.push(aborts);
        }
    }
    all.extend(wrong::KINDS.iter().map(of_wrong));
    all
}

/// Returns the contestant of this name.
pub fn named(name: &str) -> Option<FailureContestant> {
    all().into_iter().find(|it| it.name == name)
}

fn of_ours(kind: &ours::OurKind) -> FailureContestant {
    FailureContestant {
        name: kind.name,
        version: env!("CARGO_PKG_VERSION"),
        about: kind.about,
        after_error: AfterError::Reopen,
        panics_abort: false,
        maker: Maker::Ours,
        open: Open::Ours(kind.open),
        records: kind.records,
    }
}

fn of_others(peer: peers::PeerKind, panics_abort: bool) -> FailureContestant {
    FailureContestant {
        name: peer.name,
        version: peer.version,
        about: peer.about,
        // Of the three, only wal-db says what to do: "stop appending and reopen the log".
        after_error: if peer.name == "wal-db" {
            AfterError::Reopen
        } else {
            AfterError::GoOn
        },
        panics_abort,
        maker: Maker::Others,
        open: Open::Plain(peer.open),
        records: peer.records,
    }
}

fn of_wrong(kind: &wrong::WrongKind) -> FailureContestant {
    FailureContestant {
        name: kind.name,
        version: env!("CARGO_PKG_VERSION"),
        about: kind.about,
        after_error: AfterError::GoOn,
        panics_abort: false,
        maker: Maker::WrongOnPurpose,
        open: Open::Plain(kind.open),
        records: wrong::records,
    }
}
