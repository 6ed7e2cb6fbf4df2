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

/// What a commit waits for before it shuts its transaction, so that more threads come to share it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delay {
    /// Nothing: it commits *on the fly*.
    #[default]
    OnTheFly,
    /// JBD2's *piggyback*, before each durable stop, at most so long (Linux: 15 ms).
    Piggyback(Duration),
    /// Until all who waited for the last commit wait for this one too, and those who wait for it already: at most a quarter of a commit. Without it threads
    /// that commit all the time fall into two halves, which take turns. If they do not come it is tried more and more rarely, once in 64 commits at last.
    Rendezvous,
}

/// How to open a journal.
#[derive(Clone, Debug)]
#[must_use]
pub struct Options {
    pub(crate) block_bytes: u32,
    pub(crate) place: Place,
    pub(crate) way: CommitWay,
    pub(crate) delay: Delay,
}

impl Options {
    /// A journal with blocks of so many bytes, over a whole storage, with the defaults of the other settings.
    pub fn new(block_bytes: u32) -> Self {
        Options {
            block_bytes,
            place: Place::whole(),
            way: CommitWay::default(),
            delay: Delay::default(),
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

    /// What a commit waits for. Default: nothing.
    pub fn delay(mut self, delay: Delay) -> Self {
        self.delay = delay;
        self
    }
}
