//! The journal: makes changes of several logs one atomic change.
//!
//! # The problem
//! Within one log, a single mark commits a change. A rename from one directory to another changes
//! two logs, and one word cannot commit both. An exchange needs two groups, even in one log. NOVA
//! journals such changes, and so does this crate. Its journal is a compact log of
//! `spanlock-journal-commit`, between the inode table and the data area.
//!
//! ```text
//!   slots of the new groups ── fence ── record ── fence ── marks and erasures ── fence ── truncate
//!                                         │                       │
//!                               recovery stores the words     nothing is left
//!                               of the record once more        to be done
//! ```
//!
//! # Properties
//! - A **record** lists words: the marks of new groups, and zero for each mark that is erased. Each
//!   is a position in the region and a value, both of 8 bytes.
//! - **Cost**: seven fences. One makes the groups durable, one the record, one the words. Opening
//!   the journal and truncating it take two each, for its two superblocks. Each transaction opens
//!   the journal, so a volume without a transaction in progress keeps nothing of it in memory.
//! - **Read only**: opening a volume read-only, or checking it, does not store the words of a
//!   record, but reads the logs as if they were stored.
//!
//! # Invariants
//! - **F-J1** The journal has a record only while a thread holds the tree's mutex and those of the
//!   directories whose logs the record names, or after that thread has panicked. So until the
//!   record is truncated, durably, a log page that it names stays in the same log. A crash can
//!   leave the record in the older of the journal's two superblocks. Recovery then rewrites both,
//!   so that damage to the newer one never brings the record back.
//! - **F-J2** A word of a record is the only store to its position until the record is truncated: a
//!   new group's mark belongs to its reservation, and an old group's to the directory (F-M4). So
//!   storing the words again, any number of times, leaves the same bytes.

use spanlock_journal_commit::compact::{self, GroupCommit, Log, Options};
use spanlock_journal_commit::storage::PmemStorage;
use spanlock_pmem::{Durable, Flushed, Pmem};
use spanlock_sync::injected_bug;

use crate::medium::error::Error;
use crate::medium::layout::{Geometry, PAGE, SLOT_BYTES, get_u64, page_at};

const WHAT: &str = "a damaged journal";
/// Bytes of a word in a record: its position and its value.
const ENTRY_BYTES: usize = 16;
/// Formatting clears the journal, so no batches of an older one are left that have this id.
const ID: u64 = 1;

/// A word of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word {
    /// The byte offset of a slot.
    pub(crate) at: u64,
    /// A mark, or zero to erase one.
    pub(crate) value: u64,
}

/// The journal of a volume, open for one transaction or one recovery.
pub(crate) struct Journal<'m, P> {
    pmem: &'m P,
    /// The byte offset of the journal in the region.
    start: u64,
    log: Log<PmemStorage<&'m P>>,
}

