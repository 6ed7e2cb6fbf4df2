//! Commits: each takes a number and appends one record to a ring; and the checkpoint, which makes
//! the rings' records unnecessary.
//!
//! # Several rings
//! A ring's log copies records under one mutex, and one thread at a time writes it. On a disk that
//! costs nothing, because all waiting threads share a flush. On persistent memory it would
//! serialize all threads. So a space can have several rings. Their records have one sequence of
//! numbers, which recovery sorts by.
//!
//! # The checkpoint
//! `docs/format.md` lists its steps, C1 to C5. A commit is *in flight* from before it has a number
//! until its changes are noted. Commits in flight are counted in two groups. The checkpoint makes
//! the other group the current one, and then waits until the old one is empty. It stalls nobody:
//! later commits count in the new group.
//!
//! A commit that finds its ring full leaves its group before it makes a checkpoint, which would
//! otherwise wait for it.

use spanlock_journal_commit::Storage;
use spanlock_journal_commit::compact::{self, Log, Lsn};
use spanlock_sync::{Condvar, Mutex, thread};

use super::error::Error;
use super::format::{self, PAGE_BYTES, PAGE_ENTRIES, SLOTS, Superblock};
use super::medium::Medium;
use super::runs::{Run, Runs};

/// The rings, and what the next checkpoint has to do.
#[derive(Debug)]
pub(super) struct Commits<R> {
    rings: Box<[Log<R>]>,
    flight: Mutex<Flight>,
    /// Notified when a group becomes empty.
    landed: Condvar,
    /// Entries of the table to be written: places, and their blocks.
    noted: Mutex<Runs>,
    /// The newest superblock. A thread that makes a checkpoint holds it (O-S5).
    newest: Mutex<Superblock>,
    /// A ring with less free room makes a checkpoint due.
    low: u64,
}

#[derive(Debug)]
struct Flight {
    /// The last number given.
    number: u64,
    /// The current group is `turn % 2`.
    turn: u64,
    /// The commits in flight of each group.
    counts: [u64; 2],
    /// Whether some thread makes the checkpoint that is due.
    is_checkpointing: bool,
    checkpoints: u64,
    failed: Option<String>,
}

/// Fails the space when it is dropped, if something has been interrupted.
struct Unsure<'c, R> {
    commits: &'c Commits<R>,
    /// Whether the medium may have changes that memory lacks, or lack some that memory has
    /// forgotten.
    is_unsure: bool,
}

impl<R> Drop for Unsure<'_, R> {
    fn drop(&mut self) {
        if self.is_unsure {
            let why = || "the medium failed or panicked".to_owned();
            let failed = &mut self.commits.flight.lock().failed;
            failed.get_or_insert_with(why);
        }
    }
}

/// A commit in flight. Dropping it ends that.
struct InFlight<'c, R> {
    commits: &'c Commits<R>,
    number: u64,
    group: usize,
}

impl<R> Drop for InFlight<'_, R> {
    fn drop(&mut self) {
        let mut flight = self.commits.flight.lock();
        flight.counts[self.group] -= 1;
        if flight.counts[self.group] == 0 {
            self.commits.landed.notify_all();
        }
    }
}

impl<R: Storage> Commits<R> {
    /// `noted` has the entries that the table lacks, and `number` is the last one in use.
    pub(super) fn new(rings: Vec<Log<R>>, newest: Superblock, noted: Runs, number: u64) -> Self {
        Commits {
            rings: rings.into(),
            flight: Mutex::new(Flight {
                number,
                turn: 0,
                counts: [0; 2],
                is_checkpointing: false,
                checkpoints: 0,
                failed: None,
            }),
            landed: Condvar::new(),
            noted: Mutex::new(noted),
            low: (newest.ring - format::RING_HEAD) / 2,
            newest: Mutex::new(newest),
        }
    }

