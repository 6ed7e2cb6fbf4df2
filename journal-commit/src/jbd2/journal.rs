//! The journal: what threads share, and the face they see.
//!
//! ```text
//!   begin ──► handles ──► running ──LOCKED──► committing ──► checkpoint queue ──► home
//!                                               │  log: descriptors, data, commit block       │
//!                                               ▼                                             ▼
//!   superblock │ tail ▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓ head │         free          │        tail moves on
//! ```
//!
//! # Invariants
//! - **J1** One transaction runs, one is being committed, both at most. Ids are given without gaps, and transactions lie in the log in their order.
//! - **J2** A new transaction begins only while the log has room for the largest one: so no commit ever finds the log full.
//! - **J3** `committed` moves on only after everything of that transaction is durable and the medium has [settled](super::raw::medium) without a failure.
//! - **J4** The log between tail and head holds every committed transaction that has a block which is not durably home.
//! - **J5** The superblock on the medium names a tail that is that or older; what lies before it is not written over until it is on the medium.
//! - **J6** Who sleeps is woken by a failure, and finds it.
//!
//! Locks, in the order in which they are taken: `checkpointing`, `state`, then the small ones, of which nobody holds two.

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
/// Dropping it stops its thread and writes nothing more: what was committed is in the log, and recovered when the journal is opened again; what was
/// not is lost. [`close`](Journal::close) leaves nothing to recover.
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
/// handle.stop_durable()?; // Now both are there after a crash; before, both or neither.
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
    /// Gone once the thread has been told to stop.
    thread: Option<thread::JoinHandle<()>>,
    recovery: Recovery,
}

/// What all threads share.
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
    /// Who waits for which transaction. It changes under the lock of `state`.
    pub(crate) gathering: Gathering,
    /// What waiting threads can help with.
    pub(crate) helpable: Mutex<Option<Arc<Committing>>>,
    /// One checkpoint at a time, and none while a commit takes revoked blocks out of older transactions.
    pub(crate) checkpointing: Mutex<Superblock>,
    /// For the journal's thread: something to do.
    pub(crate) work: Arc<Signal>,
    /// For who cannot join the running transaction: it runs no more.
    pub(crate) joins: Arc<Signal>,
    /// For who waits for a commit.
    pub(crate) done: Arc<Signal>,
    /// For the journal's thread: the commit that others may be finishing.
    pub(crate) sealed: Arc<Signal>,
}

/// What changes, under its lock.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) running: Option<Arc<Transaction>>,
    pub(crate) committing: Option<Tid>,
    /// The id of the next transaction to begin.
    pub(crate) next: Tid,
    /// The last one that is durable.
    pub(crate) committed: Tid,
    /// The last one that somebody wants committed.
    pub(crate) wanted: Tid,
    /// Where the next transaction is written.
    pub(crate) head: u32,
    /// Blocks of the log that may be written.
    pub(crate) free: u32,
    /// Committed, and not all at home; oldest first.
    pub(crate) queue: VecDeque<Arc<Committed>>,
    /// The average time of a commit, as JBD2 has it: a quarter new.
    pub(crate) commit_takes: Duration,
    /// Which thread last stopped durably.
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
    /// Buffers that threads which waited wrote, and commits that they finished.
    pub helped: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// How long commits waited for handles to leave ("start-up delay").
    pub draining: Duration,
    /// How long commits took from then on.
    pub committing: Duration,
}

impl Journal {
    /// Opens the journal in `log` for the blocks of `home`, and recovers it. Starts a thread.
    ///
    /// For a journal inside of what it protects, `log` and `home` are the same storage, as two `Arc`s of it. No handle may change the journal's own blocks
    /// then: that is not checked.
    ///
    /// # Errors
    /// As [`recover`](super::recover()). The journal must have the superblock that has features (version 2).
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

    /// What opening it recovered.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Joins the running transaction, or begins one, with room for `credits` changed or revoked blocks. Sleeps while a full transaction is committed, and
    /// writes blocks home while the log has no room.
    pub fn begin(&self, credits: u32) -> Result<Handle<'_>, Error> {
        self.inner.begin(credits)
    }

    /// Reads a block's newest content, which need not be committed yet. `into` has the size of a block.
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
            // Changed meanwhile, it may have come home while that was read.
            if self.inner.buffers.newest(block).1 == version {
                return Ok(());
            }
        }
    }

    /// Asks for the commit of a transaction and of those before it. Returns at once.
    pub fn commit(&self, tid: Tid) -> Result<(), Error> {
        self.inner.commit(tid)
    }

    /// Asks for the commit of a transaction, and sleeps until it is durable; with [`CommitWay::Cooperative`](super::CommitWay) it helps.
    ///
    /// # Errors
    /// If the journal is poisoned before that: it is then not known whether the transaction is on the medium.
    pub fn wait(&self, tid: Tid) -> Result<(), Error> {
        self.inner.wait(tid)
    }

    /// What it has done.
    pub fn stats(&self) -> Stats {
        self.inner.state.lock().stats
    }

    /// The most credits that a handle can have.
    pub fn most_credits(&self) -> u32 {
        self.inner.log.most_credits
    }

    /// Whether it is poisoned, and by what.
    pub fn check(&self) -> Result<(), Error> {
        Ok(self.inner.medium.check()?)
    }

    /// Commits what there is, writes all blocks home, and leaves an empty log. (There are no handles any more: they borrow the journal.)
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
            // Nobody has a handle any more; one that was forgotten holds up nobody.
            running.updates.wake();
        }
        if let Some(thread) = self.thread.take() {
            // It catches its panics, and a failure poisons the journal.
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

    /// One operation on the medium: none begins after a failure, and a failure is recorded before anybody can have overlooked it.
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

    /// Begins a transaction if none is running, once the log has room for it (J2).
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

    /// The journal's thread is to commit this transaction.
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

    /// A thread is about to sleep until a transaction is committed.
    fn arrive(&self, tid: Tid) {
        let state = self.state.lock();
        let is_running = state.running.as_ref().is_some_and(|it| it.tid == tid);
        let is_last = is_running && self.gathering.arrive();
        drop(state);
        if is_last {
            self.gathering.call();
        }
    }

    /// How a transaction's commit came out, if it has.
    fn outcome(&self, tid: Tid) -> Option<Result<(), Error>> {
        // J3: what is said to be committed is, whatever failed since.
        if !self.state.lock().committed.is_before(tid) {
            return Some(Ok(()));
        }
        self.medium.check().err().map(|failure| Err(failure.into()))
    }
}

/// What a storage said, as what failed.
pub(crate) fn failed(doing: &'static str, result: io::Result<()>) -> Result<(), Failure> {
    result.map_err(|source| Failure {
        doing,
        source: Some(Arc::new(source)),
    })
}

/// What the log and the table of buffers keep of a block's newest copies, by block.
pub(crate) type Copies = std::collections::BTreeMap<u64, Content>;
