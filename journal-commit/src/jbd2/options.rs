//! Options of a journal.

use std::time::{Duration, SystemTime};

use super::place::Place;

/// Which threads write a transaction to the log, and how. The format of the log does not depend on
/// this choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommitWay {
    /// The journal's thread prepares all blocks, then writes them one by one, as JBD2 does. This is
    /// the baseline.
    Serial,
    /// The journal's thread prepares all blocks in one buffer, and writes adjacent blocks with one
    /// call.
    #[default]
    Coalesced,
    /// The journal's thread prepares blocks. This thread and the threads that wait for the commit
    /// write the prepared blocks in parallel, each a run of neighbouring blocks of at least
    /// [`Options::run_bytes`]. A smaller transaction is one run. The thread that completes the last
    /// block writes the commit block.
    Cooperative,
}

/// The delay before a commit locks its transaction, which lets more threads share it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Delay {
    /// No delay: transactions are committed *on the fly*.
    #[default]
    OnTheFly,
    /// JBD2's *piggyback*: a durable stop first sleeps for the usual duration of a commit, but at
    /// most this long (Linux: 15 ms). It does not sleep if the same thread also made the last
    /// durable stop.
    Piggyback(Duration),
    /// A wait for the threads that the last commit woke: see [`rendezvous`](crate::rendezvous). The
    /// wait lasts for at most a quarter of a commit, and is made only if such waits have paid off.
    /// Without the wait, threads that commit continuously split into two halves, which take turns.
    Rendezvous,
}

/// The default of [`Options::run_bytes`].
const RUN_BYTES: usize = 512 << 10;

/// How to open a journal.
#[derive(Clone, Debug)]
#[must_use]
pub struct Options {
    pub(crate) block_bytes: u32,
    pub(crate) place: Place,
    pub(crate) way: CommitWay,
    pub(crate) run_bytes: usize,
    pub(crate) delay: Delay,
    /// The clock for commit times. Tests set it back.
    pub(crate) clock: fn() -> SystemTime,
}

impl Options {
    /// Returns the options for a journal that has blocks of `block_bytes` and fills its storage.
    /// All other options have their defaults.
    pub fn new(block_bytes: u32) -> Self {
        Options {
            block_bytes,
            place: Place::whole(),
            way: CommitWay::default(),
            delay: Delay::default(),
            run_bytes: RUN_BYTES,
            clock: SystemTime::now,
        }
    }

    /// Sets where the journal lies. Default: the whole storage.
    pub fn place(mut self, place: Place) -> Self {
        self.place = place;
        self
    }

    /// Sets which threads write commits. Default: [`CommitWay::Coalesced`].
    pub fn way(mut self, way: CommitWay) -> Self {
        self.way = way;
        self
    }

    /// Sets how many bytes a thread of a [cooperative](CommitWay::Cooperative) commit writes
    /// together, at least. It writes at least one block. Default: 512 KiB, which was the best of
    /// 64, 256, 512 and 1024 KiB on a virtual disk with direct writes. A device that performs many
    /// writes at the same time may be faster with less.
    pub fn run_bytes(mut self, bytes: usize) -> Self {
        self.run_bytes = bytes;
        self
    }

    /// Sets the delay before a commit. Default: none.
    pub fn delay(mut self, delay: Delay) -> Self {
        self.delay = delay;
        self
    }
}
