//! Cleaning: takes the pages off a log that hold nothing that is needed.
//!
//! # The problem
//! Every overwrite leaves a dead group behind, so without cleaning a log would grow for ever. NOVA
//! cleans a log in two ways: "fast" cleaning unlinks pages without a live entry, and "thorough"
//! cleaning copies the live entries into a new log and swings the head (Xu & Swanson, FAST '16,
//! §III-D). Both stop the inode's writers.
//!
//! # Properties
//! - **Fast**: every page but the last is unlinked if none of its groups is needed
//!   ([`State::is_dead`]). Costs a look at each page's word and one fence.
//! - **Thorough**: what is live in the oldest pages is written to fresh ones, which take the place
//!   of these pages in the chain. Costs time in proportion to the live groups, and a walk over the
//!   index. At most one live slot is copied for three slots appended.
//! - **When**: an append needs a page, and the log has grown by an eighth since the last cleaning,
//!   or a removal has left many dead names. It becomes thorough if the log then still has more than
//!   max(8, 4 × the pages that its live groups need, 1 for each 256 pages of the file). The last
//!   bound limits the cost of the walk.
//! - **Others go on**: readers and writers of the file do, because cleaning leaves the pages alone
//!   that operations in flight use. The thread whose append needs the page does the work.
//! - **On a full volume**, all pages of a log can be written to fresh ones, so that the same number
//!   of pages has room again ([`if_it_helps`]). This waits for the operations in flight, and new
//!   ones wait for it.
//! - **Space**: while live groups are copied, they exist twice. A cleaning may use the whole
//!   reserve and frees more than it takes.
//!
//! # The order of groups
//! Recovery applies groups in the order of the chain. Fresh pages take the place of the *oldest*
//! pages, so every group that replaces a copied one still comes after it. Groups that only take
//! something away are not copied, because nothing older is left that they could apply to. Fast
//! cleaning keeps their pages.
//!
//! # The switch
//! 1. The fresh pages are stored whole, with their marks and linked to each other and to the first
//!    page that stays. They are private: nothing points to them, so their marks are not published
//!    one by one.
//! 2. *Fence.* Only now may anything point to the fresh pages.
//! 3. The pointer before the old pages is published, flushed, and *fenced*. Before this 8-byte
//!    store persists, recovery reads the old pages; afterwards it reads the fresh ones. Both have
//!    the same content. Fast cleaning consists of this step.
//! 4. The index is told where the groups are now. A writer may replace one of them at the same
//!    moment; it then takes away its reference to the page that the index names.
//! 5. The old pages become free (M7), each as soon as no reference to it is left (P2).

use std::collections::BTreeSet;

use spanlock_pmem::{Durable, Flushed, Pmem};
use spanlock_sync::{MutexGuard, injected_bug};

use crate::alloc::{Class, Extent};
use crate::chain::{LogState, pointer_after, store_log_page};
use crate::error::Error;
use crate::layout::{LogId, PAGE_SLOTS, PageId, SLOT_BYTES, WORD_BYTES, mark_of, seal};
use crate::log::{Log, Place};
use crate::log_page::State;
use crate::medium::{Medium, Space};
use crate::record::{GroupWriter, slots_for};

/// The size limit of a log, as a multiple of the pages that its live groups need.
const FACTOR: u64 = 4;
/// On a full volume, a cleaning must free at least this many slots. Otherwise every append would
/// clean.
const LEAST_GAIN: u32 = 8;

/// A log may have one page for every 256 live pages or names. Walking these would cost more than a
/// cleaning frees.
const LIVE_PER_PAGE: u64 = 256;

/// A group that a cleaning copies.
pub(crate) struct LiveGroup<'a> {
    /// What the group is, in a form that [`Live::moved`] understands.
    pub(crate) tag: u64,
    /// The number of live references to the group.
    pub(crate) live: u32,
    /// The length of the record.
    pub(crate) bytes: usize,
    /// Writes the record.
    pub(crate) put: &'a dyn Fn(&mut GroupWriter<'_>),
}

/// Receives the groups of a log one by one.
pub(crate) type EmitGroup<'a> = dyn FnMut(LiveGroup<'_>) + 'a;

