//! Commits: each takes a number and appends one record to a ring; and the checkpoint, which makes
//! the rings' records unnecessary.
//!
//! # Group commit
//! A thread writes its data, appends its record, and waits until the record is durable. Threads
//! that wait for the same ring share one flush: that is the log's group commit. The flush makes the
//! data durable, too, because all of it was written before. A crash may nevertheless leave the
//! record without its data. So the record has the data's checksum, and recovery drops such a
//! record.
//!
//! Where flushes are fast, the threads of a ring would still wait for each other. So a space can
//! have several rings. Their records have one sequence of numbers, which recovery sorts by.
//!
//! # The checkpoint
//! `docs/format.md` lists its steps, C1 to C5. A commit is *in flight* from before it has a number
//! until its changes are noted. Commits in flight are counted in two halves. The checkpoint makes
//! the other half the current one, and then waits until the old one is empty. It stalls nobody:
//! later commits count in the new half.
//!
//! A commit reserves room in its ring before it is in flight, and makes a checkpoint if there is
//! none. So no leader finds its ring full: the checkpoint would wait for the commits that wait for
//! the leader.

use spanlock_journal_commit::Storage;
use spanlock_journal_commit::compact::{Log, Lsn};
use spanlock_sync::{Condvar, Mutex, injected_bug, thread};

use super::error::Error;
use super::format::{self, PAGE_BYTES, PAGE_ENTRIES, SLOTS, Superblock};
use super::medium::Medium;
use super::runs::{Run, Runs};

/// The rings, and what the next checkpoint has to do.
#[derive(Debug)]
pub(super) struct Commits<R> {
    rings: Box<[Log<R>]>,
    flight: Mutex<Flight>,
    /// Notified when a half becomes empty.
    landed: Condvar,
    /// Entries of the table to be written: places, and their blocks.
    noted: Mutex<Runs>,
    /// The entries for which the table has room on the medium.
    table: Mutex<u64>,
    /// The newest superblock. A thread that makes a checkpoint holds it (O-S5).
    newest: Mutex<Superblock>,
    /// A superblock. Its numbers are old, its positions are right.
    layout: Superblock,
    /// A ring with less free room makes a checkpoint due.
    low: u64,
}

#[derive(Debug)]
struct Flight {
    /// The last number given.
    number: u64,
    /// The current half is `turn % 2`.
    turn: u64,
    /// The commits in flight of each half.
    counts: [u64; 2],
    /// The room in each ring that is reserved for commits in flight.
    reserved: Box<[u64]>,
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
    half: usize,
    ring: usize,
    room: u64,
}

impl<R> Drop for InFlight<'_, R> {
    fn drop(&mut self) {
        let mut flight = self.commits.flight.lock();
        flight.reserved[self.ring] -= self.room;
        flight.counts[self.half] -= 1;
        if flight.counts[self.half] == 0 {
            self.commits.landed.notify_all();
        }
    }
}

impl<R: Storage> Commits<R> {
    /// `noted` has the entries that the table lacks, and `number` is the last one in use.
    pub(super) fn new(rings: Vec<Log<R>>, newest: Superblock, noted: Runs, number: u64) -> Self {
        Commits {
            flight: Mutex::new(Flight {
                number,
                turn: 0,
                counts: [0; 2],
                reserved: vec![0; rings.len()].into(),
                is_checkpointing: false,
                checkpoints: 0,
                failed: None,
            }),
            rings: rings.into(),
            landed: Condvar::new(),
            noted: Mutex::new(noted),
            table: Mutex::new(newest.used),
            low: (newest.ring - format::RING_HEAD) / 2,
            layout: newest.clone(),
            newest: Mutex::new(newest),
        }
    }

