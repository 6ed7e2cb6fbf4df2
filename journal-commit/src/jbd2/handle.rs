//! Handles: one thread's part of a transaction.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Instant;

use spanlock_sync::{Park, Parker, thread};

use super::buffers::Content;
use super::error::Error;
use super::format::Tid;
use super::inner::Inner;
use super::options::Delay;
use super::raw::holders::Holder;
use super::transaction::Transaction;

/// One atomic change of several blocks: a crash leaves either all of the change or none of it. Many
/// handles share a transaction.
///
/// Keep handles short, because a commit waits for every handle in its transaction. A thread that
/// has a handle must not begin a second one, nor wait for a commit.
///
/// # A handle holds its blocks until it ends
/// Until a handle ends, no other handle can get a block that it changes or revokes, and no other
/// thread sees its changes.
///
/// The journal does not know your own locks. If a thread with an open handle acquires such a lock,
/// no thread may request a block while it holds the lock: the two could wait for each other.
///
/// If two handles take blocks in different orders, one of them may get [`Error::Deadlock`]. Drop
/// that handle, and begin again. If all handles take blocks in the same order, for example in
/// ascending order, none gets this error.
///
/// # Aborting a handle
/// The changes of a handle take effect together, when it [stops](Handle::stop). A handle that is
/// dropped instead, by an early return, a panic or [`abort`](Handle::abort), changes nothing.
///
/// # Running out of credits
/// If the number of blocks is not known in advance, a handle may run out of credits half-way. It
/// can then [ask for more](Handle::extend). If the transaction has no room for them, the handle can
/// [restart](Handle::restart) in the next transaction. Each restart splits the change in two, so
/// restart only where the changes so far are complete in themselves:
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
#[must_use = "a handle that is dropped changes nothing: end it with `stop`"]
pub struct Handle<'a> {
    inner: &'a Inner,
    transaction: Arc<Transaction>,
    me: Holder,
    work: RefCell<Work>,
    /// Whether the handle is in its transaction. Only a restart that fails half-way leaves it
    /// outside. The journal is then poisoned, so every operation fails.
    joined: bool,
}

/// What a handle has done so far.
#[derive(Debug)]
struct Work {
    /// All credits that the handle has been given: at its beginning, and since.
    given: u32,
    left: u32,
    /// The blocks that the handle has changed or revoked, and therefore holds.
    changes: BTreeMap<u64, Change>,
    /// The blocks of which a [`BlockMut`] exists. The handle holds these, too.
    taken: BTreeSet<u64>,
    /// Blocks whose `BlockMut` was changed, but dropped without [`dirty`](BlockMut::dirty).
    forgotten: BTreeSet<u64>,
}

#[derive(Clone, Debug)]
enum Change {
    Content(Content),
    Revoked,
}

impl Work {
    fn new(credits: u32) -> RefCell<Self> {
        RefCell::new(Work {
            given: credits,
            left: credits,
            changes: BTreeMap::new(),
            taken: BTreeSet::new(),
            forgotten: BTreeSet::new(),
        })
    }

    fn no_credits(&self, block: u64) -> Error {
        Error::NoCredits {
            credits: self.given,
            block,
        }
    }

    fn pay(&mut self, credits: u32, block: u64) -> Result<(), Error> {
        let left = self.left.checked_sub(credits);
        self.left = left.ok_or_else(|| self.no_credits(block))?;
        Ok(())
    }
}

impl<'a> Handle<'a> {
    pub(super) fn new(
        inner: &'a Inner,
        transaction: Arc<Transaction>,
        me: Holder,
        credits: u32,
    ) -> Self {
        Handle {
            inner,
            transaction,
            me,
            work: Work::new(credits),
            joined: true,
        }
    }

    /// Returns the number of credits that are left.
    pub fn credits(&self) -> u32 {
        self.work.borrow().left
    }

    /// Asks for `credits` more credits (JBD2's `jbd2_journal_extend`). Never blocks.
    ///
    /// Returns false, and leaves the handle unchanged, if the transaction has no room for them or
    /// is about to be committed. The handle can then [`restart`](Self::restart).
    ///
    /// # Errors
    /// [`Error::TooManyCredits`] if no transaction can have that many. [`Error::Poisoned`].
    pub fn extend(&mut self, credits: u32) -> Result<bool, Error> {
        self.inner.check_credits(credits)?;
        self.inner.medium.check()?;
        let most = self.inner.log.most_credits;
        let is_extended = self.transaction.updates.extend(credits, most).is_ok();
        if is_extended {
            let work = self.work.get_mut();
            work.given += credits;
            work.left += credits;
        }
        Ok(is_extended)
    }

