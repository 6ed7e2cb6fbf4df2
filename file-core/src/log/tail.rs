//! The end of a log: slots are reserved by one atomic addition, filled in parallel, and committed
//! by one mark per group. `append.rs` decides when a log gets pages or is cleaned first.
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
//! - **Order**: slots are in the order of their reservations. A thread that reserves while it holds
//!   a range reserves after all earlier conflicting holders.
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
//! - **F-L1** `tail` is the last page of the chain and the first slot there that is not reserved.
//!   Slots from there on have a zero first word on the medium. A slot past the page's end means
//!   that no slot is left.
//! - **F-L2** The link to every page of the chain is durable before the tail enters it. So a mark
//!   on a page cannot be durable before the page is reachable.
//! - **F-L3** Each slot of a page is open until it is skipped or its operation ends. A slot is
//!   skipped by the thread that moves the tail past it.
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
//!
//! # Orderings
//!
//! | letter | where | pairs with | carries | needed by the model |
//! |---|---|---|---|---|
//! | T | `Log::enter`: the exchange, Release | U | the linked page's state | `roots` |
//! | U | `Log::try_take`: the addition, Acquire | T | | `roots` |
//!
//! Poison is a bit of the tail, so every addition that comes later in the tail's modification order
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

use spanlock_pmem::{Durable, Flushed, Pmem};
use spanlock_sync::atomic::{AtomicU64, Ordering};
use spanlock_sync::{Condvar, Mutex, MutexGuard, injected_bug};

use crate::log::chain::{Cleaning, LogState, Slots, pointer_after, store_log_page};
use crate::medium::alloc::Class;
use crate::medium::bytes::Medium;
use crate::medium::error::Error;
use crate::medium::layout::{LogId, PAGE_SLOTS, PageId, SLOT_BYTES, page_at, seal};
use crate::medium::log_page::{PageState, PageUse};
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

/// The end of a log, as one word: the last page and the next slot there.
#[derive(Clone, Copy)]
struct Tail(u64);

impl Tail {
    const POISON: u64 = 1 << 31;

    fn new(page: u32, slot: u32) -> Tail {
        Tail(u64::from(page) << 32 | u64::from(slot))
    }

    fn page(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn slot(self) -> u32 {
        self.0 as u32 & !(Tail::POISON as u32)
    }

    fn is_poisoned(self) -> bool {
        self.0 & Tail::POISON != 0
    }

    fn has_room(self, slots: u32) -> bool {
        !self.is_poisoned() && self.slot() + slots <= PAGE_SLOTS
    }

    /// Returns the number of slots in the page that are not reserved.
    fn left(self) -> u32 {
        PAGE_SLOTS.saturating_sub(self.slot())
    }
}

/// The log of one inode.
///
/// It has cache lines of its own, because every append writes to it while its neighbours in memory
/// are only read. It takes two lines because processors fetch lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Log {
    /// See [`Tail`].
    tail: AtomicU64,
    state: Mutex<LogState>,
    /// Notified when the slots that a thread waits for have ended, and when a cleaning ends.
    progress: Condvar,
}

impl Log {
    /// Creates an empty log.
    pub(crate) fn empty(id: LogId) -> Self {
        Log::new(LogState::new(id, Vec::new(), 0), PAGE_SLOTS)
    }

    /// Creates a log whose next slot is `next` of its last page. The states of its pages are set.
    pub(crate) fn new(state: LogState, next: u32) -> Self {
        let last = state.pages.last().copied().unwrap_or(0);
        Log {
            tail: AtomicU64::new(Tail::new(last, next).0),
            state: Mutex::new(state),
            progress: Condvar::new(),
        }
    }

