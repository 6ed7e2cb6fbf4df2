//! Cleaning: removes the pages of a log in which nothing is needed any more.
//!
//! # The problem
//! Every overwrite leaves a dead group behind, so without cleaning a log would grow for ever. NOVA
//! cleans a log in two ways: it unlinks pages without a live entry ("fast" cleaning), or it copies
//! the live entries into a new log and swings the head ("thorough" cleaning; Xu & Swanson, FAST
//! '16, §III-D). Both stop the inode's writers. Here, the first is *unlinking* and the second is a
//! *compaction*.
//!
//! # Properties
//! - **Unlinking**: every page but the last is unlinked if none of its groups is needed
//!   ([`is_dead`](crate::medium::log_page::PageState::is_dead)). It costs one load for each page,
//!   and one fence.
//! - **Compaction**: what is live in the oldest pages is written to fresh ones, which take the
//!   place of these pages in the chain. It costs time in proportion to the live groups, and a walk
//!   over the index. At most one live slot is copied for three slots appended.
//! - **When**: a log is cleaned when an append needs a page and the log has grown by an eighth
//!   since the last cleaning, or when a removal has left many dead names. After
//!   unlinking, a compaction follows if the log then still has more pages than max(8, 4 × the pages
//!   that its live groups need, 1 for each 256 pages of the file). The last bound limits the cost
//!   of the walk.
//! - **Concurrency**: readers and writers of the file go on, because a cleaning leaves alone the
//!   pages that operations in flight use. The thread whose append needs the page does the work.
//! - **On a full volume**, what is live in *all* pages of a log can be written to fresh ones, so
//!   that the log has room again without more pages ([`if_it_helps`]). The cleaning waits for the
//!   operations in flight, and new ones wait for the cleaning.
//! - **On request** ([`on_request`]), a log gets as few pages as its live groups need, and none if
//!   there are none. The last pages are replaced as on a full volume, but only if the file or
//!   directory is small: other threads wait for a walk over at most 4,096 pages or names.
//! - **Space**: while live groups are copied, they exist twice. A cleaning may use the whole
//!   reserve and frees more than it takes.
//!
//! # The order of groups
//! Recovery applies groups in the order of the chain. Fresh pages take the place of the *oldest*
//! pages, so every group that replaces a copied one still comes after it. Groups that only take
//! something away are not copied, because nothing older is left that they could apply to. Unlinking
//! keeps their pages.
//!
//! # The switch
//! 1. The fresh pages are stored whole, with their marks and linked to each other and to the first
//!    page that stays. They are private: nothing points to them, so their marks are not published
//!    one by one.
//! 2. *Fence.* Only now may anything point to the fresh pages.
//! 3. The pointer before the old pages is published, flushed, and *fenced*. Before this 8-byte
//!    store persists, recovery reads the old pages; afterwards it reads the fresh ones. Both have
//!    the same content. Unlinking consists of this step.
//! 4. The index learns where the groups are now. A writer may replace one of them at the same
//!    moment; it then takes away the reference to whichever page the index names.
//! 5. The old pages become free (F-M7), each as soon as no reference to it is left (F-P2).
//!
//! # The last page
//! A log whose live groups are all gone needs no page. Its head then becomes zero, which is durable
//! before the pages become free. The last page is where operations reserve slots, so the thread
//! that cleans closes it first. Operations that have slots there end; new ones find the page
//! closed and wait, and then find a log without pages, to which they add one.

mod copy;

use std::collections::BTreeSet;

use spanlock_pmem::{Durable, Flushed, Pmem};
use spanlock_sync::{MutexGuard, injected_bug};

use crate::log::chain::{Cleaning, LogState, pointer_after};
use crate::log::clean::copy::{CopyWriter, Count};
use crate::log::live::{Live, bound};
use crate::log::tail::Log;
use crate::medium::bytes::Medium;
use crate::medium::error::Error;
use crate::medium::layout::{LogId, PAGE_SLOTS, seal};
use crate::medium::reports::CleanReport;
use crate::medium::space::Space;

/// On a full volume, a cleaning must free at least this many slots. Otherwise every append would
/// clean.
const LEAST_GAIN: u32 = 8;

/// A cleaning on request lets operations wait for a walk over about so many live pages or names.
/// Each has a reference to a log page.
const SHORT_WALK: u64 = 4096;

/// The turn of the thread that cleans a log: no other one does. A panic poisons the log (F-L5).
struct Turn<'l>(&'l Log);

impl<'l> Turn<'l> {
    /// Begins a cleaning. No other thread cleans the log.
    fn begin(log: &'l Log, mut state: MutexGuard<'l, LogState>, cleaning: Cleaning) -> Self {
        state.cleaning = cleaning;
        Turn(log)
    }

