//! A write-ahead log of records, appended by many threads. One flush makes the records of all
//! waiting threads durable.
//!
//! # The problem
//! A storage engine writes each change into a log before it applies the change, and continues once
//! the log is durable. JBD2's journal is such a log of *blocks*. For a change of 256 bytes, it
//! writes a block of 4096 bytes, a descriptor and a commit block, usually with two flushes.
//!
//! This log holds *records* of any length, packed into *batches*. One flush makes a batch durable:
//! recovery needs no separate commit block, because a checksum shows whether the batch is complete.
//!
//! # Properties
//! - **Appending** copies the record into the open batch and returns its number. **Waiting** for a
//!   number blocks until it is durable. [`Log::append_durable`] does both.
//! - **One write and one flush** serve all records collected so far. One of the waiting threads,
//!   the *leader*, does both: see [`group`]. With the [`rendezvous`], the default, *N* threads that
//!   only commit get nearly *N* commits per flush.
//! - **Order**: records are numbered in the order of appending. The durable records are always a
//!   prefix.
//! - **A ring**: the storage has a fixed length and never grows. Truncating the front frees room. A
//!   full log refuses records and loses none. Compared with a log of several segment files, a ring
//!   has two advantages. Its file has a fixed size, and all of its blocks have been written before,
//!   so a flush writes no metadata. It neither creates nor removes files, so it also works on a
//!   device or in persistent memory.
//! - **Recovery** keeps every acknowledged record, and no record that follows a missing one. As far
//!   as the bytes allow, it distinguishes the end of an interrupted write from data that the medium
//!   lost. `docs/compact.md` has the format and every case of a crash.
//! - **Failure**: one failed write or flush *poisons* the log: no further record is acknowledged.
//!   Every waiting thread and every later caller gets the error, unless its record is already
//!   durable. Open the log again to continue.
//! - **Cost**: the appending thread computes its record's checksum, in parallel with others, and
//!   copies the record under a mutex. Apart from the write itself, the leader's work does not
//!   depend on the number of bytes. The log keeps two batches in memory.
//!
//! # Reading order
//! 1. `group.rs` and [`rendezvous`]: which thread commits, and when.
//! 2. `format.rs`: the encoding. `recover.rs`: reading the log after a crash.
//! 3. `batch.rs`, `ring.rs` and `marks.rs`: the parts of a log.
//! 4. `opening.rs`: creating and opening a log, at once or lazily.
//! 5. This file, which combines them.
//!
//! # Locks
//! Lock order: `superblock`, then `medium`, then either the group's mutex or `ends`. A thread holds
//! only the first two during an operation on the storage.
//!
//! `medium` serializes the writes of batches and superblocks. On Linux, a failed write-back can
//! lose data that other threads wrote and have not flushed, and a later flush then succeeds
//! nevertheless. A flush that runs at the same time as a failing one therefore proves nothing. With
//! one operation at a time, a failure is known before the next operation begins.

pub mod group;

mod batch;
mod error;
mod format;
mod lsn;
mod marks;
mod opening;
mod options;
mod records;
mod recover;
mod ring;

use std::fmt;

use spanlock_sync::{Mutex, injected_bug, is_flush_left_out, time};

use crate::Storage;
use crate::unwind::OnUnwind;
use batch::{Load, Open, Refusal};
use format::{HEADER, RECORD, SLOTS, Superblock};
use group::{Failure, Group};
use marks::{Mark, Marks};
use opening::Opening;
use options::is_block;
use ring::Ring;

pub use crate::rendezvous::{self, Rendezvous};
pub use error::Error;
pub use lsn::Lsn;
pub use options::{GroupCommit, Options};
pub use records::{Record, Records};
pub use recover::Recovery;

/// A write-ahead log. See the [module](self).
///
/// ```
/// use spanlock_journal_commit::compact::{Error, Log, Options};
/// # use spanlock_journal_commit::testing::Recorded;
///
/// # let storage = Recorded::new(1 << 20);
/// let log = Log::create(&storage, &Options::new())?;
/// std::thread::scope(|scope| {
///     for thread in 0..4_u8 {
///         let log = &log;
///         scope.spawn(move || log.append_durable(&[thread; 100]).unwrap());
///     }
/// });
/// // Or in two steps: waiting for the second record covers the first one too.
/// log.append(b"debit")?;
/// let credit = log.append(b"credit")?;
/// log.wait(credit)?;
/// drop(log);
///
/// let log = Log::open(&storage, &Options::new())?;
/// let last = log.records().last().unwrap()?;
/// assert_eq!((last.lsn, &last.data[..]), (credit, &b"credit"[..]));
/// log.truncate(credit)?; // Frees the records before it.
/// assert_eq!(log.records().count(), 1);
/// # Ok::<(), Error>(())
/// ```
pub struct Log<S> {
    ring: Ring<S>,
    epoch: u64,
    group: Group<Open, Error, Option<Rendezvous>>,
    ends: Mutex<Ends>,
    superblock: Mutex<Superblock>,
    /// A thread holds this while it writes to the storage.
    medium: Mutex<WriteTurn>,
    recovery: Recovery,
}

