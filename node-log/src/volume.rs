//! A volume: its two halves, and its files by name.

mod check;
mod commit;
mod open;
mod room;
mod split;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use spanlock_journal_commit::Storage;
use spanlock_range_lock::{RangeLockExt, RawRangeLock};
use spanlock_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use spanlock_sync::{BlockingMutex, Mutex, injected_bug};

pub use check::Report;
use commit::Checkpoints;
pub use split::{BlockVolume, NvmVolume};

use crate::device::DataDevice;
use crate::error::Error;
use crate::file::{File, MAX_BYTES};
use crate::home::{Home, Persisted, Removal};
use crate::inode::Inode;
use crate::log::Log;
use crate::node::{Block, Head, NAME_BYTES, Nid, Place};
use crate::options::Options;
use crate::tree::{Tree, walk};

/// A volume: files in one flat directory, their data in a log on a [`Storage`], their nodes in a
/// [`Home`]. Any number of threads may use it.
///
/// `L` is the range lock of a file. Its unit is a byte. A capacity below
/// [`MAX_FILE_BYTES`](crate::MAX_FILE_BYTES) limits the files' sizes.
pub struct Volume<H: Home, S: Storage, L: RawRangeLock> {
    pub(crate) tree: Tree<H>,
    pub(crate) data: DataDevice<S>,
    pub(crate) log: Log,
    names: Mutex<Names<L>>,
    locks: Box<dyn Fn(u64) -> L + Send + Sync>,
    checkpoints: Checkpoints,
    /// Held by the thread that cleans.
    cleaning: BlockingMutex<()>,
    /// The number of segments cleaned.
    cleaned: AtomicU64,
    failure: Failure,
    is_read_only: bool,
    /// Nodes that a read-only opening could not read.
    damaged: Vec<Error>,
}

/// The files.
struct Names<L> {
    by_name: BTreeMap<Arc<str>, Arc<Inode<L>>>,
    by_nid: BTreeMap<Nid, Arc<Inode<L>>>,
    /// The number of the last creation.
    created: u64,
}

/// The first failure after which nothing becomes durable.
struct Failure {
    is_there: AtomicBool,
    first: Mutex<Option<Arc<str>>>,
}

/// The counters of a volume since it was opened, and its present state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// What was made durable in the node half.
    pub persisted: Persisted,
    /// The number of checkpoints.
    pub checkpoints: u64,
    /// The longest time that a change of a file waited for a checkpoint.
    pub longest_stall: Duration,
    /// The number of segments cleaned.
    pub cleaned: u64,
    /// Blocks of data in use now, including those that become free once a change is durable.
    pub used: u64,
    /// Blocks of data that can be written now without cleaning.
    pub room: u64,
    /// Nodes that can be added now.
    pub free_nodes: u32,
}

impl<H: Home, S: Storage, L: RawRangeLock> Volume<H, S, L> {
    /// Creates a volume. `data` holds the data half and `nodes` the node half; both begin with
    /// zeros. `locks` returns a range lock of the capacity that it is given, in bytes.
    ///
    /// If a crash interrupts this, open the volume; if that fails, create it again.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::BadOption`], [`Error::TooSmall`], [`Error::Occupied`]: nothing
    /// was written except perhaps the superblock of the data half. [`Error::Io`].
    pub fn create(
        data: S,
        nodes: H::Medium,
        options: &Options,
        locks: impl Fn(u64) -> L + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        open::create(data, nodes, options, Box::new(locks))
    }

    /// Opens a volume. It has all changes that an `fsync` covered before it returned. Reads all
    /// nodes.
    ///
    /// # Errors
    /// [`Error::NotAVolume`], [`Error::Version`], [`Error::TooSmall`]; [`Error::Strangers`] and
    /// [`Error::Older`] if the halves do not belong together; [`Error::Corrupt`],
    /// [`Error::DamagedNode`]: nothing was written. [`Error::Io`]: opening can be tried again.
    pub fn open(
        data: S,
        nodes: H::Medium,
        options: &Options,
        locks: impl Fn(u64) -> L + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        open::open(data, nodes, options, Box::new(locks))
    }

