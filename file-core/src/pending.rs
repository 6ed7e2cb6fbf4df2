//! Group durability: changes of files that become durable together.
//!
//! # The problem
//! A change of a few bytes costs two fences, which may take longer than the rest of the change. A
//! caller that needs durability only at certain points would still pay them for each change.
//!
//! # Properties
//! - With [`Durability::AtSync`](crate::Durability), a change writes its data and its slots, but
//!   neither flushes nor fences. Its mark is not stored either, so recovery cannot see the change.
//! - A *sync* flushes what all changes since the last one have written, and fences. Then it stores
//!   their marks in *rounds*, and flushes and fences each round. Afterwards all of these changes
//!   are durable. If a crash comes before that, each is present as a whole or not at all.
//! - A change whose pages overlap those of an earlier change of the file belongs to a later round
//!   (Y6). So the fences of a sync are one more than the longest chain of changes that overlap: two
//!   in all if none do. Changes that do not overlap survive independently of each other.
//! - A sync waits for a sync in progress, which may have taken changes that the waiting caller has
//!   made. It takes no range lock, so readers and writers go on.
//!
//! # States of a change
//! ```text
//!          add                     sync                      both
//!   ─────────────► unpublished ───────────► mark durable ──────────► ended, old pages freed
//!                       index updated: `finish`  ──────────────────────►
//! ```
//!
//! # Invariants
//! - **Y1** A change is [added](Pending::add) before the index refers to what it has written. So a
//!   thread that sees the change in the index, and then syncs, makes it durable.
//! - **Y2** The reservation of a change ends, and what it has replaced becomes free, once its mark
//!   is durable *and* its owner has updated index and size (L4, M7, F-P1). Whichever comes later
//!   does this: the sync or the owner.
//! - **Y3** A cleaning copies no change that is not durable, because the page of its slots is not
//!   settled. But such a change may have replaced what the cleaning would have copied. So a
//!   cleaning [settles](crate::clean::Live::settle) after it has read the index and before it
//!   publishes, and again before it takes away references that writers have replaced meanwhile.
//! - **Y4** A cleaning that waits for a page first says so in the page's state, and then settles.
//!   The owner of a change finishes, then looks whether a cleaning waits for one of its pages, and
//!   syncs if so. Each acquires the mutex of the pending changes after its first step and before
//!   its second, so at least one of them sees the other.
//! - **Y5** A region may panic during a sync. The logs of all changes that it has taken are
//!   poisoned then (L5), and every later sync returns an error. A change of one of these files that
//!   had reserved its slots before, and is added later, is never published: it may contain bytes of
//!   a change that is lost (Y6).
//! - **Y6** The mark of a change is stored only once the marks of all earlier changes of the same
//!   file pages are durable. A later change can contain bytes of an earlier one: a write copies the
//!   rest of its first and last page, and an allocation keeps the pages that are there. If only the
//!   later change survived, so would a part of the earlier one, which would not be atomic.
//! - **Y7** A sync drops no range lock, because that is foreign code, and a sync can run within a
//!   cleaning or under a range lock. If the changes were the last references to a removed file, the
//!   sync frees its pages and its number. The file's lock is dropped by a thread that [holds
//!   nothing](Pending::drop_gone).

use core::mem::take;
use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

use spanlock_pmem::{Durable, Flushed, Pmem, Unflushed};
use spanlock_sync::{Arc, Mutex, injected_bug, take_last, thread};

use crate::alloc::Extent;
use crate::chain::Slots;
use crate::error::Error;
use crate::inode::Inode;
use crate::log_page::Gained;
use crate::medium::{Medium, Space};
use crate::volume::Volume;

/// The most changes that wait for a sync. The next one syncs.
const MOST_CHANGES: usize = 1024;
/// The data pages that wait for a sync are at most one in this many of the volume's.
const PART_OF_PAGES: u32 = 16;

/// The most syncs of an operation that lacks space. The first one frees everything that earlier
/// changes kept.
const MOST_SYNCS: u32 = 3;

/// The changes of a volume that are not durable yet.
pub(crate) struct Pending<L> {
    /// Held during a sync.
    syncing: Mutex<()>,
    state: Mutex<State<L>>,
    /// The number of data pages from which a change syncs.
    most_pages: u64,
}

