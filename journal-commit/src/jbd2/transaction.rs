//! A transaction: the changes that handles have put into it, and its state.
//!
//! # States
//! As in JBD2:
//!
//! | state | what happens | who may join | ends when |
//! |---|---|---|---|
//! | RUNNING | handles join, change blocks, leave | if there is room | its commit is requested |
//! | LOCKED | handles inside continue | none: joiners wait | the last one has left |
//! | FLUSH | blocks and place in the log are fixed | joiners begin the next | at once |
//! | COMMIT | blocks are prepared and written | | all are written |
//! | JFLUSH | flush and commit block, by format | | all of it is durable |
//! | FINISHED | acknowledged; to be written home | | the checkpoint ends |
//!
//! From FLUSH on, it is the committing transaction. JBD2's SWITCH (its revoke table) and DFLUSH
//! (waiting for blocks to be written) are steps of FLUSH and COMMIT here.

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

/// A committed transaction that is not yet at home.
#[derive(Debug)]
pub(crate) struct Committed {
    pub(crate) tid: Tid,
    /// The number of blocks it takes in the log.
    pub(crate) log_blocks: u32,
    /// The block of the log after its last.
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

    /// Puts a block's new content in, if that costs no more than `credits`. Returns how many it
    /// cost.
    pub(crate) fn put(&self, block: u64, content: Content, credits: u32) -> Option<u32> {
        let mut changes = self.changes.lock();
        let cost = u32::from(!changes.blocks.contains_key(&block));
        if cost > credits {
            return None;
        }
        // A block that is written again must not be revoked: the revoke would hide this copy too.
        changes.revokes.remove(&block);
        changes.blocks.insert(block, content);
        Some(cost)
    }

    /// Takes a block out of this transaction, and hides older copies of it from recovery.
    pub(crate) fn revoke(&self, block: u64) {
        let mut changes = self.changes.lock();
        changes.blocks.remove(&block);
        changes.revokes.insert(block);
    }

    /// Takes all changes, for the commit. No handle is inside any more.
    pub(crate) fn take(&self) -> Changes {
        std::mem::take(&mut *self.changes.lock())
    }
}
