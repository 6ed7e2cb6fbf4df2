//! The tail of a log: slots are reserved by one atomic addition, filled in parallel, and committed
//! by one mark per group. `append.rs` decides when a log gets pages or is cleaned first. If several
//! threads write, `lanes.rs` decides in which of several pages an operation reserves.
//!
//! # The problem
//! NOVA appends to an inode's log under the inode's lock and commits by moving the log's tail
//! pointer (Xu & Swanson, FAST '16). With a range lock, several writers append to one log at once.
//! If the second writer moved the tail past the first writer's unfinished entry, it would commit
//! both. [SRL] §IV-D therefore gives every entry a mark of its own. It leaves four questions open:
//! entries of several slots, stale marks in a reused page, damaged entries, and garbage collection.
//! This module answers the first three, and [`crate::log::clean`] the last.
//!
//! # Properties
//! - **Cost** of an append of one slot: one atomic addition to reserve it and one to end it, one
//!   line written, and *two fences* for data and log together
//!   ([`Reservation::commit`](crate::log::reservation::Reservation::commit)). Every 63 slots,
//!   adding a page costs one page write and two more fences.
//! - **Progress**: an append takes no lock while the last page has room for it. Otherwise it takes
//!   the log's mutex, which is held across the fences of adding a page. Appends go on while the
//!   log is cleaned, except while all of its pages are replaced: see [`crate::log::clean`].
//! - **Order**: the slots of a page are in the order of their reservations. A thread that reserves
//!   while it holds a range reserves after all earlier conflicting holders. Its slots come after
//!   theirs in the chain, also if the log has [lanes](crate::log::lanes).
//! - A group of up to 63 slots lies in one page. A longer one begins a page.
//!
//! ```text
//!   inode ──head──► page ──next──► page ──next──► page       one log: (inode, generation)
//!                   │ 63 slots │   │ 63 slots │   │ 63 slots │    each page has its birth number
//!                     ██░███████     █████░░███     ██·······
//!                        ▲                ▲           ▲
//!                 lost in a crash     in flight      tail
//! ```
//!
//! # Invariants
//! F-M1…F-M7 of [`crate::medium::bytes`], F-P1 and F-P2 of [`crate::medium::log_page`], and:
//! - **F-L1** An end with room names a page of the chain, and the first slot there that is not
//!   reserved. Slots from there on have a zero first word on the medium. A slot past the page's end
//!   means that no slot is left. Until a log has lanes, its one end is in the last page.
//! - **F-L2** The link to every page of the chain is durable before an end enters it. So a mark
//!   on a page cannot be durable before the page is reachable.
//! - **F-L3** Each slot of a page is open until it is skipped or its operation ends. A slot is
//!   skipped by the thread that moves the end past it.
//! - **F-L4** A reservation ends only after its owner has updated index and size. So for a page
//!   that is settled, the index agrees with the committed groups there.
//! - **F-L5** The region may panic if its medium fails. Memory and medium may then disagree about
//!   this log, so the log is *poisoned* and accepts no more appends. A panic poisons the log if it
//!   ends a thread that adds pages, or one that cleans the log, or if it drops a reservation that
//!   its owner has not [ended](crate::log::reservation::Reservation::end). A failure of the
//!   [journal](crate::medium::journal) does the same. (A panic while a mark is erased poisons the
//!   removed file's log instead: see `directory.rs`.)
//! - **F-L6** The next pointer of the last page is changed under the mutex. The head and all other
//!   next pointers are changed by the thread that cleans the log. At most one thread cleans it.
//! - **F-L7** Of two pages of a log, the one with the higher [rank](crate::medium::log_page::Rank)
//!   comes later in the chain. A page that a lane gets has a higher rank than all before it. Other
//!   pages have the lowest rank and come before those of lanes: pages from before the lanes, and
//!   those to which a cleaning copies the oldest groups. If the ranks are used up, all further
//!   pages have the highest one, and belong to one lane.
//! - **F-L8** The rank of a group's page is at least the barrier, and at least the rank of each
//!   page with a group that it replaces. It is read while the slots keep the page in the log.
//! - **F-L9** The index does not lead to a group that takes something away or sets the time. Later
//!   groups must not precede it. So its page has at least the rank of the newest page, and the
//!   barrier is raised to that rank before the group's range is released.
//! - **F-L10** The log names a page as its newest before any operation reserves slots there.
//!
//! From these it follows that of two groups with conflicting holds, the later one comes later in
//! the log:
//! - A write that replaces a mapping: the index leads from the mapping to its group's page, or to a
//!   page in front of all lanes to which a cleaning has copied the group. F-L8 puts the write
//!   behind.
//! - A write after a group of F-L9: the lock orders it after the barrier was raised.
//! - A group of F-L9 after any other: its thread finds the page of the earlier one as the newest,
//!   or a later page (F-L10).
//!
//! # Orderings
//!
//! | letter | where | pairs with | carries | needed by the model |
//! |---|---|---|---|---|
//! | T | `End::enter`: the exchange, Release | U | the linked page's state and rank | `roots` |
//! | U | `End::take`: the addition, Acquire; `End::poison` | T | | `roots`; `poisoning` |
//! | V | `Log::open_lanes`: the store, Release | W | the new lanes | `opening` |
//! | W | `Log::lanes`: the load, Acquire | V | | `opening` |
//!
//! The words of `lanes.rs` that order groups are Relaxed, because the lock of the file orders the
//! operations for which they matter.
//!
//! Poison is a bit of each end, so every addition that comes later in the end's modification order
//! sees it. An operation that poisons the log still holds its range or the directory's mutex, so
//! every conflicting operation comes later. The other threads that poison a log need no such order:
//! what a cleaning was changing has the same content before and after; and a removal that has
//! panicked is durable or not, whatever else happens to the file.
//!
//! # Not guaranteed
//! A group without a mark is lost in a crash, even if all of its slots were written.
//!
//! [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905