struct State<L> {
    /// The number of syncs that have begun. A change belongs to the era in which it was added.
    era: u64,
    /// The changes of all eras before this one are durable, or their logs are poisoned.
    settled: u64,
    added: Vec<Added<L>>,
    /// The number of data pages that the changes in `added` have written.
    pages: u64,
    finished: Vec<Finished<L>>,
    /// Removed files that only their changes kept (Y7).
    gone: Vec<Inode<L>>,
    /// The numbers and generations of the inodes of which a sync has lost a change (Y5).
    lost: BTreeSet<(u32, u64)>,
}

/// A change whose mark is not stored yet.
pub(crate) struct Added<L> {
    pub(crate) inode: Arc<Inode<L>>,
    /// The position of the mark, and the mark.
    pub(crate) at: u64,
    pub(crate) mark: u64,
    /// The data and the slots.
    pub(crate) written: Vec<Unflushed>,
    /// The pages of the file that the change replaces, keeps or removes, or on which it relies.
    pub(crate) file_pages: Range<u64>,
    /// The number of data pages that it has written.
    pub(crate) pages: u32,
}

/// A change whose owner has updated the index.
pub(crate) struct Finished<L> {
    pub(crate) era: u64,
    pub(crate) inode: Arc<Inode<L>>,
    pub(crate) slots: Slots,
    pub(crate) gained: Gained,
    pub(crate) old: Old,
}

/// What a change has replaced: data pages, and references to log pages.
#[derive(Debug, Default)]
pub(crate) struct Old {
    pub(crate) pages: Vec<Extent>,
    pub(crate) references: Vec<(u32, u32)>,
}

impl Old {
    /// Frees the pages and takes the references away (M7, F-P1).
    fn free(self, space: &Space) {
        for (log_page, count) in self.references {
            space.take_live(log_page, count);
        }
        for run in self.pages {
            space.alloc.release(run);
        }
    }
}

impl<L> Finished<L> {
    /// Ends the reservation, and frees what the change has replaced (Y2). Returns the inode, which
    /// the caller drops where it may (Y7).
    fn end(self, space: &Space) -> Arc<Inode<L>> {
        let log = &self.inode.log;
        if log.is_poisoned() {
            // It is not known whether the mark is there. The old pages stay as they are (L5).
            log.end(space, &self.slots, Gained::default());
        } else {
            log.end(space, &self.slots, self.gained);
            self.old.free(space);
        }
        self.inode
    }
}

impl<L> Pending<L> {
    /// Creates the state for a volume with so many data pages.
    pub(crate) fn new(data_pages: u32) -> Self {
        let state = State {
            era: 0,
            settled: 0,
            added: Vec::new(),
            pages: 0,
            finished: Vec::new(),
            gone: Vec::new(),
            lost: BTreeSet::new(),
        };
        Pending {
            syncing: Mutex::new(()),
            state: Mutex::new(state),
            most_pages: u64::from((data_pages / PART_OF_PAGES).max(1)),
        }
    }

    /// Adds a change whose data and slots are written (Y1). Returns its era.
    pub(crate) fn add(&self, change: Added<L>) -> u64 {
        let mut state = self.state.lock();
        state.pages += u64::from(change.pages);
        state.added.push(change);
        state.era
    }

    /// Records that the owner of a change has updated index and size. Syncs if many changes wait
    /// for a sync, or if a cleaning waits for this change.
    pub(crate) fn finish<P: Pmem>(&self, medium: &Medium<P>, change: Finished<L>) {
        let space = &*medium.space;
        let frees_early = injected_bug!(
            "replaced-freed-pending",
            "what a change has replaced becomes free before the change is durable",
            killed_by = "file-core-grouped-full/sequences-of-2"
        );
        let mut state = self.state.lock();
        if change.era < state.settled || frees_early {
            drop(state);
            // Not the last reference: the owner has one.
            drop(change.end(space));
            return;
        }
        let is_full = state.added.len() >= MOST_CHANGES || state.pages >= self.most_pages;
        let slots = change.slots.clone();
        state.finished.push(change);
        drop(state);
        let is_overlooked = injected_bug!(
            "waiter-overlooked",
            "a change does not look for a cleaning that waits for it",
            killed_by = "file-core-memory/compaction-grouped"
        );
        // Y4: after the mutex was held.
        if is_full || (!is_overlooked && space.log_pages.is_waited_for(&slots)) {
            self.sync(medium);
        }
    }