    /// Moves the handle to the next transaction, with `credits` credits (JBD2's
    /// `jbd2_journal_restart`). The changes so far take effect, as if the handle had
    /// [stopped](Self::stop): they are atomic by themselves, and their commit is requested. The
    /// handle continues without changes, and loses its unused credits.
    ///
    /// Blocks like [`Journal::begin`](super::Journal::begin).
    ///
    /// # Errors
    /// [`Error::TooManyCredits`] if no transaction can have that many; the handle is unchanged.
    /// [`Error::Poisoned`]: the changes so far may be durable or not, and the handle is of no use
    /// any more.
    ///
    /// # Panics
    /// As for [`stop`](Self::stop).
    pub fn restart(&mut self, credits: u32) -> Result<(), Error> {
        self.inner.check_credits(credits)?;
        self.inner.medium.check()?;
        self.publish();
        self.leave();
        let old = self.transaction.tid;
        self.inner.want(old);
        (self.transaction, self.me) = self.inner.join(credits, Some(old))?;
        (self.work, self.joined) = (Work::new(credits), true);
        Ok(())
    }

    /// Ends the handle and discards its changes, as dropping it does. The blocks stay as they were.
    pub fn abort(self) {}

    /// Puts the changes into the transaction, and releases the blocks.
    fn publish(&mut self) {
        let work = self.work.get_mut();
        debug_assert!(
            work.forgotten.is_empty(),
            "the changes of these blocks are lost, because `dirty` was not called: {:?}",
            work.forgotten
        );
        // The blocks are released last: a handle that gets one of them sees all of the changes.
        for (&block, change) in &work.changes {
            match change {
                Change::Content(content) => {
                    self.transaction.put(block, content.clone());
                    self.inner.buffers.put(block, Some(content.clone()));
                }
                Change::Revoked => {
                    self.inner.buffers.put(block, None);
                    self.transaction.revoke(block);
                }
            }
        }
        self.free();
    }

    /// Discards the changes that were not published, and releases their blocks.
    fn free(&mut self) {
        let work = self.work.get_mut();
        // No `BlockMut` exists any more. A block that is still taken was forgotten with its one.
        let mut held = std::mem::take(&mut work.taken);
        held.extend(std::mem::take(&mut work.changes).into_keys());
        for block in held {
            self.inner.buffers.holders.free(block);
        }
    }

    /// Leaves the transaction. What was published stays in it.
    fn leave(&mut self) {
        self.joined = false;
        let left = std::mem::take(&mut self.work.get_mut().left);
        self.transaction.updates.leave(left);
    }

    /// Returns the transaction that this handle is part of.
    pub fn tid(&self) -> Tid {
        self.transaction.tid
    }

    /// Returns a copy of a block's newest content, earlier changes by this handle included. To add
    /// a change of the copy to the handle, call [`dirty`](BlockMut::dirty).
    ///
    /// Blocks while another handle has the block. A handle can have several blocks at a time. The
    /// first change of a block in a transaction costs a credit, and so does the first one after the
    /// block was revoked.
    ///
    /// # Errors
    /// [`Error::Deadlock`], [`Error::AlreadyTaken`], [`Error::NoCredits`], [`Error::OutOfDevice`],
    /// [`Error::TooFar`], [`Error::Io`] and [`Error::Poisoned`]. The handle is unchanged.
    pub fn get_write(&self, block: u64) -> Result<BlockMut<'_, 'a>, Error> {
        let change = self.take(block)?;
        // From here on, dropping `taken` releases the block.
        let mut taken = BlockMut {
            handle: self,
            block,
            bytes: Vec::new(),
            is_changed: false,
        };
        let newest = match change {
            Some(Change::Content(content)) => Some(content),
            Some(Change::Revoked) => None,
            None => {
                let work = self.work.borrow();
                if work.left == 0 && !self.transaction.has(block) {
                    return Err(work.no_credits(block));
                }
                self.inner.buffers.newest(block).0
            }
        };
        taken.bytes = match newest {
            Some(content) => content.to_vec(),
            None => self.inner.read_home(block)?,
        };
        Ok(taken)
    }

    /// Takes a block for this handle. Returns the handle's earlier change of it, if there is one.
    fn take(&self, block: u64) -> Result<Option<Change>, Error> {
        self.inner.check_block(block)?;
        self.inner.medium.check()?;
        let mut work = self.work.borrow_mut();
        if work.taken.contains(&block) {
            return Err(Error::AlreadyTaken { block });
        }
        let change = work.changes.get(&block).cloned();
        if change.is_none() {
            let taken = self.inner.buffers.holders.take(block, self.me);
            taken.map_err(|_| Error::Deadlock { block })?;
        }
        work.taken.insert(block);
        Ok(change)
    }