#[cfg(test)]
mod tests;

use core::ptr;

use spanlock_pmem::{Durable, Flushed, Pmem};
use spanlock_sync::atomic::{AtomicPtr, Ordering};
use spanlock_sync::{Condvar, Mutex, MutexGuard, epoch, injected_bug, thread};

use crate::log::chain::{Cleaning, LogState, Slots, pointer_after, store_log_page};
use crate::log::end::End;
use crate::log::lanes::{Apart, Lanes, Order};
use crate::medium::alloc::Class;
use crate::medium::bytes::Medium;
use crate::medium::error::Error;
use crate::medium::layout::{LogId, PAGE_SLOTS, PageId, SLOT_BYTES, page_at, seal};
use crate::medium::log_page::{PageState, PageUse, Rank};
use crate::medium::space::Space;

/// A position in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotAddress {
    pub(crate) page: u32,
    pub(crate) slot: u32,
}

impl SlotAddress {
    /// Returns the byte offset of the slot in the region.
    pub(crate) fn at(self) -> u64 {
        page_at(self.page) + self.slot as u64 * SLOT_BYTES as u64
    }
}

/// The log of one inode.
///
/// It has cache lines of its own, because appends write to it while its neighbours in memory are
/// only read.
#[derive(Debug)]
pub(crate) struct Log {
    /// Apart, because every append reads it, and changes it only until the log has lanes.
    ends: Apart<Ends>,
    state: Mutex<LogState>,
    /// Notified when the slots that a thread waits for have ended, and when a cleaning ends.
    progress: Condvar,
}

/// Where operations reserve slots.
#[derive(Debug)]
struct Ends {
    /// The one end until the log has lanes. Always tells whether the log is poisoned.
    one: End,
    /// Null until threads contend for `one`. From then on, `one` has no room.
    lanes: AtomicPtr<Lanes>,
}

/// A log gets lanes once this many pages in a row were [crowded](Log::is_crowded) when they became
/// full.
const CONTENDED: u32 = 2;

