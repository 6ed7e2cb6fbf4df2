//! Making changes durable: the commit of one file, and the checkpoint of all.
//!
//! # Steps of a commit
//! 1. Capture the file's size, and then the images of its changed nodes. A block that a captured
//!    slot names has been written (N-F1). An image may have slots past its size, whose writer has
//!    not grown the file yet; recovery clears them. If the file grows meanwhile, the inode stays
//!    dirty.
//! 2. Flush the data. The flush returns a `DataDurable`.
//! 3. Commit the images, all or nothing. The commit takes that token.
//! 4. Free the blocks that only older images name.

use std::sync::Arc;
use std::time::{Duration, Instant};

use spanlock_journal_commit::Storage;
use spanlock_range_lock::{RangeLockExt, RawRangeLock, ReadHold, RwDistributed};
use spanlock_sync::atomic::{AtomicU64, Ordering};
use spanlock_sync::{Mutex, injected_bug, time};

use super::Volume;
use crate::device::DataDurable;
use crate::error::Error;
use crate::home::{Home, Stored};
use crate::inode::{Commit, Inode};
use crate::node::{Block, Nid, encode, place_in};

/// When checkpoints are made, and what they free.
pub(super) struct Checkpoints {
    /// Every change holds it shared, if the home's checkpoints block writers: F2FS's `cp_rwsem`.
    lock: RwDistributed,
    /// The blocks and node ids of removed files, which the next checkpoint frees.
    kept: Mutex<(Vec<Block>, Vec<Nid>)>,
    every: Option<Duration>,
    last: Mutex<Option<Instant>>,
    count: AtomicU64,
    /// In nanoseconds.
    longest_stall: AtomicU64,
}

impl Checkpoints {
    pub(super) fn new(every: Option<Duration>) -> Self {
        Checkpoints {
            lock: RwDistributed::new(),
            kept: Mutex::default(),
            every,
            last: Mutex::new(time::now()),
            count: AtomicU64::new(0),
            longest_stall: AtomicU64::new(0),
        }
    }

    /// Keeps the blocks and ids of a removed file until the next checkpoint.
    pub(super) fn keep(&self, blocks: Vec<Block>, nodes: Vec<Nid>) {
        let mut kept = self.kept.lock();
        kept.0.extend(blocks);
        kept.1.extend(nodes);
    }

    /// Returns the number of checkpoints, and the longest stall.
    pub(super) fn counts(&self) -> (u64, Duration) {
        // Relaxed: counters.
        let stall = self.longest_stall.load(Ordering::Relaxed);
        let count = self.count.load(Ordering::Relaxed);
        (count, Duration::from_nanos(stall))
    }

    /// Returns whether a checkpoint is due. Only one thread gets `true`.
    fn is_due(&self) -> bool {
        if time::IS_CHECKED {
            return false;
        }
        let (Some(every), Some(now)) = (self.every, time::now()) else {
            return false;
        };
        let mut last = self.last.lock();
        let is_due = last.is_none_or(|it| now.duration_since(it) >= every);
        if is_due {
            *last = Some(now);
        }
        is_due
    }

    fn note_stall(&self, began: Option<Instant>) {
        let stall = began.map_or(0, |it| it.elapsed().as_nanos() as u64);
        // Relaxed: a statistic.
        self.longest_stall.fetch_max(stall, Ordering::Relaxed);
    }
}

