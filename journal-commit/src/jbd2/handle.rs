//! Handles: one thread's part of a transaction.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Instant;

use spanlock_sync::{Park, Parker, thread};

use super::error::{Error, Failure};
use super::format::Tid;
use super::inner::Inner;
use super::options::Delay;
use super::raw::updates::Refused;
use super::transaction::Transaction;

/// One atomic change of several blocks: after a crash, either the whole change is there or none of
/// it. Many handles share a transaction.
///
/// Handles should be short, because a commit waits for the handles in its transaction. A thread
/// that has a handle must not begin a second one, nor wait for a commit.
///
/// # Dropping a handle
/// Dropping a handle that has changed nothing has no effect. A handle that *has* changed blocks
/// must end with [`stop`](Handle::stop). If an early return or a panic drops it instead, its work
/// is half done and cannot be taken out of the transaction. That poisons the journal. Everything
/// committed before is recovered when the journal is opened again.
///
/// # Running out of credits
/// A handle whose number of blocks is not known in advance need not be dropped half-way when it
/// runs out of credits. It [asks for more](Handle::extend). If the transaction has no room, it
/// [restarts](Handle::restart) in the next transaction, at a point where its changes are complete
/// in themselves:
///
/// ```
/// # use std::sync::Arc;
/// # use spanlock_journal_commit::jbd2::{format, Error, FormatOptions, Journal, Options};
/// # use spanlock_journal_commit::testing::Recorded;
/// fn clear(journal: &Journal, blocks: impl Iterator<Item = u64>) -> Result<(), Error> {
///     let mut handle = journal.begin(1)?;
///     for block in blocks {
///         if handle.credits() == 0 && !handle.extend(1)? {
///             handle.restart(1)?;
///         }
///         let mut block = handle.get_write(block)?;
///         block.fill(0);
///         block.dirty()?;
///     }
///     handle.stop_durable()?;
///     Ok(())
/// }
/// # let log = Arc::new(Recorded::new(1 << 20));
/// # format(log.clone(), &FormatOptions::new(4096))?;
/// # let journal = Journal::open(log, Arc::new(Recorded::new(1 << 20)), Options::new(4096))?;
/// # clear(&journal, 0..250)?;
/// # journal.close()?;
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
#[must_use = "dropping a handle that has changed blocks poisons the journal"]
pub struct Handle<'a> {
    inner: &'a Inner,
    transaction: Arc<Transaction>,
    /// The credits with which the handle began, and those that it was given since.
    given: u32,
    left: u32,
    changed: bool,
    /// Whether the handle is in its transaction. It is not if a restart has failed, which only
    /// happens when the journal is poisoned; then every operation fails.
    joined: bool,
}

impl<'a> Handle<'a> {
    pub(crate) fn new(inner: &'a Inner, transaction: Arc<Transaction>, credits: u32) -> Self {
        Handle {
            inner,
            transaction,
            given: credits,
            left: credits,
            changed: false,
            joined: true,
        }
    }

    /// Returns the number of credits that are left.
    pub fn credits(&self) -> u32 {
        self.left
    }

    /// Asks for `credits` more credits (JBD2's `jbd2_journal_extend`). Returns false, and leaves
    /// the handle as it is, if the transaction has no room for them or is about to be committed.
    /// [`restart`](Self::restart) the handle then. Never blocks.
    ///
    /// # Errors
    /// [`Error::TooManyCredits`] if no transaction has that many. [`Error::Poisoned`].
    pub fn extend(&mut self, credits: u32) -> Result<bool, Error> {
        self.inner.check_credits(credits)?;
        self.inner.medium.check()?;
        let most = self.inner.log.most_credits;
        let is_extended = self.transaction.updates.extend(credits, most).is_ok();
        if is_extended {
            self.given += credits;
            self.left += credits;
        }
        Ok(is_extended)
    }

    /// Moves the handle to the next transaction, with `credits` credits (JBD2's
    /// `jbd2_journal_restart`). What it has changed so far is as if it had [stopped](Self::stop):
    /// that part is atomic by itself, and its commit is requested. Afterwards the handle has
    /// changed nothing, and unused credits are gone.
    ///
    /// Blocks like [`Journal::begin`](super::Journal::begin).
    ///
    /// # Errors
    /// [`Error::TooManyCredits`]: the handle is as it was. [`Error::Poisoned`]: nothing of the
    /// handle is committed that was not committed before.
    pub fn restart(&mut self, credits: u32) -> Result<(), Error> {
        self.inner.check_credits(credits)?;
        self.inner.medium.check()?;
        self.leave();
        let old = self.transaction.tid;
        self.inner.want(old);
        self.transaction = self.inner.join(credits, Some(old))?;
        (self.given, self.left, self.joined) = (credits, credits, true);
        Ok(())
    }

    /// Ends a handle that has changed nothing. Otherwise, returns the handle: to be continued, or
    /// [stopped](Self::stop) where its changes are complete.
    pub fn abort(self) -> Result<(), Self> {
        if self.changed { Err(self) } else { Ok(()) }
    }

    /// Leaves the transaction. The changes stay in it.
    fn leave(&mut self) {
        self.changed = false;
        self.joined = false;
        self.transaction
            .updates
            .leave(std::mem::take(&mut self.left));
    }

    /// Returns the transaction that this handle is part of.
    pub fn tid(&self) -> Tid {
        self.transaction.tid
    }

