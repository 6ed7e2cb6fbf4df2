//! The journal: the state that threads share, and the public API.
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
//! - **J5** The superblock on the medium names that tail or an older one. Blocks before the tail
//!   are overwritten only after the new tail is on the medium.
//! - **J6** A failure wakes every sleeper, and each one finds it.
//!
//! Lock order: `checkpointing`, then `state`, then the small ones. No thread holds two of the small
//! ones.

use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use spanlock_sync::{Mutex, thread};

use super::buffers::{Buffers, Content};
use super::checkpoint::Committed;
use super::committing::Committing;
use super::error::{Error, Failure};
use super::format::{Format, Tid};
use super::handle::Handle;
use super::log::Log;
use super::options::Options;
use super::place::Blocks;
use super::raw::gathering::Gathering;
use super::raw::medium::Medium;
use super::raw::signal::Signal;
use super::raw::updates::Refused;
use super::recover::{Recovery, replay};
use super::superblock::{Superblock, check_block_bytes};
use super::transaction::Transaction;
use crate::storage::Storage;

/// A journal of block-level transactions, in JBD2's format.
///
/// Dropping it stops its thread and writes nothing more. Committed transactions are in the log, and
/// are recovered when the journal is opened again; uncommitted ones are lost.
/// [`close`](Journal::close) leaves nothing to recover.
///
/// ```
/// use std::sync::Arc;
/// use spanlock_journal_commit::jbd2::{format, FormatOptions, Journal, Options};
/// use spanlock_journal_commit::testing::Recorded;
///
/// let log = Arc::new(Recorded::new(1 << 20));
/// let home = Arc::new(Recorded::new(1 << 20));
/// format(log.clone(), &FormatOptions::new(4096))?;
/// let journal = Journal::open(log.clone(), home.clone(), Options::new(4096))?;
///
/// let mut handle = journal.begin(2)?;
/// for number in [3, 5] {
///     let mut block = handle.get_write(number)?;
///     block[0] = 7;
///     block.dirty()?;
/// }
/// // Until this returns, a crash leaves both changes or neither; afterwards, both.
/// handle.stop_durable()?;
/// drop(journal);
///
/// let journal = Journal::open(log, home, Options::new(4096))?;
/// assert_eq!(journal.recovery().transactions, 1);
/// let mut block = vec![0; 4096];
/// journal.read(3, &mut block)?;
/// assert_eq!(block[0], 7);
/// journal.close()?;
/// # Ok::<(), spanlock_journal_commit::jbd2::Error>(())
/// ```
pub struct Journal {
    inner: Arc<Inner>,
    /// `None` once the thread has been told to stop.
    thread: Option<thread::JoinHandle<()>>,
    recovery: Recovery,
}

/// The state that all threads share.
pub(crate) struct Inner {
    pub(crate) options: Options,
    pub(crate) blocks: Blocks,
    pub(crate) home: Arc<dyn Storage>,
    pub(crate) format: Format,
    pub(crate) uuid: [u8; 16],
    pub(crate) log: Log,
    pub(crate) state: Mutex<State>,
    pub(crate) buffers: Buffers,
    pub(crate) medium: Medium<Failure>,
    /// Counts the threads that wait for each transaction. Changed under the mutex of `state`.
    pub(crate) gathering: Gathering,
    /// The commit that waiting threads can help with.
    pub(crate) helpable: Mutex<Option<Arc<Committing>>>,
    /// Held by a checkpoint, and by a commit that takes revoked blocks out of older transactions.
    pub(crate) checkpointing: Mutex<Superblock>,
    /// The journal's thread sleeps here until there is work.
    pub(crate) work: Arc<Signal>,
    /// Threads sleep here if the running transaction is locked, until the next one can begin.
    pub(crate) joins: Arc<Signal>,
    /// Threads that wait for a commit sleep here.
    pub(crate) done: Arc<Signal>,
    /// The journal's thread sleeps here while another thread may be finishing the commit.
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
    /// Blocks of the log that may be written.
    pub(crate) free: u32,
    /// Transactions that are committed and not all at home, oldest first.
    pub(crate) queue: VecDeque<Arc<Committed>>,
    /// The moving average of a commit's duration, as in JBD2: the newest counts a quarter.
    pub(crate) commit_takes: Duration,
    /// The thread that last stopped durably.
    pub(crate) last_durable: Option<usize>,
    pub(crate) stats: Stats,
    pub(crate) stopping: bool,
}