    fn end(self) -> MutexGuard<'l, LogState> {
        let log = self.0;
        core::mem::forget(self);
        let mut state = log.lock();
        state.cleaning = Cleaning::None;
        log.notify();
        state
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // The threads that wait for the end must find the log poisoned.
        self.0.poison();
        self.0.lock().cleaning = Cleaning::None;
        self.0.notify();
    }
}

/// Cleans the log. Other threads may append meanwhile, but none may be cleaning it. The next
/// cleaning is not due until the log has grown.
pub(crate) fn if_due<'l, P: Pmem>(
    log: &'l Log,
    state: MutexGuard<'l, LogState>,
    medium: &Medium<P>,
    live: &dyn Live,
) -> MutexGuard<'l, LogState> {
    let (id, pages) = (state.id, state.pages.clone());
    let lanes = log.close_old_lanes(&medium.space, false) as u64;
    let turn = Turn::begin(log, state, Cleaning::Beside);

    let pages = unlink_dead(log, id, &pages, medium);
    let mut bound = bound(&medium.space, 0) + lanes;
    if pages.len() as u64 > bound {
        let old = oldest_settled(&pages, medium);
        let others = (pages.len() - old.len()) as u64;
        bound = Count::of(live, &|page| old.contains(&page)).bound(&medium.space) + others;
        if pages.len() as u64 > bound {
            // This may fail for lack of pages; a later call tries again.
            let _ = copy_live(log, id, &pages, old.len(), medium, live);
        }
    }

    let mut state = turn.end();
    let len = state.pages.len();
    state.clean_after(bound, len);
    state
}

/// Gives the log as few pages as its live groups need, and none if there are none. Others may
/// append meanwhile, unless only few pages of the file or names are live. Lack of pages for the
/// copies is no error.
///
/// # Errors
/// [`Error::Poisoned`].
pub(crate) fn on_request<P: Pmem>(
    log: &Log,
    medium: &Medium<P>,
    live: &dyn Live,
) -> Result<CleanReport, Error> {
    let mut report = CleanReport::default();
    let mut state = log.wait_for_turn(log.lock());
    log.check_poison(&state)?;
    if state.pages.len() > 1 {
        state = beside(log, state, medium, live, &mut report);
    }
    let len = state.pages.len();
    let may_pay = is_short(&state.pages, &medium.space);
    drop(state);

    if !may_pay {
        return Ok(report);
    }
    let count = Count::of(live, &is_any);
    if count.pays(len) && Count::fits(count.slots, &medium.space) {
        let state = log.wait_for_turn(log.lock());
        log.check_poison(&state)?;
        // The log may have grown meanwhile.
        if is_short(&state.pages, &medium.space) {
            drop(replace_all(log, state, medium, 0, live, &mut report));
        }
    }
    Ok(report)
}

/// Returns whether replacing all of these pages may pay, and is short enough to let others wait.
fn is_short(pages: &[u32], space: &Space) -> bool {
    let references = |page: &u32| u64::from(space.log_pages.state(*page).live());
    let references: u64 = pages.iter().map(references).sum();
    match pages.len() {
        0 => false,
        // With more references than those of the size and the time, the page is needed.
        1 => references <= 2,
        _ => references <= SHORT_WALK,
    }
}

/// Performs the part of [`on_request`] that lets others append. No other thread cleans the log.
fn beside<'l, P: Pmem>(
    log: &'l Log,
    state: MutexGuard<'l, LogState>,
    medium: &Medium<P>,
    live: &dyn Live,
    report: &mut CleanReport,
) -> MutexGuard<'l, LogState> {
    let (id, pages) = (state.id, state.pages.clone());
    log.close_old_lanes(&medium.space, true);
    let turn = Turn::begin(log, state, Cleaning::Beside);
    let kept = unlink_dead(log, id, &pages, medium);
    report.count_unlinked(pages.len() - kept.len());
    let old = oldest_settled(&kept, medium);
    if !old.is_empty()
        && Count::of(live, &|page| old.contains(&page)).pays(old.len())
        && let Ok(fresh) = copy_live(log, id, &kept, old.len(), medium, live)
    {
        report.count_copied(old.len(), fresh);
    }
    let mut state = turn.end();
    let len = state.pages.len();
    state.clean_after(0, len);
    state
}

