//! The journal's public API.

use std::fmt;
use std::io;
use std::sync::Arc;

use spanlock_sync::thread;

use super::error::Error;
use super::ext4::FileSystem;
use super::format::{Flushes, Tid};
use super::handle::Handle;
use super::inner::{Inner, Stats};
use super::options::Options;
use super::place::Blocks;
use super::recover::{Recovery, replay};
use super::superblock::{FormatOptions, Superblock, check_block_bytes, format_blocks, is_unused};
use crate::storage::Storage;

/// A journal of block-level transactions, in JBD2's format.
///
/// Dropping the journal stops its thread. A commit that is under way ends first, and no other
/// commit starts. Committed transactions are in the log, and are recovered when the journal is
/// opened again. Uncommitted transactions are lost. After [`close`](Journal::close) there is
/// nothing to recover.
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
/// // Until this returns, a crash leaves both changes or neither; afterwards, both.
/// handle.stop_durable()?;
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
    /// `None` once the thread has been told to stop.
    thread: Option<thread::JoinHandle<()>>,
    recovery: Recovery,
}

impl Journal {
    /// Opens the journal in `log` for the blocks of `home`, recovers it, and starts its thread.
    ///
    /// If the journal lies inside the storage that it protects, pass two `Arc`s of that storage as
    /// `log` and `home`. Handles must then not change the journal's own blocks; the journal does
    /// not check this.
    ///
    /// # ext4
    /// If `home` is an ext4 file system, the journal also keeps the flag `needs_recovery` in the
    /// superblock of that file system, so that `e2fsck` and Linux replay what a crash leaves in the
    /// log. The flag is set before the log has its first transaction. [`close`](Journal::close)
    /// clears it if this is the file system's own journal. The caller has to do nothing for it. A
    /// file system of another kind may have a flag of its own, which the caller sets before opening
    /// and clears after closing.
    ///
    /// # Errors
    /// As for [`recover`](super::recover()). In addition, opening fails if the superblock is of
    /// version 1, which has no feature flags.
    pub fn open(
        log: impl Storage + 'static,
        home: impl Storage + 'static,
        options: Options,
    ) -> Result<Journal, Error> {
        check_block_bytes(options.block_bytes)?;
        check_threads(!cfg!(all(
            target_family = "wasm",
            not(target_feature = "atomics")
        )))?;
        let blocks = Blocks::new(Arc::new(log), &options.place, options.block_bytes)?;
        let mut superblock = Superblock::read(&blocks, &options.place)?;
        if !superblock.has_features() {
            let what = "its version is 1, which has no revokes: format the journal again";
            return Err(Error::BadSuperblock { what });
        }
        let home: Arc<dyn Storage> = Arc::new(home);
        let file_system = FileSystem::find(&home, &blocks, &options.place, &superblock)?;
        let recovery = replay(&blocks, &superblock, &home, file_system)?;
        if let Some(file_system) = file_system {
            (file_system.begin(&home)).map_err(Error::io("setting the file system's flag"))?;
        }
        superblock.allow_revokes();
        superblock.set(recovery.next, superblock.first());
        (superblock.write(&blocks, &options.place)).map_err(Error::io("beginning a new log"))?;
        let inner = Arc::new(Inner::new(
            options,
            blocks,
            home,
            file_system,
            superblock,
            &recovery,
        ));
        let shared = inner.clone();
        Ok(Journal {
            inner,
            thread: Some(thread::spawn(move || shared.run())),
            recovery,
        })
    }

