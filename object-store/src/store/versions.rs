//! Version mode: each write keeps what it overwrites.
//!
//! # Where versions are
//! The current version lies at its offset, as in direct mode, so reading it takes no lookup. The
//! end of the region is a circular log. A write moves the blocks that it changes into the log,
//! which [changes their addresses only](Vector::relocate), and puts a *commit block* before them:
//! which version these blocks belong to, its time and size, and where the commit block of the
//! version before lies, its *parent*. All of this is one batch with the new data and the head.
//!
//! ```text
//!   log    ┊ reclaimed ┊ commit 3 │ old blocks ┊ commit 4 │ old blocks ┊ … ┊ room ┊
//!                      ↑ oldest     parent ←──────┘                        ↑ end
//! ```
//!
//! So a version is read from the current one backwards: among the entries from this version on, the
//! oldest one that contains a block has its content. A block that none contains has not changed.
//!
//! # Reclaiming
//! A write that finds no room reclaims the oldest versions, in the same batch: it moves the head's
//! *oldest* mark past their entries, which cuts the chain of parents there, and takes their blocks
//! (O-V2). The versions that are left need none of these blocks.
//!
//! `docs/format.md` has the invariants O-V1 to O-V3.

use std::ops::Range;

use spanlock_range_lock::{Access, RawRangeLockBatch};
use spanlock_sync::injected_bug;

use super::Store;
use crate::error::Error;
use crate::regions::{Commit, HEAD, Head, Mode, State, Versions};
use crate::space::{Held, Medium, Run, Runs, Vector};

/// A version of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Version {
    /// Its number. A new object is version 0, and each write makes the next number. No number is
    /// used twice for an object.
    pub number: u64,
    /// When it was written, as the writer said: nanoseconds since 1970, if the store's clock was
    /// used. Zero for a new object.
    pub timestamp: u64,
    /// The object's size in bytes.
    pub size: u64,
}

impl Version {
    fn current(head: &Head) -> Self {
        Version {
            number: head.versions.current,
            timestamp: head.versions.timestamp,
            size: head.size,
        }
    }

    fn of(commit: &Commit) -> Self {
        Version {
            number: commit.version,
            timestamp: commit.timestamp,
            size: commit.size,
        }
    }
}

/// An object whose head and log are held.
pub(super) struct Log<'h, 's, M: Medium, L: RawRangeLockBatch> {
    held: &'h Held<'s, M, L>,
    pub(super) id: u64,
    /// The log in the space.
    bytes: Range<u64>,
    block: u64,
}

impl<M: Medium, L: RawRangeLockBatch> Log<'_, '_, M, L> {
    /// Returns the blocks of the log.
    pub(super) fn blocks(&self) -> u64 {
        (self.bytes.end - self.bytes.start) / self.block
    }

    /// Returns where a block of the log lies in the space.
    pub(super) fn at(&self, position: u64) -> u64 {
        self.bytes.start + position % self.blocks() * self.block
    }

    /// Returns where positions of the log lie in the space: in one part or, around its end, in two.
    pub(super) fn parts(
        &self,
        positions: Range<u64>,
    ) -> impl Iterator<Item = (Range<u64>, Range<u64>)> {
        let Range { start, end } = positions;
        // If the log's end lies at the start, the first part is empty.
        let turn = start.next_multiple_of(self.blocks()).min(end);
        let parts = [start..turn, turn..end].into_iter();
        parts.filter(|it| !it.is_empty()).map(|part| {
            let at = self.at(part.start);
            let bytes = at..at + (part.end - part.start) * self.block;
            (part, bytes)
        })
    }

    /// Reads the commit block at a position.
    fn commit(&self, at: u64) -> Result<Commit, Error> {
        let from = self.at(at);
        let mut bytes = [0; HEAD];
        self.held.read(from, &mut bytes)?;
        let what = "a commit block of a version";
        Commit::decode(self.id, at, &bytes).ok_or(Error::Corrupt { what, at: from })
    }

