//! The state of a journal that its threads share.
//!
//! ```text
//!   begin ──► handles ──► running ──LOCKED──► committing ──► checkpoint queue ──► home
//!                                               │  log: descriptors, data, commit block  │
//!                                               ▼                                        ▼
//!   superblock │ tail ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓ head │       free        │       tail moves on
//! ```
//!
//! # Invariants
//! - **J1** At most one transaction is running and at most one is committing. Ids have no gaps, and
//!   transactions lie in the log in the order of their ids.
//! - **J2** A new transaction begins only while the log has room for the largest one, so no commit
//!   ever finds the log full.
//! - **J3** `committed` advances only after the whole transaction is durable and the medium has
//!   [settled](super::raw::medium) without a failure.
//! - **J4** The log between tail and head holds every committed transaction with a block that is
//!   not yet durable at home.
//! - **J5** The superblock on the medium names that tail or an older tail. Blocks before a tail are
//!   overwritten only after the superblock that names this tail is on the medium.
//! - **J6** A failure wakes every sleeper, and each sleeper finds the failure when it checks again.
//!
//! Lock order: `checkpointing`, then `state`, then any other mutex. No thread holds two of these
//! other mutexes.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use spanlock_sync::Mutex;

use super::buffers::Buffers;
use super::committing::Committing;
use super::error::{Error, Failure, failed};
use super::ext4::FileSystem;
use super::format::{Format, Tid};
use super::log::Log;
use super::options::Options;
use super::place::Blocks;
use super::raw::gathering::Gathering;
use super::raw::medium::Operations;
use super::raw::signal::Signal;
use super::recover::Recovery;
use super::superblock::Superblock;
use super::transaction::{Committed, Transaction};
use crate::storage::Storage;

/// The state that all threads share.
pub(crate) struct Inner {
    pub(crate) options: Options,
    pub(crate) blocks: Blocks,
    pub(crate) home: Arc<dyn Storage>,
    pub(crate) file_system: Option<FileSystem>,
    pub(crate) format: Format,
    pub(crate) uuid: [u8; 16],
    pub(crate) log: Log,
    pub(crate) state: Mutex<State>,
    pub(crate) buffers: Buffers,
    pub(crate) medium: Operations<Failure>,
    /// Counts the threads that wait for commits. Changed under the mutex of `state`.
    pub(crate) gathering: Gathering,
    /// The commit that waiting threads can help with.
    pub(crate) helpable: Mutex<Option<Arc<Committing>>>,
    /// Held by a checkpoint, and by a commit that takes revoked blocks out of older transactions.
    pub(crate) checkpointing: Mutex<Superblock>,
    /// The journal's thread sleeps here until there is work.
    pub(crate) work: Arc<Signal>,
    /// Threads sleep here if the running transaction is locked or full, until the next transaction
    /// can begin.
    pub(crate) joins: Arc<Signal>,
    /// Threads that wait for a commit sleep here.
    pub(crate) done: Arc<Signal>,
    /// The journal's thread sleeps here while other threads finish the commit.
    pub(crate) sealed: Arc<Signal>,
}

/// The state that the mutex protects.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) running: Option<Arc<Transaction>>,
    pub(crate) committing: Option<Tid>,
    /// The id of the next transaction to begin.
    pub(crate) next: Tid,
    /// The last durable transaction.
    pub(crate) committed: Tid,
    /// The last transaction whose commit was requested.
    pub(crate) wanted: Tid,
    /// The block of the log where the next transaction starts.
    pub(crate) head: u32,
    /// The number of blocks of the log that may be overwritten.
    pub(crate) free: u32,
    /// Committed transactions with blocks that may not be at home yet, oldest first.
    pub(crate) queue: VecDeque<Arc<Committed>>,
    /// The moving average of a commit's duration. As in JBD2, the newest commit has the weight 1/4.
    pub(crate) commit_takes: Duration,
    /// The time in the last commit block. Recovery takes a block with an earlier time than the
    /// block before it for a leftover, so times must not decrease when the clock is set back.
    pub(crate) commit_time: SystemTime,
    /// The thread that last stopped durably.
    pub(crate) last_durable: Option<usize>,
    pub(crate) stats: Stats,
    pub(crate) stopping: bool,
}

/// Counters of a journal since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// The number of transactions committed.
    pub commits: u64,
    /// The number of handles begun.
    pub handles: u64,
    /// The number of blocks written to the log.
    pub blocks: u64,
    /// The number of flushes and durable writes for commits.
    pub flushes: u64,
    /// The number of buffers that waiting threads wrote, plus the number of commits that they
    /// finished.
    pub helped: u64,
    /// The number of checkpoints.
    pub checkpoints: u64,
    /// The total time that commits waited for handles to leave (the thesis's "start-up delay").
    pub draining: Duration,
    /// The total time of commits after the handles had left.
    pub committing: Duration,
}