impl<H: Home, S: Storage, L: RawRangeLock> Volume<H, S, L> {
    /// Makes durable every change that returned before this call, and frees the blocks and node ids
    /// of removed files. Blocks until then. If the home's checkpoints block writers, all changes
    /// wait meanwhile.
    ///
    /// # Errors
    /// As for [`File::fsync`](crate::File::fsync).
    pub fn checkpoint(&self) -> Result<(), Error> {
        self.check_writable()?;
        *self.checkpoints.last.lock() = time::now();
        let kept = std::mem::take(&mut *self.checkpoints.kept.lock());
        let result = match H::BLOCKS_WRITERS {
            true => self.checkpoint_blocked(),
            false => self.checkpoint_beside(),
        };
        if let Err(error) = result {
            self.checkpoints.keep(kept.0, kept.1);
            return Err(error);
        }
        self.free(&kept.0, &kept.1);
        // Relaxed: a counter.
        self.checkpoints.count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Commits one file after the other. Other threads go on.
    fn checkpoint_beside(&self) -> Result<(), Error> {
        for inode in self.inodes() {
            self.sync(&inode)?;
        }
        let result = self
            .flush()
            .and_then(|data| self.tree.home.checkpoint(&[], data));
        result.map_err(|error| self.judge(error))
    }

    /// Commits all files together. No file changes meanwhile.
    fn checkpoint_blocked(&self) -> Result<(), Error> {
        let _all = self.checkpoints.lock.write(0..1)?;
        let (mut inodes, mut changes) = (Vec::new(), Vec::new());
        for inode in self.inodes() {
            let mut commit = inode.commit.lock();
            self.capture(&inode, &mut commit);
            if !commit.is_empty() {
                changes.push(std::mem::take(&mut commit.change));
                drop(commit);
                inodes.push(inode);
            }
        }
        let result = self
            .flush()
            .and_then(|data| self.tree.home.checkpoint(&changes, data));
        for (inode, change) in inodes.iter().zip(changes) {
            inode.commit.lock().change = change;
        }
        result.map_err(|error| self.judge(error))?;
        for inode in inodes {
            self.settle(std::mem::take(&mut *inode.commit.lock()));
        }
        Ok(())
    }

    /// Makes durable a file's changes that returned before this call, and a checkpoint if one is
    /// due.
    pub(crate) fn fsync(&self, inode: &Arc<Inode<L>>) -> Result<(), Error> {
        self.check_writable()?;
        inode.sync.pass(|| self.commit(inode))?;
        match self.checkpoints.is_due() {
            true => self.checkpoint(),
            false => Ok(()),
        }
    }

    /// Makes a file's changes durable, unless it has been removed.
    pub(super) fn sync(&self, inode: &Arc<Inode<L>>) -> Result<(), Error> {
        match inode.sync.pass(|| self.commit(inode)) {
            Err(Error::Removed { .. }) => Ok(()),
            result => result,
        }
    }

    fn commit(&self, inode: &Inode<L>) -> Result<(), Error> {
        let _shared = self.share()?;
        let mut commit = inode.commit.lock();
        inode.check_present()?;
        self.check_writable()?;
        self.capture(inode, &mut commit);
        if commit.is_empty() {
            return Ok(());
        }
        let frees_early = injected_bug!(
            "frees-before-commit",
            "blocks that stored nodes name are freed before the commit that replaces them",
            killed_by = "node-log-nvm/write-fill, node-log-block/write-fill"
        );
        if frees_early {
            self.log.free(&std::mem::take(&mut commit.replaced));
        }
        let data = self.flush()?;
        let result = self.tree.home.commit(&commit.change, data);
        result.map_err(|error| self.judge(error))?;
        self.settle(std::mem::take(&mut *commit));
        Ok(())
    }

    fn flush(&self) -> Result<DataDurable, Error> {
        self.data.flush().map_err(|error| self.fail(error))
    }

    /// Fails the volume unless the node half is full: the same change may succeed later then.
    fn judge(&self, error: Error) -> Error {
        match error.is_full() {
            true => error,
            false => self.fail(error),
        }
    }

    /// Adds to `commit` what has changed in the file since its last capture.
    fn capture(&self, inode: &Inode<L>, commit: &mut Commit) {
        // N-T3: no node is added or deleted meanwhile.
        let _tree = inode.tree.lock();
        let mut size = inode.size();
        let changes = std::mem::take(&mut *inode.changes.lock());
        if changes.dirty.is_empty() && changes.freed.is_empty() {
            return;
        }
        commit.replaced.extend(changes.kept);
        commit.freed.extend(changes.freed);
        let stores = &mut commit.change.stores;
        // Drop images that an earlier commit had no room for, if this capture replaces them.
        stores.retain(|it| {
            let is_new = changes.dirty.iter().any(|about| about.nid == it.nid);
            !is_new && !commit.freed.contains(&it.nid)
        });
        for about in changes.dirty {
            let captured = self.tree.cache.capture(about.nid);
            if injected_bug!(
                "captures-size-last",
                "a file's size is captured after its slots",
                killed_by = "node-log-nvm/write-grow, node-log-block/write-grow"
            ) {
                size = inode.size();
            }
            let head = (about.nid == inode.nid).then(|| inode.head(size));
            stores.push(Stored {
                nid: about.nid,
                bytes: encode(about, head.as_ref(), &captured.slots),
            });
            commit.replaced.extend(captured.replaced);
        }
        let is_behind = stores.iter().any(|it| it.nid == inode.nid) && inode.size() != size;
        if is_behind
            && !injected_bug!(
                "loses-a-growth",
                "a file that grows while it is captured counts as clean",
                killed_by = "node-log-nvm/append-fsync, node-log-block/append-fsync"
            )
        {
            // Its writer may have found the inode dirty, before this capture made it clean.
            let touched = self.tree.touch(inode);
            touched.expect("a captured node stays cached until it is settled");
        }
        // Children before parents, the inode last.
        stores.sort_by_key(|it| match place_in(&it.bytes).level() {
            0 => u32::MAX,
            level => level,
        });
        commit.change.inode = inode.nid;
        let stored = commit.freed.iter().filter(|it| self.tree.home.has(**it));
        commit.change.frees = stored.copied().collect();
    }

    /// Settles the nodes of a durable commit, and frees what it replaced.
    fn settle(&self, commit: Commit) {
        for stored in &commit.change.stores {
            self.tree.cache.settle(stored.nid);
        }
        self.free(&commit.replaced, &commit.freed);
    }

    /// Keeps checkpoints away while the caller changes something, if they block writers.
    pub(crate) fn share(&self) -> Result<Option<ReadHold<'_, RwDistributed>>, Error> {
        if !H::BLOCKS_WRITERS {
            return Ok(None);
        }
        let lock = &self.checkpoints.lock;
        if let Ok(hold) = lock.try_read(0..1) {
            return Ok(Some(hold));
        }
        let began = time::now();
        let hold = lock.read(0..1)?;
        self.checkpoints.note_stall(began);
        Ok(Some(hold))
    }

    pub(super) fn inodes(&self) -> Vec<Arc<Inode<L>>> {
        self.names.lock().by_nid.values().cloned().collect()
    }
}
