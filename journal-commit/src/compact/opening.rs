//! Creating and opening a log: at once, or lazily, with the first write.
//!
//! Opening reads the whole log first, and then writes: the last batch once more (C-R4 in
//! `recover.rs`), and the superblocks of a new epoch (C-R2). Creating a log writes its superblocks.
//! [`Log::open_lazily`] leaves these writes, an [`Opening`], to the first thread that writes
//! anything else. That thread does them first, while it holds `medium`.
//!
//! # Invariants
//! - **C-O1** The writes of opening are durable before any other write to the storage begins. Until
//!   then the storage is as the previous log left it, and what a lazy opening read stays true. So
//!   the crashes of a lazy opening leave the same images as those of [`Log::open`].
//! - **C-O2** While slot 0 is not sound, is part of a log's first superblock, and is followed by
//!   zeros up to the ring, slot 1 included, no record of this log was ever acknowledged: a batch is
//!   written only after both superblocks, and these are never erased. A crash has interrupted the
//!   creation, which can be repeated with any options that suit the rest of the storage.

use std::hash::{BuildHasher, Hasher, RandomState};

use spanlock_sync::injected_bug;

use super::format::{DATA, SLOTS, SUPERBLOCK, Slot, Superblock};
use super::group::Failure;
use super::marks::Marks;
use super::options::BLOCKS;
use super::recover::Newest;
use super::ring::{self, Found, Ring};
use super::{Error, Log, Lsn, Options, Recovery, recover};
use crate::Storage;

/// The number of bytes read at a time to see whether a storage is zero.
const CHUNK: u64 = 64 << 10;

/// The writes of opening or creating a log.
pub(super) struct Opening {
    /// The last batch, which may be in the page cache only (C-R4).
    last: Option<Found>,
    /// The superblock of the new epoch, unless the log is opened for reading only.
    superblock: Option<Superblock>,
    /// The order in which its copies are written (C-R1).
    slots: [u64; 2],
}

impl Opening {
    pub(super) fn write<S: Storage>(&self, ring: &Ring<S>) -> Result<(), Error> {
        if let Some(last) = &self.last
            && !injected_bug!(
                "last-batch-left",
                "opening a log does not write the last batch once more",
                killed_by = "compact-log-room/sequences-of-1, compact-log-wrap/sequences-of-1"
            )
        {
            (ring.write(&last.bytes, last.header.position))
                .and_then(|()| ring.storage.flush())
                .map_err(Error::io("writing the last batch once more"))?;
        }
        let Some(superblock) = &self.superblock else {
            return Ok(());
        };
        (recover::write(&ring.storage, superblock, self.slots))
            .map_err(Error::io("writing the superblock"))
    }
}

impl<S: Storage> Log<S> {
    /// Creates an empty log in a storage whose first 8192 bytes are zero. It takes the whole
    /// storage. With [`Options::id`], all bytes of the storage must be zero. Instead of zeros, the
    /// start may have what a creation left that a crash has interrupted.
    ///
    /// Bytes 8 to 23 of such remains may have any value, because they hold the log's random id and
    /// the checksum. Other data that differs from zeros only there is therefore overwritten, too.
    ///
    /// # Errors
    /// [`Error::Occupied`], and [`Error::BadOption`] if the storage is too small or the block size
    /// is invalid. Both leave the storage unchanged. After [`Error::Io`] the start of the storage
    /// may be partly written.
    pub fn create(storage: S, options: &Options) -> Result<Self, Error> {
        let superblock = first_superblock(&storage, options)?;
        let end = options.id.map_or(DATA, |_| storage.len());
        if Start::read(&storage)? == Start::Used || !is_zero(&storage, DATA, end)? {
            return Err(Error::Occupied);
        }
        Self::begin(storage, superblock, options, false)
    }

    /// Opens a log and recovers its records: all that were acknowledged, and perhaps some that were
    /// not.
    ///
    /// If a number in the superblock is so large that counting on from it could overflow, which
    /// only forgery explains, the log can be read, but every other operation returns
    /// [`Error::ReadOnly`].
    ///
    /// # Errors
    /// [`Error::NotALog`], [`Error::Unfinished`], [`Error::Version`], [`Error::CutShort`],
    /// [`Error::BadSuperblock`] and [`Error::Corrupt`] leave the storage unchanged. After
    /// [`Error::Io`] the last batch and the superblocks may have been rewritten. No acknowledged
    /// record is lost, and opening can be repeated.
    pub fn open(storage: S, options: &Options) -> Result<Self, Error> {
        Self::recover(storage, options, Err, false)
    }

