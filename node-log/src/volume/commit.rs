//! Making changes durable: the commit of one file, and the checkpoint of all.
//!
//! # Steps of a commit
//! 1. Capture the file's size, and then the images of its changed nodes, and of the inode if the
//!    size has changed. A block that a captured slot names has been written (N-F1). An image may
//!    have slots past its size, whose writer has not grown the file yet; recovery clears them.
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
        let mut inodes = Vec::new();
        for inode in self.inodes() {
            let mut commit = inode.commit.lock();
            self.capture(&inode, &mut commit)?;
            let has_changed = !commit.is_empty();
            drop(commit);
            if has_changed {
                inodes.push(inode);
            }
        }
        let changes = (inodes.iter()).map(|it| std::mem::take(&mut it.commit.lock().change));
        let changes: Vec<_> = changes.collect();
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
        self.capture(inode, &mut commit)?;
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

    /// Adds to `commit` what has changed in the file since its last capture. If that fails, nothing
    /// is captured.
    fn capture(&self, inode: &Inode<L>, commit: &mut Commit) -> Result<(), Error> {
        // N-T3: no node is added or deleted meanwhile.
        let _tree = inode.tree.lock();
        let mut size = inode.size();
        // A writer raises the size after it has set its slots, so the last capture may have taken
        // these with the size before.
        if size != inode.captured_size()
            && !injected_bug!(
                "loses-a-growth",
                "a capture takes the inode only if a writer has made it dirty",
                killed_by = "node-log-nvm/append-fsync, node-log-block/append-fsync"
            )
        {
            self.tree.touch(inode)?;
        }
        let changes = std::mem::take(&mut *inode.changes.lock());
        if changes.dirty.is_empty() && changes.freed.is_empty() {
            return Ok(());
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
            let head = (about.nid == inode.nid).then(|| {
                inode.set_captured_size(size);
                inode.head(size)
            });
            stores.push(Stored {
                nid: about.nid,
                bytes: encode(about, head.as_ref(), &captured.slots),
            });
            commit.replaced.extend(captured.replaced);
        }
        // Children before parents, the inode last.
        stores.sort_by_key(|it| match place_in(&it.bytes).level() {
            0 => u32::MAX,
            level => level,
        });
        commit.change.inode = inode.nid;
        let stored = commit.freed.iter().filter(|it| self.tree.home.has(**it));
        commit.change.frees = stored.copied().collect();
        Ok(())
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

#[cfg(all(test, not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))))]
mod tests {
    use spanlock_interval_lock::IntervalLock;
    use spanlock_journal_commit::testing::Recorded;
    use spanlock_pmem::simulated::Simulated;

    use super::*;
    use crate::{Nvm, NvmVolume, Options};

    /// The size is raised when a capture has already taken the slots, as by a writer that has not
    /// returned. It is durable after the next `fsync`.
    #[test]
    fn a_size_that_a_capture_has_missed_is_in_the_next_one() {
        let data = Arc::new(Recorded::new(128 * 4096));
        let region = Simulated::new(&vec![0; 1 << 20]);
        let (nodes, options) = (Nvm::new(region), Options::new().segment_blocks(8));
        let locks = |_| IntervalLock::new();
        let volume = NvmVolume::create(data.clone(), nodes.clone(), &options, locks).unwrap();
        let file = volume.create_file("file").unwrap();
        file.write_at(&[1; 4096], 0).unwrap();
        file.fsync().unwrap();
        volume.find("file").unwrap().grow(5000);
        file.fsync().unwrap();
        drop(volume);
        let volume = NvmVolume::open(data, nodes, &options, locks).unwrap();
        assert_eq!(volume.open_file("file").unwrap().len(), 5000);
    }
}