    /// Takes slots of the last page, if it has room.
    #[inline]
    pub(super) fn try_take(&self, space: &Space, count: u32) -> Option<Slots> {
        // Without this check, a long group would close a page in which shorter ones have room, and
        // repeated failed additions would overflow the slot into the poison bit and the page
        // number. With it, a thread fails at most once on each page: its own addition shows it that
        // the room is gone.
        // Relaxed: a stale value makes the addition fail, or sends the thread to the mutex, under
        // which it looks again.
        if !Tail(self.tail.load(Ordering::Relaxed)).has_room(count) {
            return None;
        }
        // Acquire [U←T]: the page's state, and that it is linked.
        let tail = Tail(self.tail.fetch_add(u64::from(count), Ordering::Acquire));
        if tail.has_room(count) {
            return Some(Slots {
                page: tail.page(),
                slot: tail.slot(),
                count,
                further: Vec::new(),
            });
        }
        // Another thread took the room or poisoned the log.
        self.skip_added(space, tail, count);
        None
    }

    /// Skips the slots that an addition of `count` to the tail `before` has moved past (F-L3).
    fn skip_added(&self, space: &Space, before: Tail, count: u32) {
        let passed = before.left().min(count);
        space.log_pages.skip(before.page(), passed);
    }

    /// Adds as many pages to the chain as `slots` slots need, and takes the slots there.
    pub(super) fn extend<P: Pmem>(
        &self,
        state: &mut LogState,
        medium: &Medium<P>,
        slots: u32,
        class: Class,
    ) -> Result<Slots, Error> {
        let (space, id) = (&*medium.space, state.id);
        let count = slots.div_ceil(PAGE_SLOTS);
        let new = space.alloc.take(id.inode as u64, count, class)?;
        let new: Vec<u32> = new.pages().collect();
        let birth = state.take_births(u64::from(count));
        let guard = self.poison_on_unwind();
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
            space.log_pages.start(page, id.seed(), fresh);
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
        let last = new[new.len() - 1];
        self.enter(space, last, slots - (count - 1) * PAGE_SLOTS);
        Ok(Slots {
            page: new[0],
            slot: 0,
            count: slots,
            further: new[1..].to_vec(),
        })
    }

    /// Moves the tail to slot `slot` of `page`, which is linked. The caller holds the mutex.
    fn enter(&self, space: &Space, page: u32, slot: u32) {
        // Relaxed: the exchange checks it.
        let mut before = Tail(self.tail.load(Ordering::Relaxed));
        loop {
            let new = Tail::new(page, slot).0 | before.0 & Tail::POISON;
            // Release [T→U]: the page's state, and that it is linked. Relaxed on failure: tried
            // again.
            match (self.tail).compare_exchange(before.0, new, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => break,
                Err(now) => before = Tail(now),
            }
        }
        // F-L3. An empty log has no page before.
        space.log_pages.skip(before.page(), before.left());
    }

    /// Closes the last page, so that its slots settle. The caller holds the mutex.
    pub(crate) fn close(&self, space: &Space) {
        // Relaxed: only the skipped slots change.
        let tail = Tail(self.tail.load(Ordering::Relaxed));
        if tail.left() > 0 {
            self.enter(space, tail.page(), PAGE_SLOTS);
        }
    }

    /// Replaces all pages by `pages`, which are linked and whose states are set. The next slot is
    /// `next` of the last of them, if there is one. The old last page is closed. The caller holds
    /// the mutex.
    pub(crate) fn adopt(&self, state: &mut LogState, space: &Space, pages: Vec<u32>, next: u32) {
        state.pages = pages;
        match state.pages.last() {
            Some(last) => self.enter(space, *last, next),
            None => self.enter(space, 0, PAGE_SLOTS),
        }
    }

    /// Returns whether slots can be reserved in the last page.
    pub(crate) fn has_room(&self, slots: u32) -> bool {
        // Relaxed: only a check; the reservation loads it again.
        Tail(self.tail.load(Ordering::Relaxed)).has_room(slots)
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
        // Relaxed: see the module's orderings.
        Tail(self.tail.load(Ordering::Relaxed)).is_poisoned()
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
        // Relaxed: see the module's orderings.
        self.tail.fetch_or(Tail::POISON, Ordering::Relaxed);
    }

    /// Takes the pages of the chain. The caller must have exclusive use of the log.
    pub(crate) fn take_pages(&self) -> Vec<u32> {
        core::mem::take(&mut self.state.lock().pages)
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