impl Log {
    /// Creates an empty log.
    pub(crate) fn empty(id: LogId) -> Self {
        Log::new(LogState::new(id, Vec::new(), 0), PAGE_SLOTS)
    }

    /// Creates a log whose next slot is `next` of its last page. The states of its pages are set.
    pub(crate) fn new(state: LogState, next: u32) -> Self {
        let last = state.pages.last().copied().unwrap_or(0);
        Log {
            ends: Apart(Ends {
                one: End::new(last, next),
                lanes: AtomicPtr::new(ptr::null_mut()),
            }),
            state: Mutex::new(state),
            progress: Condvar::new(),
        }
    }

    #[inline]
    fn one(&self) -> &End {
        &self.ends.0.one
    }

    #[inline]
    fn lanes(&self) -> Option<&Lanes> {
        // Acquire [W←V]: the new lanes.
        let lanes = self.ends.0.lanes.load(Ordering::Acquire);
        // SAFETY: `open_lanes` has stored a valid pointer if it is not null. Only `drop` frees the
        // lanes, when nobody has the log.
        unsafe { lanes.as_ref() }
    }

    /// Returns whether threads append to pages of their own.
    #[inline]
    pub(crate) fn has_lanes(&self) -> bool {
        self.lanes().is_some()
    }

    /// Gives the log lanes, which have no page yet. It has none. The caller holds the mutex, and
    /// adds a page.
    fn open_lanes(&self, space: &Space) -> &Lanes {
        let lanes = Box::into_raw(epoch::owned(Box::new(Lanes::new())));
        // Release [V→W]: the new lanes.
        self.ends.0.lanes.store(lanes, Ordering::Release);
        // SAFETY: as in `lanes`.
        let lanes = unsafe { &*lanes };
        let before = self.one().tail();
        // F-L5: a thread that poisons the log changes the end before this does, or else it finds
        // the lanes (T, U).
        let before = self.one().enter(space, before.page(), PAGE_SLOTS);
        if before.is_poisoned() {
            lanes.poison();
        }
        lanes
    }

    /// Gives the lanes of these threads a page each, in this order, as if there were contention.
    /// For models and tests.
    pub(crate) fn give_lanes<P: Pmem>(
        &self,
        medium: &Medium<P>,
        threads: &[usize],
    ) -> Result<(), Error> {
        let mut state = self.wait_for_turn(self.lock());
        state.crowded = CONTENDED;
        for &thread in threads {
            let slots = self.extend(&mut state, medium, 1, Class::Growth, thread)?;
            medium.space.log_pages.skip(slots.page, slots.count);
        }
        Ok(())
    }

    /// Takes slots of a page that comes late enough, if it has room.
    #[inline]
    pub(super) fn try_take(&self, space: &Space, count: u32, order: Order) -> Option<Slots> {
        if let Some(lanes) = self.lanes() {
            return lanes.try_take(space, count, order);
        }
        // There is one page with room, so all groups are in order.
        self.one()
            .take(space, self.one().tail(), count, Rank::LOWEST)
    }

    /// Returns whether other threads' operations are under way in the page of the end, which has no
    /// room. A thread that writes alone never finds it so. The answer may be outdated.
    pub(super) fn is_crowded(&self, space: &Space) -> bool {
        let tail = self.one().tail();
        tail.page() != 0 && space.log_pages.state(tail.page()).open() > tail.left()
    }

    /// Keeps later writes from coming before the group in `page` (F-L9). The caller has slots
    /// there, and holds the range that the group changes.
    pub(crate) fn raise_barrier(&self, space: &Space, page: u32) {
        if let Some(lanes) = self.lanes() {
            lanes.raise_barrier(space, page);
        }
    }