impl Inner {
    pub(crate) fn new(
        options: Options,
        blocks: Blocks,
        home: Arc<dyn Storage>,
        file_system: Option<FileSystem>,
        superblock: Superblock,
        recovery: &Recovery,
    ) -> Self {
        let log = Log::new(&superblock);
        let signal = || Arc::new(Signal::new());
        let (work, joins, done, sealed) = (signal(), signal(), signal(), signal());
        let if_dropped = Failure {
            doing: "a thread panicked in the storage",
            source: None,
        };
        let alarm = [&work, &joins, &done, &sealed].map(Arc::clone).to_vec();
        Inner {
            options,
            blocks,
            home,
            file_system,
            format: superblock.format(),
            uuid: superblock.uuid(),
            log,
            state: Mutex::new(State {
                running: None,
                committing: None,
                next: recovery.next,
                committed: recovery.next.previous(),
                wanted: recovery.next.previous(),
                head: log.first,
                free: log.len(),
                queue: VecDeque::new(),
                commit_takes: Duration::ZERO,
                commit_time: SystemTime::UNIX_EPOCH,
                last_durable: None,
                stats: Stats::default(),
                stopping: false,
            }),
            buffers: Buffers::new(),
            medium: Operations::new(if_dropped, alarm),
            gathering: Gathering::new(work.clone()),
            helpable: Mutex::new(None),
            checkpointing: Mutex::new(superblock),
            work,
            joins,
            done,
            sealed,
        }
    }

    pub(crate) fn check_block(&self, block: u64) -> Result<(), Error> {
        let blocks = self.home.len() / self.format.block_bytes as u64;
        if block >= blocks {
            return Err(Error::OutOfDevice { block, blocks });
        }
        if !self.format.wide && block > u64::from(u32::MAX) {
            return Err(Error::TooFar { block });
        }
        Ok(())
    }

    /// Checks that a block can be read into a buffer of `found` bytes.
    pub(crate) fn check_read(&self, block: u64, found: usize) -> Result<(), Error> {
        self.check_block(block)?;
        let expected = self.format.block_bytes;
        if found != expected {
            return Err(Error::BufferSize { found, expected });
        }
        Ok(())
    }

    /// Reads the newest content that a handle has put into a transaction.
    pub(crate) fn read(&self, block: u64, into: &mut [u8]) -> Result<(), Error> {
        loop {
            let (newest, version) = self.buffers.newest(block);
            if let Some(content) = newest {
                into.copy_from_slice(&content);
                return Ok(());
            }
            into.copy_from_slice(&self.read_home(block)?);
            // The block may have been changed and written home while this thread read it.
            if self.buffers.newest(block).1 == version {
                return Ok(());
            }
        }
    }

    pub(crate) fn read_home(&self, block: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; self.format.block_bytes];
        let at = block * self.format.block_bytes as u64;
        (self.home.read_at(&mut bytes, at)).map_err(Error::io("reading a block"))?;
        Ok(bytes)
    }

    /// Performs one operation on the medium. No operation begins after a failure. A failure is
    /// recorded before the failed operation counts as ended (P1, P2).
    pub(crate) fn on_medium(
        &self,
        doing: &'static str,
        operation: impl FnOnce() -> io::Result<()>,
    ) -> Result<(), Failure> {
        self.medium.perform(|| failed(doing, operation()))
    }

    pub(crate) fn commit(&self, tid: Tid) -> Result<(), Error> {
        let state = self.state.lock();
        let next = state.next;
        if !tid.is_before(next) {
            return Err(Error::NoSuchTransaction { tid, next });
        }
        drop(state);
        self.want(tid);
        Ok(())
    }

    /// Tells the journal's thread to commit a transaction.
    pub(crate) fn want(&self, tid: Tid) {
        let mut state = self.state.lock();
        if state.wanted.is_before(tid) {
            state.wanted = tid;
            drop(state);
            self.work.wake_all();
        }
    }

    pub(crate) fn wait(&self, tid: Tid) -> Result<(), Error> {
        self.commit(tid)?;
        self.arrive(tid);
        let mut helped = None;
        loop {
            let found = self.done.wait_until(|| {
                if let Some(outcome) = self.outcome(tid) {
                    return Some(Err(outcome));
                }
                let committing = self.helpable.lock().clone()?;
                let is_new = helped != Some(committing.tid) && committing.submission.is_open();
                is_new.then_some(Ok(committing))
            });
            match found {
                Err(outcome) => return outcome,
                Ok(committing) => {
                    helped = Some(committing.tid);
                    self.help(&committing);
                }
            }
        }
    }

    /// Counts this thread, which is about to sleep until a transaction is committed.
    fn arrive(&self, tid: Tid) {
        let state = self.state.lock();
        let is_running = state.running.as_ref().is_some_and(|it| it.tid == tid);
        let is_last = is_running && self.gathering.arrive();
        drop(state);
        if is_last {
            self.gathering.call();
        }
    }

    /// Returns the outcome of a transaction's commit, if it is known.
    fn outcome(&self, tid: Tid) -> Option<Result<(), Error>> {
        // J3: a committed transaction stays committed, even if something failed since.
        if !self.state.lock().committed.is_before(tid) {
            return Some(Ok(()));
        }
        self.medium.check().err().map(|failure| Err(failure.into()))
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal")
            .field("format", &self.format)
            .field("log", &self.log)
            .field("stats", &self.state.lock().stats)
            .finish_non_exhaustive()
    }
}
