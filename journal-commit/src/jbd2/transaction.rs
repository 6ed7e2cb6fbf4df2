//! A transaction: what handles have put into it, and where it stands.
//!
//! # States
//! As in JBD2:
//!
//! | state | what happens | who may join | left when |
//! |---|---|---|---|
//! | RUNNING | handles join, change blocks, leave | anybody, while there is room | somebody asks for its commit |
//! | LOCKED | handles that are in go on | nobody: joiners wait | the last one has left |
//! | FLUSH | it is the committing one; its blocks are fixed, and its place in the log; joiners begin the next one | | at once |
//! | COMMIT | blocks are prepared and written | | all are written |
//! | JFLUSH | flush, commit block, as the format wants it | | all of it is durable |
//! | FINISHED | acknowledged; waits for its blocks to be written home | | the checkpoint |
//!
//! JBD2's SWITCH (its revoke table) and DFLUSH (waiting for blocks to be written) are steps of FLUSH and COMMIT here.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use spanlock_sync::Mutex;

use super::buffers::Content;
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

/// What a transaction changes.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub(crate) blocks: BTreeMap<u64, Content>,
    pub(crate) revokes: BTreeSet<u64>,
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

    /// Whether a further change of the block costs no credit.
    pub(crate) fn has(&self, block: u64) -> bool {
        self.changes.lock().blocks.contains_key(&block)
    }

    pub(crate) fn has_revoked(&self, block: u64) -> bool {
        self.changes.lock().revokes.contains(&block)
    }

    /// Puts a block's new content in, if it costs no more credits than there are; tells how many it cost.
    pub(crate) fn put(&self, block: u64, content: Content, credits: u32) -> Option<u32> {
        let mut changes = self.changes.lock();
        let cost = u32::from(!changes.blocks.contains_key(&block));
        if cost > credits {
            return None;
        }
        // What is written again is not revoked: the revoke would hide this copy too.
        changes.revokes.remove(&block);
        changes.blocks.insert(block, content);
        Some(cost)
    }

    /// Takes a block out, and older copies of it out of recovery.
    pub(crate) fn revoke(&self, block: u64) {
        let mut changes = self.changes.lock();
        changes.blocks.remove(&block);
        changes.revokes.insert(block);
    }

    /// All of it, for the commit: nobody is in any more.
    pub(crate) fn take(&self) -> Changes {
        std::mem::take(&mut *self.changes.lock())
    }
}