    /// Adds as many pages to the chain as `slots` slots need, and takes the slots there. If the log
    /// has lanes, the pages go to that of the thread with number `thread`.
    pub(super) fn extend<P: Pmem>(
        &self,
        state: &mut LogState,
        medium: &Medium<P>,
        slots: u32,
        class: Class,
        thread: usize,
    ) -> Result<Slots, Error> {
        let (space, id) = (&*medium.space, state.id);
        let count = slots.div_ceil(PAGE_SLOTS);
        // A lane then gets the pages again that it had, and their lines are where its thread runs.
        let lane = if self.has_lanes() { thread as u64 } else { 0 };
        let new = (space.alloc).take(u64::from(id.inode) + lane, count, class)?;
        let new: Vec<u32> = new.pages().collect();
        let birth = state.take_births(u64::from(count));
        let guard = self.poison_on_unwind();
        let is_contended = state.crowded >= CONTENDED;
        let lanes = (self.lanes()).or_else(|| is_contended.then(|| self.open_lanes(space)));
        let rank = |nth| lanes.map_or(Rank::LOWEST, |lanes| lanes.next_rank(nth));
        let mut stored = Flushed::nothing();
        for (nth, &page) in new.iter().enumerate() {
            let id = PageId {
                log: id,
                birth: birth.wrapping_add(nth as u64),
                page,
            };
            let next = new.get(nth + 1).copied();
            stored = stored.and(store_log_page(medium, id, &[], next));
            let is_continued = next.is_some();
            let fresh = PageState::recovered(PAGE_SLOTS, 0, is_continued);
            space.log_pages.start(page, id.seed(), rank(nth), fresh);
        }
        let durable = if injected_bug!(
            "link-before-page",
            "a log page is linked before it is durable",
            killed_by = "file-core-page-end/patch-patch, file-core-page-end/create-create"
        ) {
            drop(stored);
            Durable::at_rest()
        } else {
            medium.pmem.fence(stored)
        };
        // The link is stored after the pages' fence and is durable before any thread can reserve on
        // them (F-L2).
        let (at, seed) = pointer_after(medium, id, state.pages.last().copied());
        medium.publish(at, seal(seed, new[0]), durable);
        guard.defuse();
        space.count_log_pages(new.len() as u64);
        state.pages.extend(&new);
        let last = new.len() - 1;
        let next = slots - last as u32 * PAGE_SLOTS;
        match lanes {
            Some(lanes) => lanes.enter(space, thread, rank(last), new[last], next),
            None => _ = self.one().enter(space, new[last], next),
        }
        Ok(Slots {
            page: new[0],
            slot: 0,
            count: slots,
            further: new[1..].to_vec(),
        })
    }

    /// Closes the pages with room, so that their slots settle. The caller holds the mutex.
    pub(crate) fn close(&self, space: &Space) {
        self.one().close(space);
        if let Some(lanes) = self.lanes() {
            lanes.close(space);
        }
    }

    /// Closes the lanes that would keep a cleaning from their pages: those that have not been used
    /// for long or, if `all`, all but the newest. Returns how many pages besides the last have room
    /// still. The caller holds the mutex.
    pub(crate) fn close_old_lanes(&self, space: &Space, all: bool) -> usize {
        (self.lanes()).map_or(0, |lanes| lanes.close_old(space, all))
    }

    /// Replaces all pages by `pages`, which are linked and whose states are set. The next slot is
    /// `next` of the last of them, if there is one. The pages before are closed. The caller holds
    /// the mutex.
    pub(crate) fn adopt(&self, state: &mut LogState, space: &Space, pages: Vec<u32>, next: u32) {
        state.pages = pages;
        match (state.pages.last(), self.lanes()) {
            (Some(&last), Some(lanes)) => {
                let rank = lanes.next_rank(0);
                space.log_pages.set_rank(last, rank);
                lanes.enter(space, thread::index(), rank, last, next);
            }
            (Some(&last), None) => _ = self.one().enter(space, last, next),
            (None, _) => _ = self.one().enter(space, 0, PAGE_SLOTS),
        }
    }

    /// Returns whether slots can be reserved in the last page.
    pub(crate) fn has_room(&self, slots: u32) -> bool {
        match self.lanes() {
            Some(lanes) => lanes.has_room(slots),
            None => self.one().tail().has_room(slots),
        }
    }