    /// Calls `each` for the entries of the log from the newest on, until it returns `false`: with
    /// the position of the commit block. The chain ends where the oldest entry is (O-V2).
    pub(super) fn walk(
        &self,
        head: &Head,
        mut each: impl FnMut(u64, &Commit) -> bool,
    ) -> Result<(), Error> {
        let versions = &head.versions;
        if versions.newest == 0 {
            return Ok(());
        }
        let oldest = versions.end - u64::from(versions.oldest);
        let mut at = versions.end - u64::from(versions.newest);
        loop {
            let commit = self.commit(at)?;
            if !each(at, &commit) || at == oldest {
                return Ok(());
            }
            // O-V1: parents lie before their children, and one entry after the other.
            if commit.parent >= at || commit.parent < oldest {
                let what = "the chain of versions is broken";
                let at = self.at(at);
                return Err(Error::Corrupt { what, at });
            }
            at = commit.parent;
        }
    }

    /// Returns how `wanted` was: its blocks that have changed since, and where they lie in the log,
    /// or that they were zero. And the position of its commit block, if it is not the current one.
    fn find(&self, head: &Head, wanted: u64) -> Result<(Version, Runs, Option<u64>), Error> {
        let current = Version::current(head);
        let mut changed = Runs::default();
        if wanted == current.number {
            return Ok((current, changed, None));
        }
        let mut found = None;
        self.walk(head, |at, commit| {
            if commit.version < wanted {
                return false;
            }
            let (first, kept) = (commit.first, u64::from(commit.kept));
            // Older entries replace newer ones.
            if kept > 0 {
                changed.insert(first, Run::new(Some(at + 1), kept));
            }
            if u64::from(commit.count) > kept {
                let zeros = u64::from(commit.count) - kept;
                changed.insert(first + kept, Run::new(None, zeros));
            }
            if commit.version == wanted {
                found = Some((at, Version::of(commit)));
            }
            found.is_none()
        })?;
        let Some((at, found)) = found else {
            return Err(Error::UnknownVersion {
                id: self.id,
                version: wanted,
                oldest: match head.versions.oldest {
                    0 => current.number,
                    back => self.commit(head.versions.end - u64::from(back))?.version,
                },
            });
        };
        Ok((found, changed, Some(at)))
    }
}

