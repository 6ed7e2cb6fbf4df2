//! Handles: one thread's part of a transaction.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Instant;

use spanlock_sync::{Park, Parker, thread};

use super::error::{Error, Failure};
use super::format::Tid;
use super::journal::Inner;
use super::options::Delay;
use super::transaction::Transaction;

/// One atomic change of several blocks: after a crash all of it is there or nothing. Many handles share a transaction.
///
/// Handles should be short: a commit waits for those that are in its transaction. A thread that has one must not begin a second one, nor wait for a commit.
///
/// # If it is dropped
/// Without having changed anything, nothing happens. A handle that *has* changed blocks and is dropped without [`stop`](Handle::stop), by an early return
/// or a panic, has done half of its work, which cannot be taken out of the transaction any more: that poisons the journal. What was committed before is
/// recovered when it is opened again.
#[derive(Debug)]
#[must_use = "a handle that is dropped has changed nothing, or poisons the journal"]
pub struct Handle<'a> {
    inner: &'a Inner,
    transaction: Arc<Transaction>,
    /// What it began with.
    credits: u32,
    left: u32,
    changed: bool,
}

impl<'a> Handle<'a> {
    pub(crate) fn new(inner: &'a Inner, transaction: Arc<Transaction>, credits: u32) -> Self {
        Handle {
            inner,
            transaction,
            credits,
            left: credits,
            changed: false,
        }
    }

    /// The transaction that it is a part of.
    pub fn tid(&self) -> Tid {
        self.transaction.tid
    }

    /// Gets a block to change: a copy of its newest content, which counts once it is [`dirty`](BlockMut::dirty). Sleeps while another handle has the
    /// block; a handle has one block at a time.
    ///
    /// The first change of a block in a transaction costs a credit.
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

    /// Takes a block out of the journal: neither this transaction's nor an older copy of it comes back after a crash, or is written home, once this
    /// transaction is committed. Only then may the block be used for something else. Its content is undefined from now on. Costs a credit, unless the block
    /// is revoked in this transaction already.
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

    /// Ends the handle. The change is durable once its transaction is committed: see [`Journal::wait`](super::Journal::wait).
    pub fn stop(mut self) -> Tid {
        self.changed = false;
        self.tid()
    }

    /// Ends the handle and returns when the change is durable: after JBD2's delay for others to join, if the journal was opened so, it asks for the commit
    /// and waits for it.
    pub fn stop_durable(self) -> Result<Tid, Error> {
        let inner = self.inner;
        self.piggyback();
        let tid = self.stop();
        inner.wait(tid)?;
        Ok(tid)
    }

    /// As Linux has it in `jbd2_journal_stop`: if the last to stop durably was another thread, and the transaction is younger than a commit takes, sleep for as
    /// long as a commit takes. The handle is still in, so nobody commits meanwhile.
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
            credits: self.credits,
            block,
        }
    }
}

impl Drop for Handle<'_> {
    fn drop(&mut self) {
        if self.changed {
            self.inner.medium.fail(Failure {
                doing: "a handle was dropped midway",
                source: None,
            });
        }
        self.transaction.updates.leave(self.left);
    }
}

/// A block that a handle is changing: its own copy of the content.
#[derive(Debug)]
#[must_use = "a change counts once it is dirty"]
pub struct BlockMut<'h, 'a> {
    handle: &'h mut Handle<'a>,
    block: u64,
    bytes: Vec<u8>,
}

impl BlockMut<'_, '_> {
    /// Puts the changed content into the transaction. Dropped without, the block stays as it was.
    pub fn dirty(mut self) -> Result<(), Error> {
        let handle = &mut *self.handle;
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
