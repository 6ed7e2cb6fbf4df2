//! A transaction: its states, and the changes that handles have put into it.
//!
//! # States
//! As in JBD2:
//!
//! | state | what happens | who may join | ends when |
//! |---|---|---|---|
//! | RUNNING | handles join, change blocks, leave | if there is room | its commit is requested |
//! | LOCKED | handles inside continue; new handles wait | none | the last handle has left |
//! | FLUSH | blocks and place in the log are fixed | none | at once |
//! | COMMIT | blocks are prepared and written | none | all blocks are written |
//! | JFLUSH | flush, and commit block if the format has two flushes | none | all is durable |
//! | FINISHED | acknowledged; its blocks are not all at home yet | none | a checkpoint ends |
//!
//! From FLUSH until it is acknowledged, it is the *committing* transaction, and new handles begin
//! the next transaction. JBD2 has two more states. SWITCH, in which it switches its revoke table,
//! is a part of FLUSH here. DFLUSH, in which it waits for the writes of blocks, is a part of
//! COMMIT.

use std::collections::BTreeSet;
use std::time::Instant;

use spanlock_sync::Mutex;

use super::buffers::{Content, Copies};
use super::format::Tid;
use super::raw::updates::Updates;

/// A transaction that handles join.
#[derive(Debug)]
pub(crate) struct Transaction {
    pub(crate) tid: Tid,
    pub(crate) updates: Updates,
    pub(crate) began: Instant,
    changes: Mutex<Changes>,
}

/// The changes of a transaction.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) blocks: Copies,
    pub(crate) revokes: BTreeSet<u64>,
}

/// A transaction in the log, from the start of its commit until all its blocks are at home.
#[derive(Debug)]
pub(crate) struct Committed {
    pub(crate) tid: Tid,
    /// The number of blocks that the transaction takes in the log.
    pub(crate) log_blocks: u32,
    /// The block of the log after the transaction's last block.
    pub(crate) end: u32,
    pub(crate) blocks: Mutex<Copies>,
    pub(crate) revokes: Vec<u64>,
}

impl Transaction {
    pub(crate) fn new(tid: Tid) -> Self {
        Transaction {
            tid,
            updates: Updates::new(),
            began: Instant::now(),
            changes: Mutex::new(Changes::default()),
        }
    }

    /// Returns whether a further change of the block costs no credit.
    pub(crate) fn has(&self, block: u64) -> bool {
        self.changes.lock().blocks.contains_key(&block)
    }

    pub(crate) fn has_revoked(&self, block: u64) -> bool {
        self.changes.lock().revokes.contains(&block)
    }

    /// Puts a block's new content into the transaction. The caller has paid for it.
    pub(crate) fn put(&self, block: u64, content: Content) {
        let mut changes = self.changes.lock();
        // Remove an earlier revoke of this block: it would hide the new copy too.
        changes.revokes.remove(&block);
        changes.blocks.insert(block, content);
    }

    /// Takes a block out of this transaction, and hides older copies of it from recovery.
    pub(crate) fn revoke(&self, block: u64) {
        let mut changes = self.changes.lock();
        changes.blocks.remove(&block);
        changes.revokes.insert(block);
    }

    /// Removes and returns all changes, for the commit. All handles must have left.
    pub(crate) fn take(&self) -> Changes {
        std::mem::take(&mut *self.changes.lock())
    }
}