impl<M: Medium, L: RawRangeLockBatch> Store<M, L> {
    /// Writes at byte `offset` of an object, and makes a version: all or nothing, durable when this
    /// returns. `timestamp` is kept with the version, and has no other use. Returns the version's
    /// number. Empty data makes no version.
    ///
    /// ```
    /// # use spanlock_interval_lock::IntervalLock;
    /// # use spanlock_journal_commit::testing::Recorded;
    /// # use spanlock_object_store::space::{self, Disk, Space};
    /// use spanlock_object_store::{Mode, Options, Store};
    ///
    /// # let medium = Disk::new(Recorded::new(1 << 20));
    /// # let space = Space::create(medium, &space::Options::new(), IntervalLock::new())?;
    /// let store = Store::create(space, &Options::new().mode(Mode::Versions { log: 64 << 20 }))?;
    /// let id = store.create_object()?;
    /// let first = store.write_version(id, 0, b"hello, world", 1_000)?;
    /// store.write_version(id, 7, b"there", 2_000)?;
    /// let mut found = [0; 12];
    /// store.read_version(id, first, 0, &mut found)?;
    /// assert_eq!(&found, b"hello, world");
    /// store.read(id, 0, &mut found)?;
    /// assert_eq!(&found, b"hello, there");
    /// store.roll_back(id, first)?;
    /// store.read(id, 0, &mut found)?;
    /// assert_eq!(&found, b"hello, world");
    /// # Ok::<(), spanlock_object_store::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoVersions`], [`Error::UnknownId`], [`Error::TooLarge`], [`Error::LogTooSmall`],
    /// [`Error::Retained`], [`Error::Corrupt`], [`Error::Space`].
    pub fn write_version(
        &self,
        id: u64,
        offset: u64,
        data: &[u8],
        timestamp: u64,
    ) -> Result<u64, Error> {
        self.check_versions()?;
        let (bytes, end) = self.written(id, offset, data.len())?;
        let block = self.geometry.block;
        let start = self.geometry.data(id).start;
        let changed = (bytes.start - start) / block..(bytes.end - start).div_ceil(block);
        let whole = start + changed.start * block..start + changed.end * block;
        let mut held = self.hold_log(id, whole, Access::Write)?;
        let old = self.head(&held, id)?;
        let mut new = Head {
            state: State::Created,
            ..old
        };
        if data.is_empty() {
            if new != old {
                held.write_batch(&[Vector::write(self.geometry.head_at(id), &new.encode(id))])?;
            }
            return Ok(old.versions.current);
        }
        // Blocks past the old end were zero: they take no room in the log.
        let kept = old.size.div_ceil(block).clamp(changed.start, changed.end) - changed.start;
        let log = self.log(&held, id);
        let (at, most) = (old.versions.end, log.blocks() - 1);
        if kept > most {
            let needed = kept;
            return Err(Error::LogTooSmall { id, needed, most });
        }
        let oldest = self.reclaim(&log, &old, kept + 1)?;
        let commit = Commit {
            version: old.versions.current,
            parent: match old.versions.newest {
                0 => Commit::NO_PARENT,
                back => at - u64::from(back),
            },
            timestamp: old.versions.timestamp,
            size: old.size,
            first: changed.start,
            count: (changed.end - changed.start) as u32,
            kept: kept as u32,
        };
        new.size = old.size.max(end);
        let it = &mut new.versions;
        it.current = old.versions.given + 1;
        it.given = it.current;
        it.timestamp = timestamp;
        it.end = commit.end(at);
        it.newest = (it.end - at) as u32;
        it.oldest = (it.end - oldest.end) as u32;
        if injected_bug!(
            "chain-not-cut",
            "a write takes the blocks of versions that the head still reaches",
            killed_by = "objects-versions/write-write, objects-versions/sequences-of-1"
        ) {
            it.oldest = (it.end - oldest.start) as u32;
        }
        // O-V2: the reclaimed entries are cut off by the head that this batch writes. What the new
        // entry does not take of their blocks is trimmed.
        let taken = (at + 1 + kept).saturating_sub(log.blocks());
        let trimmed = oldest.start.max(taken)..oldest.end;
        let encoded = (commit.encode(id, at), new.encode(id));
        let mut vectors = vec![
            Vector::write(log.at(at), &encoded.0),
            Vector::write(self.geometry.head_at(id), &encoded.1),
            Vector::write(bytes.start, data),
        ];
        let kept_blocks = match injected_bug!(
            "old-not-kept",
            "a version's log entry lacks the blocks that were overwritten",
            killed_by = "objects-versions/write-write, objects-versions/sequences-of-1"
        ) {
            true => at..at,
            false => at + 1..at + 1 + kept,
        };
        for (part, to) in log.parts(kept_blocks) {
            let from = start + (changed.start + (part.start - at - 1)) * block;
            let len = to.end - to.start;
            vectors.push(Vector::relocate(from..from + len, to.start));
        }
        for (_, bytes) in log.parts(trimmed) {
            vectors.push(Vector::trim(bytes));
        }
        held.write_batch(&vectors)?;
        Ok(new.versions.current)
    }

    /// Returns the entries to be reclaimed, so that `needed` blocks have room and the policy holds:
    /// from the oldest one to the one that will be.
    fn reclaim(
        &self,
        log: &Log<'_, '_, M, L>,
        head: &Head,
        needed: u64,
    ) -> Result<Range<u64>, Error> {
        let it = &head.versions;
        let first = it.end - u64::from(it.oldest);
        let mut oldest = first;
        while oldest < it.end {
            let commit = log.commit(oldest)?;
            let has_room = it.end + needed - oldest <= log.blocks();
            let is_wanted = (it.given + 1).saturating_sub(commit.version) <= self.keep;
            let retained = it.retained.filter(|from| commit.version >= *from);
            match retained {
                _ if has_room && is_wanted => break,
                None => oldest = commit.end(oldest),
                Some(_) if has_room => break,
                Some(retained) => {
                    let id = log.id;
                    return Err(Error::Retained { id, retained });
                }
            }
        }
        Ok(first..oldest)
    }