    /// Reads the newest content of a block, this handle's changes included. `into` must have the
    /// size of a block. If another handle has the block, the call neither waits for that handle nor
    /// sees its changes. While that handle stops, one read may see its changes, and a next one of
    /// another block may miss them: [`get_write`](Self::get_write) excludes that.
    pub fn read(&self, block: u64, into: &mut [u8]) -> Result<(), Error> {
        self.inner.check_read(block, into.len())?;
        match self.work.borrow().changes.get(&block) {
            Some(Change::Content(content)) => into.copy_from_slice(content),
            Some(Change::Revoked) => into.copy_from_slice(&self.inner.read_home(block)?),
            None => self.inner.read(block, into)?,
        }
        Ok(())
    }

    /// Revokes a block: takes it out of the journal. Once this transaction is committed, the
    /// journal ignores all copies of the block in this transaction and in older ones. Recovery does
    /// not restore such a copy, and a checkpoint does not write it home.
    ///
    /// The content of the block is undefined from now on. Do not use the block for anything else
    /// before that commit.
    ///
    /// Blocks while another handle has the block. Costs a credit, unless the block is already
    /// revoked in this transaction.
    ///
    /// # Errors
    /// As for [`get_write`](Self::get_write).
    pub fn revoke(&self, block: u64) -> Result<(), Error> {
        let change = self.take(block)?;
        let is_revoked = match &change {
            Some(change) => matches!(change, Change::Revoked),
            None => self.transaction.has_revoked(block),
        };
        let mut work = self.work.borrow_mut();
        work.taken.remove(&block);
        if let Err(error) = work.pay(u32::from(!is_revoked), block) {
            if change.is_none() {
                self.inner.buffers.holders.free(block);
            }
            return Err(error);
        }
        work.changes.insert(block, Change::Revoked);
        Ok(())
    }

    /// Ends the handle. The change is durable once its transaction is committed: see
    /// [`Journal::wait`](super::Journal::wait).
    ///
    /// # Panics
    /// In debug builds, if a [`BlockMut`] was changed but dropped without
    /// [`dirty`](BlockMut::dirty), and no later `dirty` of that block followed.
    pub fn stop(mut self) -> Tid {
        self.publish();
        self.tid()
    }

    /// Ends the handle, requests the commit, and blocks until the change is durable. With
    /// [`Delay::Piggyback`], the call first sleeps so that other threads can join the transaction.
    ///
    /// # Panics
    /// As for [`stop`](Self::stop).
    pub fn stop_durable(mut self) -> Result<Tid, Error> {
        let inner = self.inner;
        self.publish();
        self.piggyback();
        let tid = self.stop();
        inner.wait(tid)?;
        Ok(tid)
    }

    /// Sleeps for the usual duration of a commit, as Linux does in `jbd2_journal_stop`. Does not
    /// sleep if this thread also made the last durable stop, or if the transaction is already older
    /// than that duration. The handle stays open, so that the transaction cannot be committed
    /// meanwhile.
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
}

impl Drop for Handle<'_> {
    fn drop(&mut self) {
        let work = self.work.get_mut();
        if !work.changes.is_empty() {
            // The handle was aborted. Nothing is in the transaction, so all credits are unused.
            work.left = work.given;
        }
        self.free();
        if self.joined {
            self.leave();
        }
    }
}

/// A handle's private copy of a block that it is changing.
#[derive(Debug)]
#[must_use = "a change takes effect with `dirty`"]
pub struct BlockMut<'h, 'a> {
    handle: &'h Handle<'a>,
    block: u64,
    bytes: Vec<u8>,
    is_changed: bool,
}

impl BlockMut<'_, '_> {
    /// Adds the changed content to the handle. Without this call, the block stays as it was.
    ///
    /// # Errors
    /// [`Error::NoCredits`]. This change is lost then: get the block again once the handle has more
    /// credits.
    pub fn dirty(mut self) -> Result<(), Error> {
        let handle = self.handle;
        // The caller learns of an error, so the changes are not forgotten then.
        self.is_changed = false;
        let mut work = handle.work.borrow_mut();
        let is_paid = match work.changes.get(&self.block) {
            Some(change) => matches!(change, Change::Content(_)),
            None => handle.transaction.has(self.block),
        };
        work.pay(u32::from(!is_paid), self.block)?;
        if let Some(file_system) = handle.inner.file_system {
            file_system.keep(self.block, &mut self.bytes);
        }
        let content = Arc::new(std::mem::take(&mut self.bytes));
        work.changes.insert(self.block, Change::Content(content));
        work.forgotten.remove(&self.block);
        Ok(())
    }
}

impl Drop for BlockMut<'_, '_> {
    fn drop(&mut self) {
        let mut work = self.handle.work.borrow_mut();
        work.taken.remove(&self.block);
        if self.is_changed {
            work.forgotten.insert(self.block);
        }
        if !work.changes.contains_key(&self.block) {
            self.handle.inner.buffers.holders.free(self.block);
        }
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
        self.is_changed = true;
        &mut self.bytes
    }
}