    /// Opens a log as [`open`](Self::open) does, or creates one in a storage of zeros, but writes
    /// nothing to the storage yet. The writes of opening are deferred to the first commit,
    /// truncation or [`close`](Self::close), or to [`finish_opening`](Self::finish_opening). If
    /// they fail, the log is poisoned. As long as a log is only read, its storage does not change.
    ///
    /// A storage whose bytes are all zero is an empty log. The log's first write creates it. If a
    /// crash interrupts that write, the storage is still an empty log.
    ///
    /// # What differs from `open`
    /// A process that was killed, or whose flush failed, may leave an unacknowledged last batch in
    /// the page cache only. [`open`](Self::open) makes that batch durable before it returns. After
    /// this function, the batch's records can be read, but a power failure may still lose them.
    /// Before you change anything that depends on a recovered record, for example before you redo
    /// it, call [`finish_opening`](Self::finish_opening). Reading needs no such call. In a region
    /// of persistent memory that was opened after the failure, all contents are durable, so the
    /// difference does not exist.
    ///
    /// ```
    /// use spanlock_journal_commit::compact::{Error, Log, Options};
    /// # use spanlock_journal_commit::testing::Recorded;
    ///
    /// # let storage = Recorded::new(16384);
    /// let options = Options::new().id(7);
    /// let log = Log::open_lazily(&storage, &options)?;
    /// assert_eq!(log.records().count(), 0);
    /// assert_eq!(storage.writes(), 0);
    /// log.append_durable(b"redo me")?; // Creates the log first.
    /// drop(log);
    ///
    /// let log = Log::open_lazily(&storage, &options)?;
    /// assert_eq!(log.records().next().unwrap()?.data, b"redo me");
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As for [`open`](Self::open), and [`Error::BadOption`] if there is no log and none can be
    /// created, because the storage is too small or the block size is invalid. The storage is
    /// unchanged in each case.
    pub fn open_lazily(storage: S, options: &Options) -> Result<Self, Error> {
        let refusal = match first_superblock(&storage, options) {
            Ok(first) if is_new(&storage)? => {
                return Self::begin(storage, first, options, true);
            }
            first => first.err(),
        };
        Self::recover(storage, options, Err, true).map_err(|error| match (error, refusal) {
            (Error::NotALog { .. }, Some(refusal)) => refusal,
            (error, _) => error,
        })
    }

    /// Does the writes that [`open_lazily`](Self::open_lazily) has deferred, unless they are done
    /// already. Once it has returned `Ok`, all recovered records are durable.
    ///
    /// # Errors
    /// [`Error::Poisoned`], [`Error::Panicked`], [`Error::ReadOnly`].
    pub fn finish_opening(&self) -> Result<(), Error> {
        let mut medium = self.medium.lock();
        self.check()?;
        self.write_opening(&mut medium)
    }

    /// Opens a damaged log and keeps the records before the damage. The other records are lost, and
    /// their numbers will be used again. [`Recovery::damage`] describes the damage. If the log has
    /// no damage, this is the same as [`open`](Self::open).
    ///
    /// # Errors
    /// As for [`open`](Self::open), except [`Error::Corrupt`].
    pub fn salvage(storage: S, options: &Options) -> Result<Self, Error> {
        Self::recover(storage, options, Ok, false)
    }

    /// Zeroes the start of a storage, durably, so that a log with a random id can be created there.
    /// The previous contents are lost. For [`Options::id`] or [`open_lazily`](Self::open_lazily),
    /// zero the whole storage instead.
    ///
    /// # Errors
    /// The storage's error. The start may then be partly wiped.
    pub fn wipe(storage: S) -> Result<(), Error> {
        let zeros = vec![0; DATA.min(storage.len()) as usize];
        (storage.write_fua(&zeros, 0)).map_err(Error::io("wiping the start"))
    }

    /// Begins an empty log.
    fn begin(
        storage: S,
        superblock: Superblock,
        options: &Options,
        lazily: bool,
    ) -> Result<Self, Error> {
        let ring = Ring::new(storage, &superblock);
        let opening = Opening {
            last: None,
            superblock: Some(superblock.clone()),
            slots: SLOTS,
        };
        let opening = opening.now_or_later(&ring, lazily)?;
        let marks = Marks::new(0, 1, ring.len);
        let recovery = Recovery {
            first: Lsn::FIRST,
            next: Lsn::FIRST,
            was_closed: true,
            was_torn: false,
            copies_agreed: true,
            damage: None,
        };
        Ok(Self::new(
            ring, superblock, marks, recovery, options, opening,
        ))
    }