    /// Reads at byte `offset` of a version, as [`read`](Self::read) does of the current one. Takes
    /// time for each later version.
    ///
    /// # Errors
    /// [`Error::NoVersions`], [`Error::UnknownId`], [`Error::UnknownVersion`], [`Error::Corrupt`],
    /// [`Error::Space`].
    pub fn read_version(
        &self,
        id: u64,
        version: u64,
        offset: u64,
        into: &mut [u8],
    ) -> Result<usize, Error> {
        self.check_versions()?;
        let data = self.bytes(id, offset, into.len())?;
        let held = self.hold_log(id, data.clone(), Access::Read)?;
        let head = self.head(&held, id)?;
        let log = self.log(&held, id);
        let (found, changed, _) = log.find(&head, version)?;
        let len = (found.size.saturating_sub(offset)).min(data.end - data.start);
        let start = self.geometry.data(id).start;
        let block = self.geometry.block;
        let mut read = |at: u64, len: u64, run: Option<Run>| -> Result<(), Error> {
            // `at` and `len` are bytes of the object.
            let into = &mut into[(at - offset) as usize..(at - offset + len) as usize];
            match run {
                None => Ok(held.read(start + at, into)?),
                Some(Run { target: None, .. }) => {
                    into.fill(0);
                    Ok(())
                }
                Some(Run {
                    target: Some(from), ..
                }) => {
                    let (mut into, mut within) = (into, at % block);
                    let blocks = (within + len).div_ceil(block);
                    for (_, bytes) in log.parts(from..from + blocks) {
                        let part = bytes.start + within..bytes.end;
                        let len = into.len().min((part.end - part.start) as usize);
                        let (now, later) = std::mem::take(&mut into).split_at_mut(len);
                        held.read(part.start, now)?;
                        (into, within) = (later, 0);
                    }
                    Ok(())
                }
            }
        };
        let (first, last) = (offset / block, (offset + len).div_ceil(block));
        let mut failed = Ok(());
        changed.for_each(first..last.max(first), |blocks, run| {
            let at = (blocks.start * block).max(offset);
            let end = (blocks.end * block).min(offset + len);
            if failed.is_ok() {
                failed = read(at, end - at, run);
            }
        });
        failed?;
        Ok(len as usize)
    }

    /// Returns the versions of an object that can be read, up to `most`, the current one first.
    ///
    /// # Errors
    /// [`Error::NoVersions`], [`Error::UnknownId`], [`Error::Corrupt`], [`Error::Space`].
    pub fn versions(&self, id: u64, most: usize) -> Result<Vec<Version>, Error> {
        self.check_versions()?;
        self.check_id(id)?;
        let held = self.hold_log(id, 0..0, Access::Read)?;
        let head = self.head(&held, id)?;
        let mut found = vec![Version::current(&head)];
        self.log(&held, id).walk(&head, |_, commit| {
            found.push(Version::of(commit));
            found.len() < most
        })?;
        found.truncate(most);
        Ok(found)
    }