/// The right to write to the storage.
struct WriteTurn {
    /// The writes of opening, if they are still to be done. They come before any other write.
    opening: Option<Opening>,
}

/// The positions of the durable batches.
#[derive(Debug)]
struct Ends {
    marks: Marks,
    stats: Stats,
}

/// Counters of a log since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Records that became durable.
    pub records: u64,
    /// Batches that became durable, each by one flush.
    pub flushes: u64,
    /// Bytes of these batches, in whole blocks.
    pub bytes: u64,
}

impl<S: Storage> Log<S> {
    fn new(
        ring: Ring<S>,
        superblock: Superblock,
        marks: Marks,
        recovery: Recovery,
        options: &Options,
        opening: Option<Opening>,
    ) -> Self {
        let Mark { position, record } = marks.end();
        let limit = superblock.head + ring.len;
        let most = options.batch_bytes.min(Self::MOST);
        let open = Open::new(position, record, limit, ring.block, most);
        let rendezvous = match options.group_commit {
            GroupCommit::Plain => None,
            // Without a clock there is no second thread to meet either.
            GroupCommit::Rendezvous => time::now().map(Rendezvous::at),
        };
        let stats = Stats::default();
        Log {
            epoch: superblock.epoch,
            group: Group::new(record, open, rendezvous),
            ends: Mutex::new(Ends { marks, stats }),
            superblock: Mutex::new(superblock),
            medium: Mutex::new(WriteTurn { opening }),
            ring,
            recovery,
        }
    }

    /// The maximum size of a batch, whose lengths have 32 bits.
    const MOST: usize = 1 << 30;

    /// Adds a record to the open batch and returns its number. The record becomes durable when a
    /// thread [waits](Self::wait) for it or for a later one.
    ///
    /// Blocks only if the batch has reached its maximum size; this thread then commits it first.
    ///
    /// # Errors
    /// [`Error::Full`] and [`Error::RecordTooLarge`], if the record does not fit.
    /// [`Error::Poisoned`] and [`Error::Panicked`], if the log has failed. [`Error::ReadOnly`], as
    /// [`open`](Self::open) says. In each case, the record was not added.
    ///
    /// # Panics
    /// As [`wait`](Self::wait), if this thread commits the full batch.
    pub fn append(&self, record: &[u8]) -> Result<Lsn, Error> {
        let max = self.max_record();
        if record.len() as u64 > max {
            let len = record.len();
            return Err(Error::RecordTooLarge { len, max });
        }
        let checksum = crc32c::crc32c(record);
        loop {
            let joined = self.group.join(|open, _| open.add(record, checksum));
            match joined.map_err(error)? {
                Ok((number, ())) => return Ok(Lsn(number)),
                Err(Refusal::Batch) => self.commit()?,
                Err(Refusal::Ring { needed, free }) => return Err(Error::Full { needed, free }),
            }
        }
    }

    /// [Appends](Self::append) a record, and blocks until it is durable.
    ///
    /// # Errors
    /// As [`append`](Self::append). After [`Error::Poisoned`] and [`Error::Panicked`], the record
    /// may nevertheless be durable.
    pub fn append_durable(&self, record: &[u8]) -> Result<Lsn, Error> {
        let lsn = self.append(record)?;
        self.wait_for(lsn)?;
        Ok(lsn)
    }

    /// Blocks until the record and all before it are durable. One of the waiting threads writes and
    /// flushes for all.
    ///
    /// # Errors
    /// [`Error::NotYet`] if there is no such record; [`Error::Poisoned`] or [`Error::Panicked`] if
    /// the log failed before the record was durable.
    ///
    /// # Panics
    /// If the storage panics.
    pub fn wait(&self, lsn: Lsn) -> Result<(), Error> {
        if lsn > self.durable() {
            let next = Lsn(self.group.last()).next();
            if lsn >= next {
                return Err(Error::NotYet { lsn, next });
            }
        }
        self.wait_for(lsn)
    }