impl<'m, P: Pmem> Journal<'m, P> {
    /// Opens the journal. Writes nothing.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    pub(crate) fn open(pmem: &'m P, geometry: &Geometry) -> Result<Self, Error> {
        let range = geometry.journal();
        let start = range.start;
        // The geometry lies inside the region, so this does not happen.
        let part = PmemStorage::part(pmem, range).map_err(|_| Error::corrupt_at(WHAT, start))?;
        let options = Options::new().id(ID).group_commit(GroupCommit::Plain);
        let log = Log::open_lazily(part, &options).map_err(|why| corrupt(start, &why))?;
        let journal = Journal { pmem, start, log };
        // Truncates nothing, but refuses forged numbers, with which no record could be written.
        journal.truncate(journal.log.first())?;
        Ok(journal)
    }

    /// Stores words in one or several logs, as one change. `_groups` proves that the groups that
    /// the words commit are durable. The words are durable on return, and the journal is empty.
    ///
    /// # Errors
    /// [`Error::Corrupt`]. The words are then stored durably or not at all, and the journal may
    /// keep the record.
    pub(crate) fn commit(self, words: &[Word], _groups: Durable) -> Result<(), Error> {
        let record: Vec<u8> = (words.iter())
            .flat_map(|it| [it.at, it.value])
            .flat_map(u64::to_le_bytes)
            .collect();
        let is_early = injected_bug!(
            "words-before-record",
            "the marks of a change of several directories are stored before its record is durable",
            killed_by = "file-core-names/sequences-of-1"
        );
        if is_early {
            self.store(words);
        }
        let appended = self.log.append_durable(&record);
        let next = appended.map_err(|why| corrupt(self.start, &why))?.next();
        let is_truncated_early = injected_bug!(
            "journal-truncated-early",
            "the journal is truncated before the words of its record are durable",
            killed_by = "file-core-names/sequences-of-1"
        );
        if is_truncated_early {
            self.truncate(next)?;
        }
        if !is_early {
            self.store(words);
        }
        let is_left = injected_bug!(
            "journal-not-truncated",
            "the journal keeps the record of a change that is complete",
            killed_by = "file-core-names/sequences-of-2"
        );
        if is_left {
            return Ok(());
        }
        self.truncate(next)
    }

    /// Returns the words of a change that a crash has interrupted, and the end of its record;
    /// `None` if there is none. Writes nothing.
    ///
    /// # Errors
    /// [`Error::Corrupt`].
    fn left(&self, geometry: &Geometry) -> Result<Option<(Vec<Word>, compact::Lsn)>, Error> {
        let mut words = Vec::new();
        let mut end = None;
        for record in self.log.records() {
            let record = record.map_err(|why| corrupt(self.start, &why))?;
            end = Some(record.lsn.next());
            if !record.data.len().is_multiple_of(ENTRY_BYTES) {
                return Err(Error::corrupt_at(
                    "a journal record of an impossible length",
                    self.start,
                ));
            }
            words.extend(record.data.chunks_exact(ENTRY_BYTES).map(|entry| Word {
                at: get_u64(entry, 0),
                value: get_u64(entry, 8),
            }));
        }
        let data = page_at(geometry.data_start())..page_at(geometry.data_end());
        let is_slot = |at| data.contains(&at) && at.is_multiple_of(SLOT_BYTES as u64);
        if !words.iter().all(|it| is_slot(it.at)) {
            let what = "a journal record with a position outside the logs";
            return Err(Error::corrupt_at(what, self.start));
        }
        Ok(end.map(|end| (words, end)))
    }

    /// Completes a change that a crash has interrupted. Writes nothing if there is none, unless the
    /// two copies of the journal's superblock differ.
    ///
    /// # Errors
    /// [`Error::Corrupt`], before anything is written.
    pub(crate) fn redo(&self, geometry: &Geometry) -> Result<(), Error> {
        let Some((words, end)) = self.left(geometry)? else {
            return match self.log.recovery().copies_agreed {
                true => Ok(()),
                // F-J1: the older copy may still have a record.
                false => self.finish_opening(),
            };
        };
        // A killed process may leave the record in the page cache only. It must be durable before
        // a part of what it says is.
        self.finish_opening()?;
        let is_left_out = injected_bug!(
            "redo-skipped",
            "recovery truncates the journal, and does not store the words of its records",
            killed_by = "file-core-names/sequences-of-1"
        );
        if !is_left_out {
            self.store(&words);
        }
        self.truncate(end)
    }

    fn finish_opening(&self) -> Result<(), Error> {
        let finished = self.log.finish_opening();
        finished.map_err(|why| corrupt(self.start, &why))
    }

    /// Stores the words, durably.
    fn store(&self, words: &[Word]) {
        let mut stored = Flushed::nothing();
        for it in words {
            // F-J2, F-M4. The record is durable, and so are the groups, by the fence before it.
            let written = self.pmem.publish(it.at, it.value, Durable::at_rest());
            stored = stored.and(self.pmem.flush(written));
        }
        self.pmem.fence(stored);
    }

    fn truncate(&self, end: compact::Lsn) -> Result<(), Error> {
        let truncated = self.log.truncate(end);
        truncated.map_err(|why| corrupt(self.start, &why))
    }
}

/// Returns the words that [`redo`](Journal::redo) would store. Writes nothing.
///
/// # Errors
/// [`Error::Corrupt`].
pub(crate) fn words_left<P: Pmem>(pmem: &P, geometry: &Geometry) -> Result<Vec<Word>, Error> {
    let left = Journal::open(pmem, geometry)?.left(geometry)?;
    Ok(left.map_or_else(Vec::new, |(words, _)| words))
}

/// Empties a damaged journal, durably. A crash leaves it damaged or empty: the superblocks, without
/// which no record is found, are erased first.
pub(crate) fn clear<P: Pmem>(pmem: &P, geometry: &Geometry) {
    let range = geometry.journal();
    for page in range.step_by(PAGE) {
        // SAFETY: F-M8.
        let written = unsafe { pmem.write(page, &[0; PAGE]) };
        pmem.persist(written);
    }
}

/// Returns the error for a journal that begins at byte `start`.
fn corrupt(start: u64, why: &compact::Error) -> Error {
    let at = match why {
        compact::Error::Corrupt { at, .. } => start + at,
        _ => start,
    };
    Error::corrupt_at(WHAT, at)
}