    /// Makes all changes durable that were added before. Returns whether there were any.
    pub(crate) fn sync<P: Pmem>(&self, medium: &Medium<P>) -> bool {
        let overtakes = injected_bug!(
            "sync-overtakes",
            "a sync returns while another one makes the changes durable that it waits for",
            killed_by = "file-core-grouped/two-syncs"
        );
        if overtakes && self.state.lock().added.is_empty() {
            return false;
        }
        let _syncing = self.syncing.lock();
        let mut state = self.state.lock();
        if state.added.is_empty() {
            return false;
        }
        let State {
            era, added, lost, ..
        } = &mut *state;
        let is_lost = |it: &mut Added<L>| lost.contains(&id_of(&it.inode));
        let spent = added.extract_if(.., is_lost).map(|it| it.inode).collect();
        let taken = Taken {
            pending: self,
            space: &medium.space,
            era: *era,
            changes: take(added),
            is_durable: false,
            spent,
        };
        state.era += 1;
        state.pages = 0;
        drop(state);
        taken.publish(medium);
        true
    }

    /// Drops the locks of removed files that syncs have freed (Y7). The caller holds nothing.
    pub(crate) fn drop_gone(&self) {
        let gone = take(&mut self.state.lock().gone);
        drop(gone);
    }
}

/// Returns the number and the generation.
fn id_of<L>(inode: &Inode<L>) -> (u32, u64) {
    (inode.number, inode.generation)
}

/// The changes of an era, which a sync makes durable.
struct Taken<'a, L> {
    pending: &'a Pending<L>,
    space: &'a Space,
    era: u64,
    changes: Vec<Added<L>>,
    is_durable: bool,
    /// References of changes that have ended.
    spent: Vec<Arc<Inode<L>>>,
}

impl<L> Taken<'_, L> {
    fn publish<P: Pmem>(mut self, medium: &Medium<P>) {
        let mut flushed = Flushed::nothing();
        for written in self.changes.iter_mut().flat_map(|it| take(&mut it.written)) {
            flushed = flushed.and(medium.pmem.flush(written.attach()));
        }
        let publishes_early = injected_bug!(
            "sync-publishes-early",
            "a sync stores marks before what they commit is durable",
            killed_by = "file-core-grouped/sequences-of-2"
        );
        let mut durable = if publishes_early {
            drop(flushed);
            Durable::at_rest()
        } else {
            medium.pmem.fence(flushed)
        };
        for round in in_rounds(&self.changes).chunk_by(|a, b| a.0 == b.0) {
            let mut marks = Flushed::nothing();
            for &(_, change) in round {
                let (this, rest) = durable.split();
                durable = rest;
                let Added { at, mark, .. } = self.changes[change];
                marks = marks.and(medium.store_word(at, mark, this));
            }
            durable = medium.pmem.fence(marks);
        }
        self.is_durable = true;
    }
}

/// Returns the changes with the rounds in which their marks are stored (Y6), in the order of the
/// rounds.
fn in_rounds<L>(changes: &[Added<L>]) -> Vec<(u32, usize)> {
    // The round of the latest change of each run of pages: from an inode and the first page to the
    // page after the last, and the round. The runs of an inode are disjoint.
    let mut latest: BTreeMap<(u32, u64), (u64, u32)> = BTreeMap::new();
    let round_of = |change: &Added<L>| {
        let (inode, pages) = (change.inode.number, change.file_pages.clone());
        if pages.is_empty() {
            return 0;
        }
        let before = latest.range(..(inode, pages.start)).next_back();
        let before = before.filter(|((of, _), (end, _))| *of == inode && *end > pages.start);
        let inside = latest.range((inode, pages.start)..(inode, pages.end));
        let overlapped = before.into_iter().chain(inside);
        let overlapped: Vec<_> = overlapped.map(|((_, start), run)| (*start, *run)).collect();
        let mut round = 0;
        for (start, (end, earlier)) in overlapped {
            round = round.max(earlier + 1);
            latest.remove(&(inode, start));
            if start < pages.start {
                latest.insert((inode, start), (pages.start, earlier));
            }
            if end > pages.end {
                latest.insert((inode, pages.end), (end, earlier));
            }
        }
        latest.insert((inode, pages.start), (pages.end, round));
        round
    };
    let mut rounds: Vec<u32> = changes.iter().map(round_of).collect();
    if injected_bug!(
        "marks-in-one-round",
        "a sync stores the marks of changes that overlap in any order",
        killed_by = "file-core-grouped/overlaps-sync"
    ) {
        rounds.fill(0);
    }
    let mut order: Vec<(u32, usize)> = rounds.into_iter().zip(0..).collect();
    order.sort_unstable();
    order
}