    /// Makes an object what it was in a version. Later versions are gone, also retained ones; their
    /// numbers are not used again. All or nothing, durable when this returns. Only addresses
    /// change.
    ///
    /// # Errors
    /// [`Error::NoVersions`], [`Error::UnknownId`], [`Error::UnknownVersion`], [`Error::Corrupt`],
    /// [`Error::Space`]: if more runs of blocks have changed since than a record can name,
    /// [`space::Error::TooLong`](crate::space::Error::TooLong). Then roll
    /// back in steps, each of which is atomic.
    pub fn roll_back(&self, id: u64, version: u64) -> Result<(), Error> {
        self.check_versions()?;
        self.check_id(id)?;
        let data = self.geometry.data(id);
        let mut held = self.hold_log(id, data.clone(), Access::Write)?;
        let head = self.head(&held, id)?;
        let log = self.log(&held, id);
        let (found, changed, at) = log.find(&head, version)?;
        let Some(at) = at else { return Ok(()) };
        let commit = log.commit(at)?;
        let mut new = Head {
            size: found.size,
            ..head
        };
        let oldest = head.versions.end - u64::from(head.versions.oldest);
        let it = &mut new.versions;
        (it.current, it.timestamp, it.end) = (found.number, found.timestamp, at);
        let is_oldest = at == oldest;
        if injected_bug!(
            "number-used-again",
            "after a rollback, the next version gets a number that another one had",
            killed_by = "objects-versions/sequences-of-1, objects-versions/sequences-of-2"
        ) {
            it.given = found.number;
        }
        it.newest = if is_oldest {
            0
        } else {
            (at - commit.parent) as u32
        };
        it.oldest = (at - oldest) as u32;
        let encoded = new.encode(id);
        let mut vectors = vec![Vector::write(self.geometry.head_at(id), &encoded)];
        let block = self.geometry.block;
        for (first, run) in changed.iter() {
            let to = data.start + first * block;
            match run.target {
                None => vectors.push(Vector::trim(to..to + run.len * block)),
                Some(from) => {
                    for (part, bytes) in log.parts(from..from + run.len) {
                        let to = to + (part.start - from) * block;
                        vectors.push(Vector::relocate(bytes, to));
                    }
                }
            }
        }
        let rest = log.parts(at..head.versions.end);
        vectors.extend(rest.map(|(_, bytes)| Vector::trim(bytes)));
        Ok(held.write_many(&vectors)?)
    }

    /// Retains the current version and every later one, and returns the current one's number. They
    /// are not reclaimed: when the log is full, writes fail with [`Error::Retained`], until
    /// [`retain_from`](Self::retain_from) releases some. If an older version is already retained,
    /// that remains so.
    ///
    /// # Errors
    /// [`Error::NoVersions`], [`Error::UnknownId`], [`Error::Corrupt`], [`Error::Space`].
    pub fn snapshot(&self, id: u64) -> Result<u64, Error> {
        self.retain(id, |it| {
            let current = it.current;
            Some(it.retained.map_or(current, |from| from.min(current)))
        })
    }

    /// Retains the versions from a number on, or none: they are not reclaimed. A write that finds
    /// no room in the log then fails.
    ///
    /// # Errors
    /// As for [`snapshot`](Self::snapshot).
    pub fn retain_from(&self, id: u64, version: Option<u64>) -> Result<(), Error> {
        self.retain(id, |_| version).map(drop)
    }

    /// Sets what is retained. Returns the number of the current version.
    fn retain(&self, id: u64, from: impl FnOnce(&Versions) -> Option<u64>) -> Result<u64, Error> {
        self.check_versions()?;
        self.check_id(id)?;
        let mut held = self.hold(id, Access::Write, 0..0, Access::Write)?;
        let mut head = self.head(&held, id)?;
        let retained = from(&head.versions);
        if retained != head.versions.retained {
            head.versions.retained = retained;
            head.state = State::Created;
            let encoded = head.encode(id);
            held.write_batch(&[Vector::write(self.geometry.head_at(id), &encoded)])?;
        }
        Ok(head.versions.current)
    }

    fn check_versions(&self) -> Result<(), Error> {
        match self.geometry.mode {
            Mode::Versions { .. } => Ok(()),
            Mode::Direct | Mode::DirectSized => Err(Error::NoVersions),
        }
    }

    /// Holds an object's head and log, and bytes of its data.
    pub(super) fn hold_log(
        &self,
        id: u64,
        data: Range<u64>,
        access: Access,
    ) -> Result<Held<'_, M, L>, Error> {
        let at = self.geometry.head_at(id);
        let head = at..at + HEAD as u64;
        let held = [head, data, self.geometry.log(id)];
        Ok(self.space.hold(held.map(|it| (it, access)))?)
    }

    pub(super) fn log<'h, 's>(&self, held: &'h Held<'s, M, L>, id: u64) -> Log<'h, 's, M, L> {
        Log {
            held,
            id,
            bytes: self.geometry.log(id),
            block: self.geometry.block,
        }
    }
}