    fn recover(
        storage: S,
        options: &Options,
        accept: fn(Error) -> Result<Error, Error>,
        lazily: bool,
    ) -> Result<Self, Error> {
        let newest = recover::superblock(&storage)?;
        let ring = Ring::new(storage, &newest.superblock);
        let (scan, damage) = recover::scan(&ring, &newest.superblock)?;
        let recovery = scan.report(&newest, damage.map(accept).transpose()?);
        let Newest {
            mut superblock,
            slots,
            ..
        } = newest;
        let end = scan.marks.end();
        superblock.first_record = superblock.first_record.min(end.record);
        // After salvage, the remains must not be newer than the next batches.
        superblock.epoch = scan.newest_epoch;
        let refusal = recover::check_writable(&superblock).err();
        if refusal.is_none() {
            superblock.serial += 1;
            if !injected_bug!(
                "same-epoch",
                "opening a log begins no new epoch",
                killed_by = "large-large, commit-large, compact-log-failure/sequences-of-1, \
                             compact-log-part/sequences-of-1, compact-log-reopened/sequences-of-1"
            ) {
                superblock.epoch += 1;
            }
            superblock.closed = false;
            superblock.settled = end.position;
        }
        let opening = Opening {
            last: scan.last,
            superblock: refusal.is_none().then(|| superblock.clone()),
            slots,
        };
        let opening = opening.now_or_later(&ring, lazily)?;
        let log = Self::new(ring, superblock, scan.marks, recovery, options, opening);
        if let Some(error) = refusal {
            log.group.fail(Failure::Failed(error));
        }
        Ok(log)
    }
}

impl Opening {
    /// Does the writes now, or returns them if they are for later.
    fn now_or_later<S: Storage>(
        self,
        ring: &Ring<S>,
        lazily: bool,
    ) -> Result<Option<Opening>, Error> {
        if lazily {
            return Ok(Some(self));
        }
        self.write(ring)?;
        Ok(None)
    }
}

/// Returns the superblock of a log that is created in `storage`.
fn first_superblock<S: Storage>(storage: &S, options: &Options) -> Result<Superblock, Error> {
    options.check_block()?;
    let (len, block) = (storage.len(), options.block_bytes);
    if !ring::is_enough(len, block) {
        return Err(Error::BadOption {
            what: "the storage's length",
            found: len,
            wanted: "8192 bytes and at least 8 blocks",
        });
    }
    let random = || RandomState::new().build_hasher().finish();
    let id = options.id.unwrap_or_else(random);
    Ok(Superblock::first(id, len, block))
}

/// What the storage has before the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    Zero,
    /// A part of the first superblock of a log (C-O2).
    Unfinished,
    Used,
}

impl Start {
    pub(super) fn read<S: Storage>(storage: &S) -> Result<Start, Error> {
        let mut found = [0; SUPERBLOCK];
        (storage.read_at(&mut found, SLOTS[0])).map_err(Error::io("reading the superblock"))?;
        if !is_zero(storage, SUPERBLOCK as u64, DATA)? {
            return Ok(Start::Used);
        }
        if found == [0; SUPERBLOCK] {
            return Ok(Start::Zero);
        }
        // A whole superblock is a log already, and recovery restores the other copy.
        let is_whole = matches!(Superblock::decode(&found), Slot::Sound(_));
        let is_unfinished = !is_whole
            && is_part_of_first(&found, storage.len())
            && !injected_bug!(
                "creation-not-resumed",
                "a log whose creation was interrupted cannot be opened",
                killed_by = "compact-log-new/commit-commit, compact-log-new/sequences-of-1"
            );
        match is_unfinished {
            true => Ok(Start::Unfinished),
            false => Ok(Start::Used),
        }
    }
}

/// Returns whether each word is zero or a word of the first superblock of a log in a storage of
/// this length. Persistent memory tears at words.
fn is_part_of_first(found: &[u8; SUPERBLOCK], len: u64) -> bool {
    // The creator may have had other options.
    let is_part = |block| {
        let first = Superblock::first(0, len, block).encode();
        (found.chunks(8).zip(first.chunks(8)).zip(0..)).all(|((found, first), nth)| {
            let is_zero = found.iter().all(|&byte| byte == 0);
            // The words of the checksum and of the id differ from one log to the next.
            is_zero || found == first || (1..3).contains(&nth)
        })
    };
    BLOCKS.into_iter().any(is_part)
}

/// Returns whether no log was created in the storage yet, and the ring has no remains of another.
fn is_new<S: Storage>(storage: &S) -> Result<bool, Error> {
    Ok(Start::read(storage)? != Start::Used && is_zero(storage, DATA, storage.len())?)
}

/// Returns whether the bytes from `start` to `end` are zero.
fn is_zero<S: Storage>(storage: &S, start: u64, end: u64) -> Result<bool, Error> {
    let mut bytes = vec![0; CHUNK.min(end - start) as usize];
    let mut at = start;
    while at < end {
        let len = (end - at).min(CHUNK) as usize;
        (storage.read_at(&mut bytes[..len], at)).map_err(Error::io("reading the storage"))?;
        if bytes[..len].iter().any(|&byte| byte != 0) {
            return Ok(false);
        }
        at += len as u64;
    }
    Ok(true)
}