/// Returns the oldest pages whose groups can be copied.
fn oldest_settled<P>(pages: &[u32], medium: &Medium<P>) -> BTreeSet<u32> {
    let state = |page: &u32| medium.space.log_pages.state(*page);
    let closed = pages.split_last().map_or(&[][..], |(_, closed)| closed);
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
    // An operation in one of the pages may have panicked (F-L5).
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

/// Copies what is live in the first `count` pages to fresh ones, which take their place. Returns
/// how many these are.
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
) -> Result<usize, Error> {
    let (old, stay) = pages.split_at(count);
    let gone: BTreeSet<u32> = old.iter().copied().collect();
    let is_old = |page| gone.contains(&page);
    let births = log.lock().take_births(old.len() as u64);
    let mut copy = CopyWriter::new(medium, id, births, old.len());
    live.each(&is_old, &mut |group| copy.group(&group));
    let fresh = copy.end(Some(stay[0]), 0)?;
    // An operation in one of the old pages may have panicked (F-L5).
    if log.is_poisoned() {
        fresh.give_back(medium);
        return Err(Error::Poisoned { inode: id.inode });
    }
    let first = fresh.pages.first().map_or(stay[0], |it| it.page);
    let fresh = fresh.publish(medium, id, Some(first));
    let added = fresh.pages.len();
    log.lock().pages.splice(..count, fresh.pages);
    let gone = live.moved(&is_old, &fresh.groups);
    let are_kept = injected_bug!(
        "copied-references-kept",
        "a cleaning keeps the references to pages whose groups it has copied",
        killed_by = "file-core-sparse/sequences-of-1"
    );
    if !are_kept {
        medium.space.take_each(gone);
    }
    for &page in old {
        medium.space.unlink_log_page(page);
    }
    Ok(added)
}

/// Says that all pages of a log are old. A source that is page 0 does not exist.
fn is_any(page: u32) -> bool {
    page != 0
}

/// Writes what is live to fresh pages if that makes room for `slots` more slots without adding
/// pages. New operations wait for this, and it waits for those in flight.
pub(crate) fn if_it_helps<'l, P: Pmem>(
    log: &'l Log,
    state: MutexGuard<'l, LogState>,
    medium: &Medium<P>,
    slots: u32,
    live: &dyn Live,
) -> MutexGuard<'l, LogState> {
    let state = log.wait_for_turn(state);
    // Another thread may have made room while this one waited.
    if log.is_poisoned() || log.has_room(slots) {
        return state;
    }
    let room = state.pages.len() as u64 * u64::from(PAGE_SLOTS);
    let wanted = u64::from(slots.max(LEAST_GAIN));
    let count = Count::of(live, &is_any);
    let with_room = count.slots + u64::from(slots.min(PAGE_SLOTS));
    if count.slots + wanted > room || !Count::fits(with_room, &medium.space) {
        return state;
    }
    let mut report = CleanReport::default();
    replace_all(log, state, medium, slots.min(PAGE_SLOTS), live, &mut report)
}

/// Writes what is live to fresh pages, which take the place of all pages, with room for `room` more
/// slots in the last. Without live groups and without room, the log has no page afterwards. New
/// operations wait for this, and it waits for those in flight. No other thread cleans the log. Does
/// nothing if there are not enough pages for the copies.
fn replace_all<'l, P: Pmem>(
    log: &'l Log,
    mut state: MutexGuard<'l, LogState>,
    medium: &Medium<P>,
    room: u32,
    live: &dyn Live,
    report: &mut CleanReport,
) -> MutexGuard<'l, LogState> {
    let space = &*medium.space;
    state.cleaning = Cleaning::Alone;
    // The turn is declared before the guard, which a panic must drop first.
    let (turn, mut state) = (Turn(log), state);
    if !injected_bug!(
        "last-page-freed-with-reserver",
        "the last page of a log becomes free while operations may still have slots there",
        killed_by = "file-core-memory/replace-write"
    ) {
        state = wait_for_operations(log, state, space);
    }
    let (id, old) = (state.id, state.pages.clone());
    let births = state.take_births(old.len() as u64);
    drop(state);
    if log.is_poisoned() {
        return turn.end();
    }
    let gone: BTreeSet<u32> = old.iter().copied().collect();
    let is_old = |page| gone.contains(&page);
    let mut copy = CopyWriter::new(medium, id, births, old.len());
    live.each(&is_old, &mut |group| copy.group(&group));
    if room > 0 {
        copy.make_room(room);
    }
    let used = copy.used();
    // Otherwise, there are not enough pages for the copies.
    if let Ok(fresh) = copy.end(None, PAGE_SLOTS - used) {
        let first = fresh.pages.first().map(|it| it.page);
        let fresh = fresh.publish(medium, id, first);
        space.take_each(live.moved(&is_old, &fresh.groups));
        match fresh.pages.len() {
            0 => {
                space.count_unlinked(old.len() as u64);
                report.count_unlinked(old.len());
            }
            added => report.count_copied(old.len(), added),
        }
        let mut state = log.lock();
        state.clean_after(bound(space, 0), fresh.pages.len());
        log.adopt(&mut state, space, fresh.pages, used);
        drop(state);
        for &page in &old {
            space.unlink_log_page(page);
        }
    }
    turn.end()
}

/// Waits until no operation has slots in the log. The caller's cleaning keeps new ones away.
fn wait_for_operations<'l>(
    log: &'l Log,
    mut state: MutexGuard<'l, LogState>,
    space: &Space,
) -> MutexGuard<'l, LogState> {
    log.close(space);
    while !(state.pages.iter()).all(|page| space.log_pages.wait_for(*page)) {
        state = log.wait(state);
    }
    state
}