/// What a journal has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Transactions committed.
    pub commits: u64,
    /// Handles begun.
    pub handles: u64,
    /// Blocks written to the log.
    pub blocks: u64,
    /// Flushes and durable writes for commits.
    pub flushes: u64,
    /// Buffers that waiting threads wrote, plus commits that they finished.
    pub helped: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Time that commits waited for handles to leave ("start-up delay").
    pub draining: Duration,
    /// Time that commits took from then on.
    pub committing: Duration,
}

impl Journal {
    /// Opens the journal in `log` for the blocks of `home`, recovers it, and starts its thread.
    ///
    /// If the journal lies inside the storage that it protects, pass two `Arc`s of that storage as
    /// `log` and `home`. No handle may then change the journal's own blocks; this is not checked.
    ///
    /// # Errors
    /// As [`recover`](super::recover()). The superblock must be of version 2, which has feature
    /// flags.
    pub fn open(
        log: impl Storage + 'static,
        home: impl Storage + 'static,
        options: Options,
    ) -> Result<Journal, Error> {
        check_block_bytes(options.block_bytes)?;
        let blocks = Blocks::new(Arc::new(log), &options.place, options.block_bytes)?;
        let mut superblock = Superblock::read(&blocks, &options.place)?;
        if !superblock.has_features() {
            let what = "it is of the first version, which has no revokes: format the journal anew";
            return Err(Error::BadSuperblock { what });
        }
        let home: Arc<dyn Storage> = Arc::new(home);
        let recovery = replay(&blocks, &superblock, &home)?;
        superblock.allow_revokes();
        superblock.set(recovery.next, superblock.first());
        (superblock.write(&blocks, &options.place)).map_err(Error::io("beginning a new log"))?;
        let inner = Arc::new(Inner::new(options, blocks, home, superblock, &recovery));
        let shared = inner.clone();
        Ok(Journal {
            inner,
            thread: Some(thread::spawn(move || shared.run())),
            recovery,
        })
    }