    fn begin(&self) -> Result<InFlight<'_, R>, Error> {
        let mut flight = self.flight.lock();
        flight.check()?;
        flight.number += 1;
        let group = (flight.turn % 2) as usize;
        flight.counts[group] += 1;
        Ok(InFlight {
            commits: self,
            number: flight.number,
            group,
        })
    }

    /// Makes a record durable, and then calls `apply`, which changes the map and returns the
    /// entries to be noted, in order. On [`Error::Failed`] the record may be durable, on any other
    /// error it is not.
    ///
    /// # Panics
    /// If the medium panics. The space has then failed.
    pub(super) fn commit(
        &self,
        medium: &impl Medium,
        record: &mut [u8],
        apply: impl FnOnce() -> Vec<(u64, Run)>,
    ) -> Result<(), Error> {
        let ring = &self.rings[thread::index() % self.rings.len()];
        // Dropped in reverse order: the space has failed before the commit lands.
        let (_flight, mut unsure, lsn) = loop {
            let flight = self.begin()?;
            format::set_number(record, flight.number);
            let mut unsure = Unsure {
                commits: self,
                is_unsure: true,
            };
            match ring.append(record) {
                Ok(lsn) => break (flight, unsure, lsn),
                Err(compact::Error::Full { .. }) => {
                    unsure.is_unsure = false;
                    drop(flight);
                    let needed = record.len() as u64;
                    self.checkpoint_if(medium, || ring.free() < needed + format::BATCH_ROOM)?;
                }
                Err(error) => return Err(self.fail(error.to_string())),
            }
        };
        if let Err(error) = ring.wait(lsn) {
            return Err(self.fail(error.to_string()));
        }
        let entries = apply();
        let mut noted = self.noted.lock();
        for (place, run) in entries {
            noted.insert(place, run);
        }
        unsure.is_unsure = false;
        Ok(())
    }

    fn fail(&self, why: String) -> Error {
        let mut flight = self.flight.lock();
        let why = flight.failed.get_or_insert(why).clone();
        Error::Failed { why }
    }

    /// Makes a checkpoint if a ring is half full, unless another thread does. The caller is not in
    /// flight.
    pub(super) fn checkpoint_if_due(&self, medium: &impl Medium) -> Result<(), Error> {
        let is_due = || self.rings.iter().any(|ring| ring.free() < self.low);
        if !is_due() || std::mem::replace(&mut self.flight.lock().is_checkpointing, true) {
            return Ok(());
        }
        let made = self.checkpoint_if(medium, is_due);
        self.flight.lock().is_checkpointing = false;
        made
    }

    /// Makes a checkpoint if `wanted` says so once this thread has the right to make one. The
    /// caller is not in flight.
    ///
    /// # Errors
    /// [`Error::Io`] if the medium fails: then the rings keep their records, and another checkpoint
    /// can be tried. [`Error::Failed`].
    pub(super) fn checkpoint_if(
        &self,
        medium: &impl Medium,
        wanted: impl FnOnce() -> bool,
    ) -> Result<(), Error> {
        let mut newest = self.newest.lock();
        if !wanted() {
            return Ok(());
        }
        let ends: Vec<Lsn> = self.rings.iter().map(Log::durable).collect(); // C1
        let cut = self.land()?; // C2
        let mut unsure = Unsure {
            commits: self,
            is_unsure: true,
        };
        let noted = std::mem::take(&mut *self.noted.lock());
        let mut new = newest.clone();
        new.cut = cut;
        let written = write_entries(medium, &mut new, &noted)
            .and_then(|()| write_superblocks(medium, &mut new));
        unsure.is_unsure = false;
        if let Err(error) = written {
            newest.serial = new.serial;
            self.note_again(noted);
            return Err(error);
        }
        *newest = new;
        for (ring, end) in self.rings.iter().zip(ends) {
            // C5.
            (ring.truncate(end.next())).map_err(|error| self.fail(error.to_string()))?;
        }
        self.flight.lock().checkpoints += 1;
        Ok(())
    }

    /// Takes a new cut, and waits until all commits up to it have landed.
    fn land(&self) -> Result<u64, Error> {
        let mut flight = self.flight.lock();
        flight.check()?;
        let cut = flight.number;
        let old = (flight.turn % 2) as usize;
        // The other group is empty: the last checkpoint has waited for it.
        flight.turn += 1;
        while flight.counts[old] > 0 {
            flight = self.landed.wait(flight);
        }
        // A commit that failed has landed without its changes.
        flight.check()?;
        Ok(cut)
    }

    /// Notes entries that were not written, except those that have changed since.
    fn note_again(&self, mut older: Runs) {
        let mut noted = self.noted.lock();
        for (place, run) in noted.iter() {
            older.insert(place, run);
        }
        *noted = older;
    }

    /// Returns the last number given, and how many checkpoints were made.
    pub(super) fn counts(&self) -> (u64, u64) {
        let flight = self.flight.lock();
        (flight.number, flight.checkpoints)
    }

    /// Returns the newest superblock.
    pub(super) fn superblock(&self) -> Superblock {
        self.newest.lock().clone()
    }
}