    /// Begins a commit that takes this room in a ring. Returns `None` if the ring has too little.
    fn begin(&self, ring: usize, room: u64) -> Result<Option<InFlight<'_, R>>, Error> {
        let mut flight = self.flight.lock();
        flight.check()?;
        if self.rings[ring].free() < flight.reserved[ring] + room {
            return Ok(None);
        }
        let is_shared = injected_bug!(
            "number-shared",
            "commits in flight at the same time get the same number",
            killed_by = "objects-packed/create-create, objects-packed/patch-other"
        ) && flight.counts != [0; 2];
        flight.number += u64::from(!is_shared);
        flight.reserved[ring] += room;
        let half = (flight.turn % 2) as usize;
        flight.counts[half] += 1;
        Ok(Some(InFlight {
            commits: self,
            number: flight.number,
            half,
            ring,
            room,
        }))
    }

    /// Allocates the table as far as the entry of this place, so that a checkpoint, and so an
    /// opening, never fails for lack of room.
    fn reserve_table(&self, medium: &impl Medium, last: u64) -> Result<(), Error> {
        let mut table = self.table.lock();
        if last < *table {
            return Ok(());
        }
        let end = (last + 1).next_multiple_of(TABLE_STEP);
        let bytes = {
            let newest = &self.layout;
            let end = end.min(newest.places.next_multiple_of(PAGE_ENTRIES));
            newest.entry_at(*table)..newest.entry_at(end)
        };
        (medium.reserve(bytes)).map_err(Error::io("allocating the table"))?;
        *table = end;
        Ok(())
    }

    /// Makes a record durable, and all data that was written before. Then calls `apply`, which
    /// changes the map and returns the entries to be noted, in order. On [`Error::Failed`] the
    /// record may be durable, on any other error it is not.
    ///
    /// # Panics
    /// If the medium panics. The space has then failed.
    pub(super) fn commit(
        &self,
        medium: &impl Medium,
        mut record: Vec<u8>,
        last: u64,
        apply: impl FnOnce() -> Vec<(u64, Run)>,
    ) -> Result<(), Error> {
        self.reserve_table(medium, last)?;
        let at = thread::index() % self.rings.len();
        let ring = &self.rings[at];
        let room = record.len() as u64 + format::BATCH_ROOM;
        let flight = loop {
            if let Some(flight) = self.begin(at, room)? {
                break flight;
            }
            let is_full = || ring.free() < self.flight.lock().reserved[at] + room;
            self.checkpoint_if(medium, is_full)?;
        };
        // Dropped before `flight`: the space has failed before the commit lands.
        let mut unsure = Unsure {
            commits: self,
            is_unsure: true,
        };
        format::set_number(&mut record, flight.number);
        let is_early = injected_bug!(
            "applied-early",
            "a commit changes the map, and notes the entries, before its record is durable",
            killed_by = "objects-packed/patch-checkpoint, objects-packed/grow-checkpoint"
        );
        let mut apply = Some(apply);
        let mut note = || {
            let Some(apply) = apply.take() else { return };
            let entries = apply();
            let mut noted = self.noted.lock();
            for (place, run) in entries {
                noted.insert(place, run);
            }
        };
        if is_early {
            note();
        }
        // The flush that makes the record durable comes after the data was written, so it makes
        // the data durable, too (W4).
        let appended = ring.append_durable(&record);
        appended.map_err(|error| self.fail(error.to_string()))?;
        note();
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
        let durable = || self.rings.iter().map(|it| it.durable());
        let mut ends: Vec<Lsn> = durable().collect(); // C1
        let cut = self.land()?; // C2
        if injected_bug!(
            "ends-after-landing",
            "a checkpoint truncates records that came after its cut",
            killed_by = "objects-packed/create-checkpoint, objects-packed/patch-checkpoint"
        ) {
            ends = durable().collect();
        }
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
            if !injected_bug!(
                "noted-lost",
                "a checkpoint that fails forgets the entries that it took",
                killed_by = "objects-failing/sequences-of-2, objects-failing/sequences-of-3"
            ) {
                self.note_again(noted);
            }
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
        // The other half is empty: the last checkpoint has waited for it.
        flight.turn += 1;
        let waits = !injected_bug!(
            "not-landed",
            "a checkpoint does not wait for the commits in flight",
            killed_by = "objects-packed/create-checkpoint, objects-packed/patch-checkpoint"
        );
        while waits && flight.counts[old] > 0 {
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

/// Entries by which the allocated part of the table grows.
const TABLE_STEP: u64 = 64 * PAGE_ENTRIES;

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
    if !injected_bug!(
        "used-not-raised",
        "a checkpoint adds pages to the table and does not say so",
        killed_by = "objects-packed/sequences-of-1"
    ) {
        new.used = end * PAGE_ENTRIES;
    }
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
        // SAFETY: as above.
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