    /// Creates an empty file. It becomes durable with its first [`fsync`](File::fsync), or at the
    /// next checkpoint. Waits for a checkpoint if the home's block writers.
    ///
    /// # Errors
    /// [`Error::BadName`], [`Error::Exists`], [`Error::NoNodes`], [`Error::ReadOnly`],
    /// [`Error::Failed`].
    pub fn create_file(&self, name: &str) -> Result<File<'_, H, S, L>, Error> {
        check_name(name)?;
        self.check_writable()?;
        let lock = (self.locks)(MAX_BYTES);
        let _shared = self.share()?;
        let nid = self.tree.nids.take()?;
        let mut names = self.names.lock();
        if names.by_name.contains_key(name) {
            drop(names);
            self.tree.nids.give_back(&[nid]);
            return Err(Error::Exists { name: name.into() });
        }
        names.created += 1;
        let head = Head {
            size: 0,
            created: names.created,
            name: name.into(),
        };
        let inode = Arc::new(Inode::new(nid, head, lock));
        self.tree.cache.add(inode.about());
        inode.note(inode.about());
        names.insert(&inode);
        Ok(File::new(self, inode))
    }

    /// Opens a file.
    ///
    /// # Errors
    /// [`Error::NotFound`].
    pub fn open_file(&self, name: &str) -> Result<File<'_, H, S, L>, Error> {
        Ok(File::new(self, self.find(name)?))
    }

    /// Removes a file. Waits while another thread reads, writes or syncs it, and for a checkpoint
    /// if the home's block writers. Whether a crash can bring the file back afterwards depends on
    /// the home: see [`Removal`].
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::ReadOnly`], [`Error::Failed`], and those of reading its nodes:
    /// the file is still there.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        self.check_writable()?;
        let inode = self.find(name)?;
        match self.remove_inode(&inode) {
            Err(Error::Removed { name }) => Err(Error::NotFound { name }),
            result => result,
        }
    }

    /// Returns the names of all files, in the order of their bytes.
    pub fn names(&self) -> Vec<String> {
        let names = self.names.lock();
        names.by_name.keys().map(|it| it.to_string()).collect()
    }

    /// Returns the counters.
    pub fn statistics(&self) -> Statistics {
        let (checkpoints, longest_stall) = self.checkpoints.counts();
        Statistics {
            persisted: self.tree.home.persisted(),
            checkpoints,
            longest_stall,
            // Relaxed: a counter.
            cleaned: self.cleaned.load(Ordering::Relaxed),
            used: self.log.used(),
            room: self.log.room(),
            free_nodes: self.tree.nids.free(),
        }
    }

    /// Returns the home.
    pub fn home(&self) -> &H {
        &self.tree.home
    }

    fn find(&self, name: &str) -> Result<Arc<Inode<L>>, Error> {
        let names = self.names.lock();
        let found = names.by_name.get(name).cloned();
        found.ok_or_else(|| Error::NotFound { name: name.into() })
    }

    fn remove_inode(&self, inode: &Arc<Inode<L>>) -> Result<(), Error> {
        let _hold = inode.lock.write(0..MAX_BYTES.min(inode.lock.capacity()))?;
        let _shared = self.share()?;
        let mut commit = inode.commit.lock();
        inode.check_present()?;
        let _tree = inode.tree.lock();
        let (mut nodes, mut blocks) = (Vec::new(), Vec::<Block>::new());
        let visit = |nid, place: Place, slots: &[u32]| {
            nodes.push(nid);
            let is_block = |(slot, value): &(usize, &u32)| **value != 0 && place.names_block(*slot);
            blocks.extend(slots.iter().enumerate().filter(is_block).map(|(_, it)| *it));
            Ok(())
        };
        let read = |nid, place| self.tree.slots(nid, place);
        walk(inode.nid, Place::INODE, 0, read, visit)?;
        let changes = std::mem::take(&mut *inode.changes.lock());
        let commit = std::mem::take(&mut *commit);
        let freed = changes.freed.iter().chain(&commit.freed);
        let is_stored = |nid: &Nid| self.tree.home.has(*nid);
        let removal = match is_stored(&inode.nid) {
            true => {
                let others = nodes.iter().chain(freed.clone());
                let others = others.filter(|it| **it != inode.nid && is_stored(it));
                let others: Vec<Nid> = others.copied().collect();
                let removed = self.tree.home.remove(inode.nid, &others);
                removed.map_err(|error| self.fail(error))?
            }
            false => Removal::Durable,
        };
        inode.set_removed();
        self.names.lock().remove(inode);
        for nid in &nodes {
            blocks.extend(self.tree.cache.remove(*nid));
        }
        blocks.extend(changes.kept.iter().chain(&commit.replaced));
        nodes.extend(freed);
        let is_early = injected_bug!(
            "removed-blocks-freed-early",
            "the blocks of a removed file are freed before the removal is durable",
            killed_by = "node-log-block/sequences-of-2"
        );
        match removal {
            _ if is_early => self.free(&blocks, &nodes),
            Removal::Durable => self.free(&blocks, &nodes),
            Removal::AtCheckpoint => self.checkpoints.keep(blocks, nodes),
        }
        Ok(())
    }

    /// Frees blocks and node ids that nothing uses any more.
    fn free(&self, blocks: &[Block], nodes: &[Nid]) {
        self.log.free(blocks);
        self.tree.nids.give_back(nodes);
    }

    /// Fails if the volume is read-only or has failed.
    pub(crate) fn check_writable(&self) -> Result<(), Error> {
        if self.is_read_only {
            return Err(Error::ReadOnly);
        }
        // Relaxed: a thread that sees it late fails at its next commit.
        if self.failure.is_there.load(Ordering::Relaxed) {
            let first = self.failure.first.lock().clone();
            let first = first.unwrap_or_else(|| "unknown".into());
            return Err(Error::Failed { first });
        }
        Ok(())
    }

    /// Marks the volume as failed: nothing more becomes durable. Returns `error`.
    pub(crate) fn fail(&self, error: Error) -> Error {
        let mut first = self.failure.first.lock();
        first.get_or_insert_with(|| error.to_string().into());
        // Relaxed: see `check_writable`. The text has its own mutex.
        self.failure.is_there.store(true, Ordering::Relaxed);
        error
    }
}

impl<L> Default for Names<L> {
    fn default() -> Self {
        Names {
            by_name: BTreeMap::new(),
            by_nid: BTreeMap::new(),
            created: 0,
        }
    }
}

impl<L> Names<L> {
    fn insert(&mut self, inode: &Arc<Inode<L>>) {
        self.by_nid.insert(inode.nid, inode.clone());
        self.by_name.insert(inode.name.clone(), inode.clone());
    }

    fn remove(&mut self, inode: &Arc<Inode<L>>) {
        self.by_nid.remove(&inode.nid);
        // Recovery may find two files of one name, and remove the older one.
        if (self.by_name.get(&inode.name)).is_some_and(|it| it.nid == inode.nid) {
            self.by_name.remove(&inode.name);
        }
    }
}

fn check_name(name: &str) -> Result<(), Error> {
    let is_right = (1..=NAME_BYTES).contains(&name.len()) && !name.contains(['/', '\0']);
    match is_right {
        true => Ok(()),
        false => Err(Error::BadName { name: name.into() }),
    }
}

impl<H: Home, S: Storage, L: RawRangeLock> fmt::Debug for Volume<H, S, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Volume").finish_non_exhaustive()
    }
}