    /// Opens the journal in `log` as [`open`](Self::open) does. If the place that the options name
    /// has only zeros, formats a journal there first, whose commits take `flushes`.
    ///
    /// If a crash interrupts the creation, the next call with the same options and length completes
    /// it. Such a remnant has a random UUID and a checksum at bytes 48 to 63 and 252 to 255 of the
    /// superblock: data that differs from zeros only there is overwritten.
    ///
    /// # Errors
    /// [`Error::NotAJournal`] if the place has other contents, which stay as they are. Otherwise as
    /// for [`open`](Self::open) and [`format`](super::format()).
    pub fn open_or_create(
        log: impl Storage + 'static,
        home: impl Storage + 'static,
        options: Options,
        flushes: Flushes,
    ) -> Result<Journal, Error> {
        check_block_bytes(options.block_bytes)?;
        let log: Arc<dyn Storage> = Arc::new(log);
        let blocks = Blocks::new(log.clone(), &options.place, options.block_bytes)?;
        let new = FormatOptions::new(options.block_bytes)
            .place(options.place.clone())
            .flushes(flushes);
        if is_unused(&blocks, &new).map_err(Error::io("looking for a journal"))? {
            format_blocks(&blocks, &new)?;
        }
        Journal::open(log, home, options)
    }

    /// Returns what opening the journal recovered.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Begins a handle with room for `credits` changed or revoked blocks. The handle joins the
    /// running transaction, or begins one if none is running.
    ///
    /// Blocks while the running transaction is full, or locked for its commit. If the log has no
    /// room for a new transaction, this thread first writes blocks home.
    pub fn begin(&self, credits: u32) -> Result<Handle<'_>, Error> {
        self.inner.begin(credits)
    }

    /// Reads the newest content of a block, even if it is not committed yet. `into` must have the
    /// size of a block. While a handle stops, one read may see its changes, and a next one of
    /// another block may miss them.
    pub fn read(&self, block: u64, into: &mut [u8]) -> Result<(), Error> {
        self.inner.check_read(block, into.len())?;
        self.inner.read(block, into)
    }

    /// Requests the commit of a transaction and of all earlier transactions. Returns at once.
    pub fn commit(&self, tid: Tid) -> Result<(), Error> {
        self.inner.commit(tid)
    }

    /// Requests the commit of a transaction, and blocks until the transaction is durable. With
    /// [`CommitWay::Cooperative`](super::CommitWay), this thread helps to write it.
    ///
    /// # Errors
    /// [`Error::NoSuchTransaction`] if the transaction has not begun. [`Error::Poisoned`] if the
    /// journal was poisoned before the commit was acknowledged; the transaction may then be on the
    /// medium or not.
    pub fn wait(&self, tid: Tid) -> Result<(), Error> {
        self.inner.wait(tid)
    }

    /// Returns counters of the journal since it was opened.
    pub fn stats(&self) -> Stats {
        self.inner.state.lock().stats
    }

    /// Returns the largest number of credits that a handle can have.
    pub fn most_credits(&self) -> u32 {
        self.inner.log.most_credits
    }

    /// Returns the failure that poisoned the journal, if there was one.
    pub fn check(&self) -> Result<(), Error> {
        Ok(self.inner.medium.check()?)
    }

    /// Commits the running transaction, writes all blocks home, and leaves an empty log. Handles
    /// borrow the journal, so all handles have ended or were forgotten. A forgotten handle in the
    /// running transaction blocks this call for ever.
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
            // Only forgotten handles can be left. They must not delay the drop.
            running.updates.wake();
        }
        if let Some(thread) = self.thread.take() {
            // The thread catches its own panics; they have poisoned the journal.
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

/// Checks that the target can start the journal's thread. If it cannot, starting one panics.
fn check_threads(has_threads: bool) -> Result<(), Error> {
    if has_threads {
        return Ok(());
    }
    let what = "this target has no threads: use the compact log";
    let error = io::Error::new(io::ErrorKind::Unsupported, what);
    Err(Error::io("starting the journal's thread")(error))
}

#[cfg(all(test, not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn without_threads_there_is_an_error() {
        assert!(check_threads(true).is_ok());
        let Error::Io { source, .. } = check_threads(false).unwrap_err() else {
            panic!("another error");
        };
        assert_eq!(source.kind(), io::ErrorKind::Unsupported);
    }
}