/// Tells whether a page is one of those whose groups are copied.
pub(crate) type IsOld<'a> = dyn Fn(u32) -> bool + 'a;

/// The live content of a log, which a cleaning must keep.
pub(crate) trait Live {
    /// Calls `emit` for each live group in the old pages. No group is longer than a page. Returns
    /// how many pages or names it visited.
    fn each(&self, is_old: &IsOld<'_>, emit: &mut EmitGroup<'_>) -> u64;

    /// Says where the groups are now, in the order in which [`each`](Self::each) emitted them.
    /// Returns the log pages to which the caller must take references away: old pages, and new ones
    /// whose groups writers have replaced meanwhile.
    fn moved(&self, is_old: &IsOld<'_>, groups: &[(u64, Place)]) -> Vec<u32>;

    /// Makes every change durable that [`each`](Self::each) could see (Y3 of [`crate::pending`]).
    /// The caller does not hold the log's mutex.
    fn settle(&self) {}
}

/// Returns the most pages that a log with `live_slots` live slots may have.
pub(crate) fn bound(space: &Space, live_slots: u64) -> u64 {
    (live_slots.div_ceil(PAGE_SLOTS as u64) * FACTOR).max(space.least_cleaned as u64)
}

/// Says that no thread cleans the log any more if a panic ends the cleaning.
struct EndOnUnwind<'l>(&'l Log);

impl Drop for EndOnUnwind<'_> {
    fn drop(&mut self) {
        self.0.lock().is_cleaned = false;
        self.0.notify();
    }
}

/// Cleans the log if it is too long. Others may append meanwhile. No other thread cleans it. The
/// cleaning is not due again until the log has grown.
pub(crate) fn if_due<'l, P: Pmem>(
    log: &'l Log,
    mut state: MutexGuard<'l, LogState>,
    medium: &Medium<P>,
    live: &dyn Live,
) -> MutexGuard<'l, LogState> {
    state.is_cleaned = true;
    let (id, pages) = (state.id, state.pages.clone());
    drop(state);
    let end = EndOnUnwind(log);
    let guard = log.poison_on_unwind();

    let pages = unlink_dead(log, id, &pages, medium);
    let mut bound = bound(&medium.space, 0);
    if pages.len() as u64 > bound {
        let old = oldest_settled(&pages, medium);
        let others = (pages.len() - old.len()) as u64;
        bound = Count::of(live, &|page| old.contains(&page)).bound(&medium.space) + others;
        if pages.len() as u64 > bound {
            // This may fail for lack of pages; a later call tries again.
            let _ = copy_live(log, id, &pages, old.len(), medium, live);
        }
    }

    guard.defuse();
    core::mem::forget(end);
    let mut state = log.lock();
    let len = state.pages.len();
    state.clean_at = (bound as usize + 1).max(len + 1 + len / 8);
    state.is_cleaned = false;
    log.notify();
    state
}

/// Returns the oldest pages whose groups can be copied.
fn oldest_settled<P>(pages: &[u32], medium: &Medium<P>) -> BTreeSet<u32> {
    let state = |page: &u32| medium.space.log_pages.state(*page);
    let closed = &pages[..pages.len() - 1];
    let settled = closed.iter().take_while(|it| state(it).is_settled());
    let mut count = settled.count();
    // A group that continues in a page that stays must stay.
    while count > 0 && state(&pages[count - 1]).is_continued() {
        count -= 1;
    }
    pages[..count].iter().copied().collect()
}