    /// Waits until no thread cleans the log.
    pub(crate) fn wait_for_turn<'l>(
        &'l self,
        mut state: MutexGuard<'l, LogState>,
    ) -> MutexGuard<'l, LogState> {
        while state.cleaning != Cleaning::None {
            state = self.wait(state);
        }
        state
    }

    /// Waits for slots that [`LogPages::wait_for`](crate::medium::log_page::LogPages::wait_for)
    /// asked for, or for a cleaning.
    pub(crate) fn wait<'l>(&'l self, state: MutexGuard<'l, LogState>) -> MutexGuard<'l, LogState> {
        self.progress.wait(state)
    }

    /// Ends an operation that has these slots. `change` says how the operation changes what
    /// its page is needed for.
    pub(super) fn end(&self, space: &Space, slots: &Slots, change: PageUse) {
        let pages = &space.log_pages;
        let first = slots.count.min(PAGE_SLOTS);
        let mut left = slots.count - first;
        let mut is_waited_for = false;
        // The group's own page comes last: until then, no cleaning takes the group for a dead one.
        for &page in &slots.further {
            let here = left.min(PAGE_SLOTS);
            left -= here;
            is_waited_for |= pages.end(page, here, PageUse::default());
        }
        is_waited_for |= pages.end(slots.page, first, change);
        if is_waited_for {
            // The cleaning holds the mutex from saying that it waits until it sleeps, so taking the
            // mutex rules out a lost wakeup.
            let _state = self.state.lock();
            self.progress.notify_all();
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, LogState> {
        self.state.lock()
    }

    pub(crate) fn notify(&self) {
        self.progress.notify_all();
    }

    /// Returns whether an operation panicked midway (F-L5).
    pub(crate) fn is_poisoned(&self) -> bool {
        self.one().tail().is_poisoned()
    }

    /// Checks that no operation panicked midway (F-L5).
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.check_poison(&self.state.lock())
    }

    pub(crate) fn check_poison(&self, state: &LogState) -> Result<(), Error> {
        match self.is_poisoned() {
            true => Err(Error::Poisoned {
                inode: state.id.inode,
            }),
            false => Ok(()),
        }
    }

    /// Erases the mark of the group at `place`. Recovery then treats the group as never committed.
    /// The erasure is durable on return; it takes one fence and no space. The caller owns the mark
    /// (F-M4).
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub(crate) fn erase_mark<P: Pmem>(
        &self,
        medium: &Medium<P>,
        place: SlotAddress,
    ) -> Result<(), Error> {
        self.check()?;
        // An erased mark makes nothing reachable, so nothing has to be durable before it.
        medium.publish(place.at(), 0, Durable::at_rest());
        Ok(())
    }

    /// Returns a guard that poisons the log if a panic drops it before it is
    /// [defused](PoisonOnUnwind::defuse) (F-L5).
    pub(crate) fn poison_on_unwind(&self) -> PoisonOnUnwind<'_> {
        PoisonOnUnwind(self)
    }

    pub(crate) fn poison(&self) {
        self.one().poison();
        if let Some(lanes) = self.lanes() {
            lanes.poison();
        }
    }

    /// Takes the pages of the chain. The caller must have exclusive use of the log.
    pub(crate) fn take_pages(&self) -> Vec<u32> {
        core::mem::take(&mut self.state.lock().pages)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // Relaxed: nobody else has the log.
        let lanes = self.ends.0.lanes.load(Ordering::Relaxed);
        if !lanes.is_null() {
            // SAFETY: `open_lanes` took the pointer from a box, and stored it once.
            epoch::free(unsafe { Box::from_raw(lanes) });
        }
    }
}

/// See [`Log::poison_on_unwind`].
#[must_use = "dropping it at once poisons the log"]
pub(crate) struct PoisonOnUnwind<'l>(&'l Log);

impl PoisonOnUnwind<'_> {
    /// Ends the guard without poisoning the log.
    pub(crate) fn defuse(self) {
        core::mem::forget(self);
    }
}

impl Drop for PoisonOnUnwind<'_> {
    fn drop(&mut self) {
        self.0.poison();
    }
}
