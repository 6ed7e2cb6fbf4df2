//! How a journal is opened.

use std::time::Duration;

use super::place::Place;

/// Who writes a transaction to the log, and how. What comes out is the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommitWay {
    /// The journal's thread prepares all blocks, then writes them one by one, as JBD2 does: the baseline.
    Serial,
    /// The journal's thread prepares all blocks in one piece of memory, and writes what lies together by one call.
    #[default]
    Coalesced,
    /// The journal's thread prepares; those who wait for the commit write what is prepared, in parallel, and the last of them the commit block.
    Cooperative,
}

/// How to open a journal.
#[derive(Clone, Debug)]
#[must_use]
pub struct Options {
    pub(crate) block_bytes: u32,
    pub(crate) place: Place,
    pub(crate) way: CommitWay,
    pub(crate) piggyback: Option<Duration>,
}

impl Options {
    /// A journal with blocks of so many bytes, over a whole storage, with the defaults of the other settings.
    pub fn new(block_bytes: u32) -> Self {
        Options {
            block_bytes,
            place: Place::whole(),
            way: CommitWay::default(),
            piggyback: None,
        }
    }

    /// Where it lies. Default: the whole storage.
    pub fn place(mut self, place: Place) -> Self {
        self.place = place;
        self
    }

    /// Who writes commits. Default: [`CommitWay::Coalesced`].
    pub fn way(mut self, way: CommitWay) -> Self {
        self.way = way;
        self
    }

    /// JBD2's delay before a durable stop, at most so long (Linux: 15 ms), in the hope that other threads join the transaction. `None`, the
    /// default, commits *on the fly*.
    pub fn piggyback(mut self, most: Option<Duration>) -> Self {
        self.piggyback = most;
        self
    }
}