/// Unlinks the pages of which no group is needed, except the last. Returns the others.
fn unlink_dead<P: Pmem>(log: &Log, id: LogId, pages: &[u32], medium: &Medium<P>) -> Vec<u32> {
    let space = &*medium.space;
    let (mut kept, mut dead) = (Vec::new(), Vec::new());
    // The pointers to change: the page that has it, and the page that it points to.
    let mut pointers: Vec<(Option<u32>, u32)> = Vec::new();
    let mut at = 0;
    while at < pages.len() {
        let mut end = at + 1;
        while end < pages.len() && space.log_pages.state(pages[end - 1]).is_continued() {
            end += 1;
        }
        // Pages that a group connects are needed or not needed together.
        let together = &pages[at..end];
        let is_dead = |page: &u32| space.log_pages.state(*page).is_dead();
        if end < pages.len() && together.iter().all(is_dead) {
            dead.extend_from_slice(together);
        } else {
            let before = kept.last().copied();
            if at > 0 && before != Some(pages[at - 1]) {
                pointers.push((before, pages[at]));
            }
            kept.extend_from_slice(together);
        }
        at = end;
    }
    // An operation in one of the pages may have panicked (L5).
    if dead.is_empty() || log.is_poisoned() {
        return pages.to_vec();
    }
    let mut stored = Flushed::nothing();
    for (before, next) in pointers {
        let (at, seed) = pointer_after(medium, id, before);
        // Both pages are linked already, so nothing has to be durable before the pointer is. Each
        // of the pointers leaves a chain, whichever of them a crash keeps.
        stored = stored.and(medium.store_word(at, seal(seed, next), Durable::at_rest()));
    }
    if injected_bug!(
        "unlink-not-durable",
        "a page becomes free before the pointer past it is durable",
        killed_by = "file-core-cleaning/sequences-of-2"
    ) {
        drop(stored);
    } else {
        medium.pmem.fence(stored);
    }
    let gone: BTreeSet<u32> = dead.iter().copied().collect();
    log.lock().pages.retain(|page| !gone.contains(page));
    for page in dead {
        medium.space.unlink_log_page(page);
    }
    medium.space.count_unlinked(gone.len() as u64);
    kept
}

/// Copies what is live in the first `count` pages to fresh ones, which take their place.
///
/// # Errors
/// [`Error::NoSpace`], [`Error::Poisoned`]; nothing has changed.
fn copy_live<P: Pmem>(
    log: &Log,
    id: LogId,
    pages: &[u32],
    count: usize,
    medium: &Medium<P>,
    live: &dyn Live,
) -> Result<(), Error> {
    let (old, stay) = pages.split_at(count);
    let gone: BTreeSet<u32> = old.iter().copied().collect();
    let is_old = |page| gone.contains(&page);
    let births = log.lock().take_births(old.len() as u64);
    let mut copy = Copy::new(medium, id, births, old.len());
    live.each(&is_old, &mut |group| copy.group(&group));
    let fresh = copy.end(Some(stay[0]), 0)?;
    settle(live);
    // An operation in one of the old pages may have panicked (L5).
    if log.is_poisoned() {
        fresh.give_back(medium);
        return Err(Error::Poisoned { inode: id.inode });
    }
    let first = fresh.pages.first().map_or(stay[0], |it| it.page);
    let fresh = fresh.publish(medium, id, first);
    let mut state = log.lock();
    state.pages.splice(..count, fresh.pages);
    drop(state);
    let gone = live.moved(&is_old, &fresh.groups);
    // The writers that have replaced copied groups may be pending (Y3).
    live.settle();
    medium.space.take_each(gone);
    for &page in old {
        medium.space.unlink_log_page(page);
    }
    Ok(())
}

/// Writes what is live to fresh pages if that makes room for `slots` more slots without adding
/// pages. New operations wait for this, and it waits for those in flight.
pub(crate) fn if_it_helps<'l, P: Pmem>(
    log: &'l Log,
    mut state: MutexGuard<'l, LogState>,
    medium: &Medium<P>,
    slots: u32,
    live: &dyn Live,
) -> MutexGuard<'l, LogState> {
    let space = &*medium.space;
    let wanted = u64::from(slots.max(LEAST_GAIN));
    let mut has_settled = false;
    loop {
        if state.is_cleaned {
            state = log.wait(state);
            continue;
        }
        let is_old = |page| state.pages.contains(&page);
        let room = state.pages.len() as u64 * u64::from(PAGE_SLOTS);
        if log.is_poisoned() || Count::of(live, &is_old).slots + wanted > room {
            return state;
        }
        log.close(space);
        let mut pages = state.pages.iter();
        if pages.all(|page| space.log_pages.wait_for(*page)) {
            break;
        }
        if !has_settled {
            // Pending changes do not end by themselves. One that is pending later sees that this
            // thread waits (Y4).
            drop(state);
            live.settle();
            state = log.lock();
            has_settled = true;
            continue;
        }
        state = log.wait(state);
        has_settled = false;
    }
    if log.is_poisoned() {
        return state;
    }
    let old = state.pages.clone();
    let is_old = |page| old.contains(&page);
    let (id, births) = (state.id, state.take_births(old.len() as u64));
    let guard = log.poison_on_unwind();
    let mut copy = Copy::new(medium, id, births, old.len());
    live.each(&is_old, &mut |group| copy.group(&group));
    copy.make_room(slots.min(PAGE_SLOTS));
    let used = copy.used();
    // Otherwise, there is no room for the copies.
    if let Ok(fresh) = copy.end(None, PAGE_SLOTS - used) {
        let first = fresh.pages[0].page;
        let fresh = fresh.publish(medium, id, first);
        // No operation has slots in the log, so none is pending.
        space.take_each(live.moved(&is_old, &fresh.groups));
        log.adopt(&mut state, space, fresh.pages, used);
        for &page in &old {
            space.unlink_log_page(page);
        }
    }
    guard.defuse();
    state
}