impl<L> Drop for Taken<'_, L> {
    fn drop(&mut self) {
        let inodes = self.changes.drain(..).map(|it| it.inode);
        self.spent.extend(inodes);
        if !self.is_durable {
            // Y5: the region has panicked.
            self.spent.iter().for_each(|it| it.log.poison());
        }
        let mut state = self.pending.state.lock();
        if !self.is_durable {
            state.lost.extend(self.spent.iter().map(|it| id_of(it)));
        }
        state.settled = self.era + 1;
        let (now, later) = take(&mut state.finished)
            .into_iter()
            .partition(|it| it.era <= self.era);
        state.finished = later;
        drop(state);
        let now: Vec<Finished<L>> = now;
        let ended = now.into_iter().map(|it| it.end(self.space));
        self.spent.extend(ended);
        // Y7: before another sync begins, so that a thread that waits for this one finds the pages
        // free.
        let spent = take(&mut self.spent).into_iter();
        let mut gone: Vec<_> = spent.filter_map(take_last).collect();
        if !gone.is_empty() {
            gone.iter_mut().for_each(Inode::free);
            self.pending.state.lock().gone.append(&mut gone);
        }
    }
}

impl<P: Pmem, L> Volume<P, L> {
    /// Makes every change durable that returned before. Returns whether one was not. Drops no lock
    /// (Y7).
    pub(crate) fn settle(&self) -> bool {
        match &self.pending {
            Some(pending) => pending.sync(&self.medium),
            None => false,
        }
    }

    /// Performs `act`, and repeats it if it lacks pages or an inode but changes are pending: a sync
    /// frees the pages that they have replaced, and the removed files that they belong to. Repeats
    /// it once more when nothing is pending: another thread's sync may have freed pages meanwhile.
    /// Others may add changes all the time, so the number of syncs has a bound. The caller holds no
    /// mutex.
    ///
    /// # Errors
    /// Those of `act`.
    #[inline]
    pub(crate) fn with_space<T>(
        &self,
        mut act: impl FnMut() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let mut syncs_left = self.pending.as_ref().map_or(0, |_| MOST_SYNCS);
        loop {
            match act() {
                Err(Error::NoSpace { .. } | Error::NoInodes { .. }) if syncs_left > 0 => {
                    syncs_left = match self.settle() {
                        true => syncs_left - 1,
                        false => 0,
                    };
                }
                Err(error) => return Err(error),
                // Not in one arm with the errors. That arm would copy the whole result, which is as
                // large as the largest error.
                Ok(done) => return Ok(done),
            }
        }
    }

    /// Drops the locks of removed files that only their changes kept (Y7). The caller holds
    /// nothing.
    pub(crate) fn drop_gone(&self) {
        if let Some(pending) = &self.pending {
            pending.drop_gone();
        }
    }

    /// Like [`settle`](Self::settle), on behalf of a user of the volume who holds nothing.
    ///
    /// # Errors
    /// [`Error::Poisoned`] if this or an earlier sync has lost a change (Y5).
    pub(crate) fn sync(&self) -> Result<(), Error> {
        self.settle();
        self.drop_gone();
        let pending = self.pending.as_ref();
        let lost = pending.and_then(|it| it.state.lock().lost.first().copied());
        match lost {
            Some((inode, _)) => Err(Error::Poisoned { inode }),
            None => Ok(()),
        }
    }
}

impl<P: Pmem, L> Drop for Volume<P, L> {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.settle();
            return;
        }
        // If the region has panicked, it may panic again, which would abort the process here.
        let _ = catch_unwind(AssertUnwindSafe(|| self.settle()));
    }
}