    /// Blocks until all appended records are durable.
    ///
    /// # Errors
    /// [`Error::Poisoned`], [`Error::Panicked`].
    pub fn commit(&self) -> Result<(), Error> {
        self.wait_for(Lsn(self.group.last()))
    }

    /// Returns the last durable record, or the number before the first if there is none.
    ///
    /// Recovered records count as durable. After [`open_lazily`](Self::open_lazily), they count
    /// even before the first write. There is one case in which they are not durable then, which
    /// [`open_lazily`](Self::open_lazily) explains.
    pub fn durable(&self) -> Lsn {
        Lsn(self.group.durable())
    }

    /// Returns the first record that was not truncated.
    pub fn first(&self) -> Lsn {
        Lsn(self.superblock.lock().first_record)
    }

    /// Iterates over all records that are durable now, from the first that was not truncated.
    ///
    /// Reads the storage one batch at a time. If a record is truncated meanwhile, the iterator may
    /// still return it, or may end with [`Error::Truncated`].
    pub fn records(&self) -> Records<'_, S> {
        Records::new(self, self.first().0)
    }

    /// Iterates as [`records`](Self::records) does, starting at `lsn`.
    ///
    /// # Errors
    /// [`Error::Truncated`] if that record was truncated; [`Error::NotYet`] if its number is
    /// greater than that of the next record to become durable.
    pub fn records_from(&self, lsn: Lsn) -> Result<Records<'_, S>, Error> {
        let (first, next) = (self.first(), self.durable().next());
        if lsn < first {
            return Err(Error::Truncated { lsn, first });
        }
        if lsn > next {
            return Err(Error::NotYet { lsn, next });
        }
        Ok(Records::new(self, lsn.0))
    }

    /// Truncates the records before `lsn`, durably, and frees their room. Up to a 256th of the log,
    /// and one batch, may remain occupied until a later call.
    ///
    /// To truncate all records, pass [`durable`](Self::durable)`().next()`. If the records before
    /// `lsn` are already truncated, the call does nothing. Other threads can append meanwhile. A
    /// call costs two durable writes of a block, so on a disk do not truncate after every record.
    ///
    /// After the call has returned `Ok`, no recovery returns a record before `lsn`. Both
    /// superblocks are durable then, so this holds even if the medium later loses one of them. If
    /// the call fails or a crash interrupts it, recovery returns all of these records or none.
    ///
    /// # Errors
    /// [`Error::NotYet`] if a record before `lsn` is not durable; [`Error::Poisoned`],
    /// [`Error::Panicked`], [`Error::ReadOnly`].
    pub fn truncate(&self, lsn: Lsn) -> Result<(), Error> {
        let mut superblock = self.superblock.lock();
        self.check()?;
        if lsn.0 <= superblock.first_record {
            return Ok(());
        }
        let (head, end) = {
            let ends = self.ends.lock();
            (ends.marks.before(lsn.0), ends.marks.end())
        };
        if lsn.0 > end.record {
            let next = Lsn(end.record);
            return Err(Error::NotYet { lsn, next });
        }
        let limit = head.position + self.ring.len;
        if injected_bug!(
            "limit-before-superblock",
            "a truncation frees the room of records before the superblock says so",
            killed_by = "compact-log-full/commit-truncate, compact-log-full/large-truncate"
        ) {
            self.group.open(|open| open.set_limit(limit));
        }
        self.change(&mut superblock, |new| {
            new.head = head.position;
            new.head_record = head.record;
            new.first_record = lsn.0;
            // If all settled batches are truncated, the batches from the head on are not settled.
            new.settled = new.settled.max(head.position);
        })?;
        self.ends.lock().marks.cut(head);
        self.group.open(|open| open.set_limit(limit));
        Ok(())
    }

    /// Commits all appended records, and stores the end of the log in the superblock. So the next
    /// opening can detect damage even in the last batch.
    ///
    /// If a log is dropped instead, the records after the last committed one are lost, as in a
    /// crash. If a log was opened [lazily](Self::open_lazily) and only read, drop it to leave its
    /// storage unchanged.
    ///
    /// # Errors
    /// [`Error::Poisoned`], [`Error::Panicked`], [`Error::ReadOnly`].
    pub fn close(self) -> Result<(), Error> {
        self.commit()?;
        let settled = self.ends.lock().marks.end().position;
        self.change(&mut self.superblock.lock(), |new| {
            new.closed = true;
            new.settled = settled;
            // Settled batches belong to earlier epochs (C-R2).
            new.epoch += 1;
        })
    }

    /// Returns the result of the recovery when the log was opened.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Returns counters of the log since it was opened.
    pub fn stats(&self) -> Stats {
        self.ends.lock().stats
    }

    /// Returns the length of the largest record that fits into an empty log.
    pub fn max_record(&self) -> u64 {
        (self.ring.len).min(Self::MOST as u64) - (HEADER + RECORD) as u64
    }

    /// Returns the number of bytes that are free for further batches. A batch takes 56 bytes, plus
    /// 8 bytes and the record's length for each record, rounded up to whole blocks.
    pub fn free(&self) -> u64 {
        self.group.open(|open| open.free())
    }

    fn wait_for(&self, lsn: Lsn) -> Result<(), Error> {
        let result = self.group.wait(lsn.0, |load| self.write(load));
        result.map_err(error)
    }

    /// Writes and flushes a batch: the leader's work.
    fn write(&self, load: &mut Load) -> Result<(), Error> {
        load.seal(self.ring.id, self.epoch, self.ring.block);
        let mut one_at_a_time = (!injected_bug!(
            "leader-without-medium",
            "a leader writes a batch while another thread writes a superblock",
            killed_by = "compact-log-failure/commit-failing-truncate"
        ))
        .then(|| self.medium.lock());
        self.check()?;
        if let Some(medium) = &mut one_at_a_time
            && !injected_bug!(
                "opening-skipped-by-batch",
                "the first batch after a lazy opening is written without the writes of opening",
                killed_by = "compact-log-part/commit-commit, compact-log-new/commit-commit"
            )
        {
            self.write_opening(medium)?;
        }
        self.poisoning(|| {
            (self.ring.write(&load.bytes, load.position))
                .map_err(Error::poisoned("writing a batch"))?;
            if is_flush_left_out() {
                return Ok(());
            }
            (self.ring.storage.flush()).map_err(Error::poisoned("flushing a batch"))
        })?;
        drop(one_at_a_time);
        let mut ends = self.ends.lock();
        ends.marks
            .advance(load.end(), load.first + u64::from(load.count));
        ends.stats.records += u64::from(load.count);
        ends.stats.flushes += 1;
        ends.stats.bytes += load.bytes.len() as u64;
        Ok(())
    }

    /// Changes the superblock durably. If that fails, poisons the log.
    fn change(
        &self,
        superblock: &mut Superblock,
        change: impl FnOnce(&mut Superblock),
    ) -> Result<(), Error> {
        let mut new = superblock.clone();
        new.serial += 1;
        change(&mut new);
        let mut one_at_a_time = self.medium.lock();
        self.check()?;
        if !injected_bug!(
            "opening-skipped-by-truncation",
            "the first truncation after a lazy opening leaves out the writes of opening",
            killed_by = "compact-log-reopened/sequences-of-3"
        ) {
            self.write_opening(&mut one_at_a_time)?;
        }
        self.poisoning(|| {
            recover::write(&self.ring.storage, &new, SLOTS)
                .map_err(Error::poisoned("writing the superblock"))
        })?;
        *superblock = new;
        Ok(())
    }

    /// Does the writes of opening, unless they are done. A failure poisons the log.
    fn write_opening(&self, medium: &mut WriteTurn) -> Result<(), Error> {
        let Some(opening) = &medium.opening else {
            return Ok(());
        };
        self.poisoning(|| opening.write(&self.ring).map_err(Error::into_poisoned))?;
        medium.opening = None;
        Ok(())
    }

    /// Performs an operation on the storage. If it fails or panics, records that before the caller
    /// releases `medium`: otherwise, another operation could begin in between.
    fn poisoning(&self, operation: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        let poison = OnUnwind::run(|| self.group.fail(Failure::Panicked));
        let result = operation();
        poison.disarm();
        if let Err(error) = &result {
            self.group.fail(Failure::Failed(error.clone()));
        }
        result
    }

    /// Returns an error if the log has failed.
    fn check(&self) -> Result<(), Error> {
        self.group
            .failure()
            .map_or(Ok(()), |failure| Err(error(failure)))
    }
}

impl<S> fmt::Debug for Log<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ends = self.ends.lock();
        f.debug_struct("Log")
            .field("ring", &self.ring.len)
            .field("end", &ends.marks.end())
            .field("stats", &ends.stats)
            .finish_non_exhaustive()
    }
}

fn error(failure: Failure<Error>) -> Error {
    match failure {
        Failure::Failed(error) => error,
        Failure::Panicked => Error::Panicked,
    }
}