/// Makes the changes durable that have replaced what a cleaning does not copy.
fn settle(live: &dyn Live) {
    let is_left_out = injected_bug!(
        "cleaning-unsettled",
        "a cleaning drops what changes have replaced that are not durable",
        killed_by = "file-core-grouped-cleaning/sequences-of-2"
    );
    if !is_left_out {
        live.settle();
    }
}

/// Counts what [`Copy`] would write.
struct Count {
    /// Slots, including those that are left over in pages.
    slots: u64,
    /// The result of [`Live::each`].
    looked_at: u64,
}

impl Count {
    fn of(live: &dyn Live, is_old: &IsOld<'_>) -> Count {
        let mut slots = 0;
        let looked_at = live.each(is_old, &mut |group| {
            let wanted = slots_for(group.bytes) as u64;
            let left = u64::from(PAGE_SLOTS) - slots % u64::from(PAGE_SLOTS);
            slots += if wanted > left { left + wanted } else { wanted };
        });
        Count { slots, looked_at }
    }

    /// Returns the most pages that the log may have before it is cleaned thoroughly.
    fn bound(&self, space: &Space) -> u64 {
        bound(space, self.slots).max(self.looked_at / LIVE_PER_PAGE)
    }
}

/// Writes live groups to fresh pages.
struct Copy<'a, P> {
    medium: &'a Medium<P>,
    log: LogId,
    /// The birth number of the first fresh page.
    birth: u64,
    /// The most pages to take. Writers may split runs meanwhile, and more fresh pages than old ones
    /// are of no use.
    most: usize,
    fresh: Fresh,
    /// The slots of the last page, which is not stored yet.
    slots: Vec<u8>,
    error: Option<Error>,
}

/// A page that nothing points to yet.
struct FreshPage {
    page: u32,
    live: u32,
}

/// Stored pages that nothing points to yet, and their groups.
struct Fresh {
    pages: Vec<FreshPage>,
    groups: Vec<(u64, Place)>,
    stored: Flushed,
}

/// Fresh pages that the log has, and their groups.
struct Linked {
    pages: Vec<u32>,
    groups: Vec<(u64, Place)>,
}

impl<'a, P: Pmem> Copy<'a, P> {
    fn new(medium: &'a Medium<P>, log: LogId, birth: u64, most: usize) -> Self {
        Copy {
            medium,
            log,
            birth,
            most,
            fresh: Fresh {
                pages: Vec::new(),
                groups: Vec::new(),
                stored: Flushed::nothing(),
            },
            slots: Vec::new(),
            error: None,
        }
    }

    /// Returns the number of slots in use in the last page.
    fn used(&self) -> u32 {
        (self.slots.len() / SLOT_BYTES) as u32
    }

    /// Returns the identity of the last page.
    fn id(&self) -> PageId {
        let nth = self.fresh.pages.len() - 1;
        PageId {
            log: self.log,
            birth: self.birth.wrapping_add(nth as u64),
            page: self.fresh.pages[nth].page,
        }
    }