    /// Returns what opening the journal recovered.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Joins the running transaction, or begins one, with room for `credits` changed or revoked
    /// blocks.
    ///
    /// Blocks while a full transaction is being committed. Writes blocks home while the log has no
    /// room.
    pub fn begin(&self, credits: u32) -> Result<Handle<'_>, Error> {
        self.inner.begin(credits)
    }

    /// Reads the newest content of a block, which need not be committed yet. `into` must have the
    /// size of a block.
    pub fn read(&self, block: u64, into: &mut [u8]) -> Result<(), Error> {
        self.inner.check_block(block)?;
        let (found, expected) = (into.len(), self.inner.format.block_bytes);
        if found != expected {
            return Err(Error::BufferSize { found, expected });
        }
        loop {
            let (newest, version) = self.inner.buffers.newest(block);
            if let Some(content) = newest {
                into.copy_from_slice(&content);
                return Ok(());
            }
            into.copy_from_slice(&self.inner.read_home(block)?);
            // The block may have been changed and written home while this thread read it.
            if self.inner.buffers.newest(block).1 == version {
                return Ok(());
            }
        }
    }

    /// Requests the commit of a transaction and of all before it. Returns at once.
    pub fn commit(&self, tid: Tid) -> Result<(), Error> {
        self.inner.commit(tid)
    }

    /// Requests the commit of a transaction, and blocks until it is durable. With
    /// [`CommitWay::Cooperative`](super::CommitWay) this thread helps.
    ///
    /// # Errors
    /// The journal was poisoned first. The transaction may or may not be on the medium.
    pub fn wait(&self, tid: Tid) -> Result<(), Error> {
        self.inner.wait(tid)
    }

    /// Returns what the journal has done.
    pub fn stats(&self) -> Stats {
        self.inner.state.lock().stats
    }

    /// Returns the largest number of credits that a handle can have.
    pub fn most_credits(&self) -> u32 {
        self.inner.log.most_credits
    }

    /// Returns the failure that poisoned the journal, if there was one.
    pub fn check(&self) -> Result<(), Error> {
        Ok(self.inner.medium.check()?)
    }

    /// Commits the running transaction, writes all blocks home, and leaves an empty log. Handles
    /// borrow the journal, so none is left.
    pub fn close(mut self) -> Result<(), Error> {
        let running = self.inner.state.lock().running.as_ref().map(|it| it.tid);
        if let Some(tid) = running {
            self.inner.wait(tid)?;
        }
        self.stop();
        self.inner.empty()?;
        Ok(())
    }

    fn stop(&mut self) {
        let running = {
            let mut state = self.inner.state.lock();
            state.stopping = true;
            state.running.clone()
        };
        self.inner.work.wake_all();
        if let Some(running) = running {
            // No handle is left. One that was forgotten must not delay the drop.
            running.updates.wake();
        }
        if let Some(thread) = self.thread.take() {
            // The thread catches its panics, and a failure has poisoned the journal.
            let _ = thread.join();
        }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Journal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
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

impl Inner {
    fn new(
        options: Options,
        blocks: Blocks,
        home: Arc<dyn Storage>,
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
                last_durable: None,
                stats: Stats::default(),
                stopping: false,
            }),
            buffers: Buffers::new(),
            medium: Medium::new(if_dropped, alarm),
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

    pub(crate) fn read_home(&self, block: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; self.format.block_bytes];
        let at = block * self.format.block_bytes as u64;
        (self.home.read_at(&mut bytes, at)).map_err(Error::io("reading a block"))?;
        Ok(bytes)
    }

    /// Performs one operation on the medium. None begins after a failure, and each failure is
    /// recorded before any thread could miss it.
    pub(crate) fn on_medium(
        &self,
        doing: &'static str,
        operation: impl FnOnce() -> io::Result<()>,
    ) -> Result<(), Failure> {
        self.medium.perform(|| failed(doing, operation()))
    }

    fn begin(&self, credits: u32) -> Result<Handle<'_>, Error> {
        let most = self.log.most_credits;
        if credits > most {
            let asked = credits;
            return Err(Error::TooManyCredits { asked, most });
        }
        loop {
            self.medium.check()?;
            let running = self.state.lock().running.clone();
            let Some(running) = running else {
                self.begin_transaction()?;
                continue;
            };
            match running.updates.join(credits, most) {
                Ok(()) => {
                    self.state.lock().stats.handles += 1;
                    return Ok(Handle::new(self, running, credits));
                }
                Err(Refused::Locked) => {}
                Err(Refused::Full) => self.want(running.tid),
            }
            self.joins.wait_until(|| {
                let state = self.state.lock();
                let same = state.running.as_ref().map(|it| it.tid) == Some(running.tid);
                drop(state);
                (!same || self.medium.check().is_err()).then_some(())
            });
        }
    }

    /// Begins a transaction if none is running and the log has room for it (J2).
    fn begin_transaction(&self) -> Result<(), Error> {
        self.make_room(self.log.most_blocks)?;
        let mut state = self.state.lock();
        if state.running.is_none() && state.free >= self.log.most_blocks {
            state.running = Some(Arc::new(Transaction::new(state.next)));
            state.next = state.next.next();
        }
        Ok(())
    }

    fn commit(&self, tid: Tid) -> Result<(), Error> {
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
    fn want(&self, tid: Tid) {
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
        // J3: a transaction that was reported as committed stays so, whatever failed since.
        if !self.state.lock().committed.is_before(tid) {
            return Some(Ok(()));
        }
        self.medium.check().err().map(|failure| Err(failure.into()))
    }
}

/// Turns a storage's error into a failure of the operation `doing`.
pub(crate) fn failed(doing: &'static str, result: io::Result<()>) -> Result<(), Failure> {
    result.map_err(|source| Failure {
        doing,
        source: Some(Arc::new(source)),
    })
}

/// The newest copies of blocks, by block number.
pub(crate) type Copies = std::collections::BTreeMap<u64, Content>;