impl Flight {
    fn check(&self) -> Result<(), Error> {
        match &self.failed {
            Some(why) => Err(Error::Failed { why: why.clone() }),
            None => Ok(()),
        }
    }
}

/// Pages of the table that are written by one call, if they are new.
const FRESH: u64 = 256;

/// Writes entries of the table, in whole pages, and flushes. Raises `used` if pages are added.
fn write_entries(medium: &impl Medium, new: &mut Superblock, noted: &Runs) -> Result<(), Error> {
    let before = new.used / PAGE_ENTRIES;
    let mut page = vec![0; PAGE_BYTES];
    let (mut done, mut end) = (0, before);
    for (place, run) in noted.iter() {
        end = end.max((place + run.len).div_ceil(PAGE_ENTRIES));
        let first = (place / PAGE_ENTRIES).max(done);
        done = (place + run.len).div_ceil(PAGE_ENTRIES).min(before);
        for number in first..done {
            let at = new.entry_at(number * PAGE_ENTRIES);
            // SAFETY: this thread alone uses the table (O-S5).
            (unsafe { medium.read(at, &mut page) }).map_err(Error::io("reading the table"))?;
            fill(noted, number, &mut page);
            // SAFETY: as above.
            (unsafe { medium.write(at, &page) }).map_err(Error::io("writing the table"))?;
        }
    }
    new.used = end * PAGE_ENTRIES;
    for first in (before..end).step_by(FRESH as usize) {
        let pages = first..end.min(first + FRESH);
        let entries = pages.start * PAGE_ENTRIES..pages.end * PAGE_ENTRIES;
        let mut bytes: Vec<u8> = entries
            .flat_map(|place| format::entry(place, None))
            .collect();
        for (number, page) in pages.zip(bytes.chunks_exact_mut(PAGE_BYTES)) {
            fill(noted, number, page);
        }
        let at = new.entry_at(first * PAGE_ENTRIES);
        // SAFETY: as above. Recovery reads these entries only once the superblock says that they
        // are used.
        unsafe { medium.write_all(&[(at, &bytes)]) }.map_err(Error::io("writing the table"))?;
    }
    medium.flush().map_err(Error::io("flushing the table"))
}

/// Changes a page of the table to what is noted.
fn fill(noted: &Runs, number: u64, page: &mut [u8]) {
    let places = number * PAGE_ENTRIES..(number + 1) * PAGE_ENTRIES;
    noted.for_each(places.clone(), |part, run| {
        let Some(run) = run else { return };
        for (nth, place) in (0..).zip(part) {
            let entry = format::entry(place, run.target.map(|block| block + nth));
            let at = (place - places.start) as usize * entry.len();
            page[at..at + entry.len()].copy_from_slice(&entry);
        }
    });
}

/// Writes the superblock durably to both slots, first to the one that has the older copy. So one
/// copy is sound at any time, and afterwards either copy suffices.
pub(super) fn write_superblocks(medium: &impl Medium, new: &mut Superblock) -> Result<(), Error> {
    for _ in SLOTS {
        let copy = Superblock {
            serial: new.serial + 1,
            ..new.clone()
        };
        let at = SLOTS[(copy.serial % 2) as usize];
        // SAFETY: this thread alone uses the superblocks (O-S5).
        let written = unsafe { medium.write(at, &copy.encode()) };
        (written.and_then(|()| medium.flush())).map_err(Error::io("writing the superblock"))?;
        // If a write fails, it may have torn its slot, so the next attempt begins with that slot.
        new.serial = copy.serial;
    }
    Ok(())
}