    /// Makes room for `slots` slots in the last page. Returns whether there is.
    fn make_room(&mut self, slots: u32) -> bool {
        let has_room = !self.fresh.pages.is_empty() && self.used() + slots <= PAGE_SLOTS;
        if self.error.is_some() || has_room {
            return has_room;
        }
        let alloc = &self.medium.space.alloc;
        let taken = match self.fresh.pages.len() < self.most {
            true => alloc.take(self.log.inode as u64, 1, Class::Compaction),
            false => Err(Error::NoSpace { needed: 1, free: 0 }),
        };
        match taken {
            Ok(taken) => {
                let page = taken.iter().next().expect("one was taken").start;
                self.store_last(Some(page));
                self.fresh.pages.push(FreshPage { page, live: 0 });
                true
            }
            Err(error) => {
                self.error = Some(error);
                false
            }
        }
    }

    fn group(&mut self, group: &LiveGroup<'_>) {
        let count = slots_for(group.bytes) as u32;
        if !self.make_room(count) {
            return;
        }
        let (id, slot, start) = (self.id(), self.used(), self.slots.len());
        self.slots.resize(start + count as usize * SLOT_BYTES, 0);
        let slots = &mut self.slots[start..];
        (group.put)(&mut GroupWriter::new(slots));
        let mark = mark_of(id.seed(), slot, slots);
        slots[..WORD_BYTES].copy_from_slice(&mark.to_le_bytes());
        let place = Place {
            page: id.page,
            slot,
        };
        self.fresh.groups.push((group.tag, place));
        if let Some(last) = self.fresh.pages.last_mut() {
            last.live += group.live;
        }
    }

    /// Stores the last page, if there is one, with a pointer to `next`.
    fn store_last(&mut self, next: Option<u32>) {
        if self.fresh.pages.is_empty() {
            return;
        }
        let stored = store_log_page(self.medium, self.id(), &self.slots, next);
        let before = core::mem::replace(&mut self.fresh.stored, Flushed::nothing());
        self.fresh.stored = before.and(stored);
        self.slots.clear();
    }

    /// Stores the last page, with a pointer to `next`. It has `open` slots for later operations.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; the pages are free again.
    fn end(mut self, next: Option<u32>, open: u32) -> Result<Fresh, Error> {
        self.store_last(next);
        if let Some(error) = self.error {
            self.fresh.give_back(self.medium);
            return Err(error);
        }
        let last = self.fresh.pages.len().saturating_sub(1);
        for (nth, FreshPage { page, live }) in self.fresh.pages.iter().enumerate() {
            let id = PageId {
                log: self.log,
                birth: self.birth.wrapping_add(nth as u64),
                page: *page,
            };
            let open = if nth == last { open } else { 0 };
            let pages = &self.medium.space.log_pages;
            pages.start(*page, id.seed(), State::recovered(open, 0, false));
            pages.add_live(*page, *live);
        }
        Ok(self.fresh)
    }
}

impl Fresh {
    /// Lets the log begin with `first`, which is the first of these pages if there are any.
    fn publish<P: Pmem>(self, medium: &Medium<P>, id: LogId, first: u32) -> Linked {
        let durable = if injected_bug!(
            "head-before-chain",
            "a compaction moves the head before the new chain is durable",
            killed_by = "file-core-full/patch-patch, file-core-full/second-append"
        ) {
            drop(self.stored);
            Durable::at_rest()
        } else {
            medium.pmem.fence(self.stored)
        };
        medium.publish(
            medium.head_at(id.inode),
            seal(id.head_seed(), first),
            durable,
        );
        medium.space.count_log_pages(self.pages.len() as u64);
        medium.space.count_compaction();
        Linked {
            pages: self.pages.iter().map(|it| it.page).collect(),
            groups: self.groups,
        }
    }

    /// Makes the pages free again.
    fn give_back<P: Pmem>(self, medium: &Medium<P>) {
        // M2: no store to the pages may persist once another operation has them.
        medium.pmem.fence(self.stored);
        for FreshPage { page, .. } in self.pages {
            medium.space.log_pages.forget(page);
            medium.space.alloc.release(Extent {
                start: page,
                len: 1,
            });
        }
    }
}
