//! Whose failures are injected: ours, those that others make, and some that are wrong on purpose.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;

use super::medium::Medium;
use super::{ours, wrong};
use crate::journal::peers::{self, Peer};

/// A log or a journal, not open.
pub struct Contestant {
    /// For the command line and the table.
    pub name: &'static str,
    /// That is run.
    pub version: &'static str,
    /// What it is, and how it is used here.
    pub about: &'static str,
    /// What its documentation asks of a caller who is told an error.
    pub after_error: AfterError,
    /// Whether a panic ends the process.
    pub panics_abort: bool,
    /// Who made it.
    pub maker: Maker,
    open: Open,
    /// Opens what is in a folder as after a power cut, and returns what is recovered.
    pub records: fn(&Path) -> Result<Vec<Vec<u8>>>,
}

/// What a caller does who is told an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterError {
    /// It goes on with the next record.
    GoOn,
    /// It lets the others' calls end, opens the log again, and goes on.
    Reopen,
}

/// Who made a contestant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// This project: a row that is not clean fails the run.
    Ours,
    /// Others.
    Others,
    /// This project, wrong on purpose: run by name only.
    WrongOnPurpose,
}

enum Open {
    Ours(ours::Open),
    Plain(fn(&Path) -> Result<Box<dyn Peer>>),
}

impl Contestant {
    /// Opens it, or makes it, in a folder with this medium below.
    ///
    /// # Errors
    /// What it says.
    pub fn open(&self, folder: &Path, medium: &Arc<Medium>) -> Result<Box<dyn Peer>> {
        match self.open {
            Open::Ours(open) => open(folder, medium),
            Open::Plain(open) => open(folder),
        }
    }
}

/// All, in the order of the table; those that are wrong on purpose are last.
pub fn all() -> Vec<Contestant> {
    let mut all: Vec<Contestant> = ours::KINDS.iter().map(of_ours).collect();
    for peer in peers::PEERS {
        all.push(of_others(peer, false));
        if peer.name == "raft-engine" {
            let mut aborts = of_others(peer, true);
            aborts.name = "raft-engine-abort";
            aborts.about = "the same in a process that a panic ends, as in TiKV";
            all.push(aborts);
        }
    }
    all.extend(wrong::KINDS.iter().map(of_wrong));
    all
}

/// That of this name.
pub fn named(name: &str) -> Option<Contestant> {
    all().into_iter().find(|it| it.name == name)
}

fn of_ours(kind: &ours::Kind) -> Contestant {
    Contestant {
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

fn of_others(peer: peers::Kind, panics_abort: bool) -> Contestant {
    Contestant {
        name: peer.name,
        version: peer.version,
        about: peer.about,
        // Of the three, wal-db alone says what to do: "stop appending and reopen the log".
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

fn of_wrong(kind: &wrong::Kind) -> Contestant {
    Contestant {
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