    /// Returns a copy of a block's newest content to change. The change takes effect with
    /// [`dirty`](BlockMut::dirty).
    ///
    /// Blocks while another handle has the block. A handle can have only one block at a time. The
    /// first change of a block in a transaction costs a credit.
    pub fn get_write(&mut self, block: u64) -> Result<BlockMut<'_, 'a>, Error> {
        self.inner.check_block(block)?;
        self.inner.medium.check()?;
        if self.left == 0 && !self.transaction.has(block) {
            return Err(self.no_credits(block));
        }
        let newest = self.inner.buffers.take(block);
        let mut taken = BlockMut {
            handle: self,
            block,
            bytes: Vec::new(),
        };
        taken.bytes = match newest {
            Some(content) => content.to_vec(),
            None => taken.handle.inner.read_home(block)?,
        };
        Ok(taken)
    }

    /// Revokes a block: takes it out of the journal. Once this transaction is committed, the
    /// journal ignores all copies of the block in this transaction and in older ones. Recovery does
    /// not restore such a copy, and a checkpoint does not write it home.
    ///
    /// Use the block for something else only after that commit. Its content is undefined from now
    /// on. The call costs a credit, unless the block is already revoked in this transaction. Blocks
    /// while another handle has the block.
    pub fn revoke(&mut self, block: u64) -> Result<(), Error> {
        self.inner.check_block(block)?;
        self.inner.medium.check()?;
        if !self.transaction.has_revoked(block) {
            self.left = (self.left.checked_sub(1)).ok_or_else(|| self.no_credits(block))?;
        }
        self.inner.buffers.take(block);
        self.inner.buffers.put(block, None);
        self.transaction.revoke(block);
        self.inner.buffers.free(block);
        self.changed = true;
        Ok(())
    }

    /// Ends the handle. The change is durable once its transaction is committed: see
    /// [`Journal::wait`](super::Journal::wait).
    pub fn stop(mut self) -> Tid {
        self.changed = false;
        self.tid()
    }

    /// Ends the handle, requests the commit, and blocks until the change is durable. With
    /// [`Delay::Piggyback`], the call first sleeps so that other threads can join the transaction.
    pub fn stop_durable(self) -> Result<Tid, Error> {
        let inner = self.inner;
        self.piggyback();
        let tid = self.stop();
        inner.wait(tid)?;
        Ok(tid)
    }

    /// Sleeps for the usual duration of a commit, as Linux does in `jbd2_journal_stop`. Does not
    /// sleep if this thread was also the last thread to stop durably, or if the transaction is
    /// already older than that duration. The handle is still open, so the transaction cannot be
    /// committed meanwhile.
    fn piggyback(&self) {
        let Delay::Piggyback(most) = self.inner.options.delay else {
            return;
        };
        let commit_takes = {
            let mut state = self.inner.state.lock();
            let me = thread::index();
            if state.last_durable.replace(me) == Some(me) {
                return;
            }
            state.commit_takes.min(most)
        };
        if self.transaction.began.elapsed() >= commit_takes {
            return;
        }
        let until = Instant::now() + commit_takes;
        Parker::with(|parker| {
            while Instant::now() < until {
                parker.park_until(Some(until));
            }
        });
    }

    fn no_credits(&self, block: u64) -> Error {
        Error::NoCredits {
            credits: self.given,
            block,
        }
    }
}

impl Inner {
    /// Joins the running transaction, or begins a transaction if none is running.
    pub(crate) fn begin(&self, credits: u32) -> Result<Handle<'_>, Error> {
        self.check_credits(credits)?;
        let transaction = self.join(credits, None)?;
        Ok(Handle::new(self, transaction, credits))
    }

    fn check_credits(&self, asked: u32) -> Result<(), Error> {
        let most = self.log.most_credits;
        if asked > most {
            return Err(Error::TooManyCredits { asked, most });
        }
        Ok(())
    }

    /// Reserves credits in the running transaction, or begins one. There must not be more than a
    /// transaction can have. Does not join `old`, whose commit was requested.
    fn join(&self, credits: u32, old: Option<Tid>) -> Result<Arc<Transaction>, Error> {
        let most = self.log.most_credits;
        loop {
            self.medium.check()?;
            let running = self.state.lock().running.clone();
            let Some(running) = running else {
                self.begin_transaction()?;
                continue;
            };
            let joined = match old {
                Some(old) if old == running.tid => Err(Refused::Locked),
                _ => running.updates.join(credits, most),
            };
            match joined {
                Ok(()) => {
                    self.state.lock().stats.handles += 1;
                    return Ok(running);
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
}

impl Drop for Handle<'_> {
    fn drop(&mut self) {
        if self.changed {
            self.inner.medium.fail(Failure {
                doing: "a handle with changes was dropped without `stop`",
                source: None,
            });
        }
        if self.joined {
            self.leave();
        }
    }
}

/// A block that a handle is changing: its own copy of the content.
#[derive(Debug)]
#[must_use = "a change takes effect with `dirty`"]
pub struct BlockMut<'h, 'a> {
    handle: &'h mut Handle<'a>,
    block: u64,
    bytes: Vec<u8>,
}

impl BlockMut<'_, '_> {
    /// Puts the changed content into the transaction. If this is not called, the block stays as it
    /// was.
    pub fn dirty(mut self) -> Result<(), Error> {
        let handle = &mut *self.handle;
        if let Some(file_system) = handle.inner.file_system {
            file_system.keep(self.block, &mut self.bytes);
        }
        let content = Arc::new(std::mem::take(&mut self.bytes));
        let cost = (handle.transaction).put(self.block, content.clone(), handle.left);
        handle.left -= cost.ok_or_else(|| handle.no_credits(self.block))?;
        handle.changed = true;
        handle.inner.buffers.put(self.block, Some(content));
        Ok(())
    }
}

impl Drop for BlockMut<'_, '_> {
    fn drop(&mut self) {
        self.handle.inner.buffers.free(self.block);
    }
}

impl Deref for BlockMut<'_, '_> {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for BlockMut<'_, '_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}
