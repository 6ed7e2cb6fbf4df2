//! The log of an inode: slots are reserved under a short mutex, filled in parallel, and committed
//! by one mark per group.
//!
//! # The problem
//! NOVA appends to an inode's log under the inode's lock and commits by moving the log's tail
//! pointer (Xu & Swanson, FAST '16). With a range lock, several writers append to one log at once.
//! If the second writer moved the tail past the first writer's unfinished entry, it would commit
//! both. [SRL] §IV-D therefore gives every entry a mark of its own. It leaves four questions open,
//! which this module answers: entries of several slots, stale marks in a reused page, damaged
//! entries, and garbage collection.
//!
//! # Properties
//! - **Cost** of an append of one slot: one critical section of a few instructions, one line
//!   written, and *two fences* for data and log together ([`Reservation::commit`]). Every 63 slots,
//!   adding a page costs one page write and two more fences.
//! - **Progress**: an append blocks for the mutex. The mutex is held across fences only while a
//!   page is added or the log is compacted. A compaction waits for the appends in flight, and new
//!   appends wait for the compaction.
//! - **Order**: slots are in reservation order. A thread that reserves while it holds a range
//!   appends after all earlier conflicting holders.
//!
//! ```text
//!   inode ──head──► page ──next──► page ──next──► page       one chain: (inode, generation, epoch)
//!                   │ 63 slots │   │ 63 slots │   │ 63 slots │    numbered throughout: 0, 1 …
//!                     ██░███████     █████░░███     ██·······
//!                        ▲                ▲           ▲
//!                 lost in a crash     in flight      next
//! ```
//!
//! # States of a log
//!
//! ```text
//!               quiesce()               flight drained
//!    open ─────────────────► draining ─────────────────► quiet ──► compaction, or nothing
//!     ▲  reserve() counts     quiescing is set;            │
//!     │  into `flight`        reserve() waits              │
//!     └────────────────────────────────────────────────────┘ `Quiet` is dropped, also by a panic
//!
//!    any state ──► poisoned: an operation panicked midway. Only reopening the volume ends it (L5).
//! ```
//!
//! # Invariants
//! M1…M7 of [`crate::medium`], and:
//! - **L1** `next <= 63 × pages`. Slots before `next` are reserved. Slots from `next` on have a
//!   zero first word on the medium.
//! - **L2** The link to every page of `pages` is durable before the mutex is released. So a mark on
//!   a page cannot be durable before the page is reachable.
//! - **L3** `flight` counts the existing reservations, plus [`WAITED_FOR`] while a compaction
//!   waits. Reservations are added only under the mutex and only while `quiescing` is not set.
//! - **L4** A reservation ends only after its owner has updated index and size. So once `quiescing`
//!   is set and `flight` has drained of reservations, the index agrees exactly with the committed
//!   groups.
//! - **L5** The region may panic if its medium fails. Memory and medium may then disagree about
//!   this log, so the log is *poisoned* and accepts no more appends. Adding pages and compacting
//!   set the flag before their first store and clear it after their last fence. The flag is also
//!   set when a reservation is dropped before its owner has [ended](Reservation::end) it. (A panic
//!   while a mark is erased poisons the removed file's log instead: see `directory.rs`.)
//!
//! # Orderings
//!
//! | letter | where | pairs with | carries |
//! |---|---|---|---|
//! | F | `Reservation::drop`: subtraction, Release | G | the index and size that it changed |
//! | G | `Log::quiesce`: load, Acquire | F | |
//!
//! The wakeup needs no ordering, because `WAITED_FOR` and the count share one word. There are two
//! cases for the subtraction that ends the last reservation. If it sees the bit, its thread takes
//! the mutex and notifies. Otherwise it precedes the bit in the word's modification order, so the
//! waiter's later check finds no reservation.
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

use crate::alloc::Class;
use crate::chain::{LogState, Slots, extend};
use crate::compact::{self, Live};
use crate::error::Error;
use crate::layout::{Chain, PAGE_SLOTS, SLOT_BYTES, WORD_BYTES, mark_of, page_at};
use crate::medium::Medium;

/// Added to `flight` while a compaction waits for it to drain.
const WAITED_FOR: u64 = 1;
/// Added to `flight` by each reservation.
const IN_FLIGHT: u64 = 2;

/// The log of one inode.
///
/// It has cache lines of its own, because every append writes to it while its neighbours in memory
/// are only read. It takes two lines because processors fetch lines in pairs.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Log {
    state: Mutex<LogState>,
    /// The reservations in flight; see L3.
    flight: AtomicU64,
    /// Notified when `flight` drains and when `quiescing` ends.
    settled: Condvar,
}

impl Log {
    /// Creates a log whose chain has `pages` and whose first free slot is `next`.
    pub(crate) fn new(chain: Chain, pages: Vec<u32>, next: u32) -> Self {
        Log {
            state: Mutex::new(LogState::new(chain, pages, next)),
            flight: AtomicU64::new(0),
            settled: Condvar::new(),
        }
    }

    /// Reserves `slots` consecutive slots, adding pages or compacting if needed. `class` decides
    /// how much of the reserve may be used for new log pages. `live` lists the groups that a
    /// compaction keeps.
    ///
    /// Blocks while the log is compacted.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::Poisoned`]: nothing is reserved.
    pub(crate) fn reserve<P: Pmem>(
        &self,
        medium: &Medium<P>,
        slots: u32,
        class: Class,
        live: &dyn Live,
    ) -> Result<Reservation<'_>, Error> {
        let mut state = self.state.lock();
        while state.quiescing {
            state = self.settled.wait(state);
        }
        state.check_poison()?;
        if state.room() < slots as u64 {
            state = self.make_room(state, medium, slots, class, live)?;
        }
        // Relaxed: the mutex orders it before any later `quiesce`.
        self.flight.fetch_add(IN_FLIGHT, Ordering::Relaxed);
        Ok(Reservation {
            log: self,
            slots: state.take(slots),
            ended: false,
        })
    }

    /// Makes room for `slots` slots. It compacts the log if that is due, then adds pages. On a full
    /// volume it compacts early, and finally takes pages from the reserve.
    #[cold]
    fn make_room<'l, P: Pmem>(
        &'l self,
        mut state: MutexGuard<'l, LogState>,
        medium: &Medium<P>,
        slots: u32,
        class: Class,
        live: &dyn Live,
    ) -> Result<MutexGuard<'l, LogState>, Error> {
        if state.pages.len() >= state.compact_at {
            state = self.quiesce(state);
            let quiet = Quiet {
                log: self,
                state: &mut state,
            };
            quiet.state.check_poison()?;
            // Compaction may fail for lack of pages. That is fine: the append may still fit, and a
            // later append tries again.
            let _ = compact::if_due(quiet.state, medium, slots, live);
        }
        if state.room() >= slots as u64 || extend(&mut state, medium, slots, Class::Growth).is_ok()
        {
            return Ok(state);
        }
        state = self.quiesce(state);
        let quiet = Quiet {
            log: self,
            state: &mut state,
        };
        quiet.state.check_poison()?;
        let _ = compact::if_it_helps(quiet.state, medium, slots, live);
        drop(quiet);
        if state.room() < slots as u64 {
            extend(&mut state, medium, slots, class)?;
        }
        Ok(state)
    }

    /// Blocks new reservations and waits until none is in flight. Dropping a [`Quiet`] ends this
    /// state.
    fn quiesce<'l>(&'l self, mut state: MutexGuard<'l, LogState>) -> MutexGuard<'l, LogState> {
        state.quiescing = true;
        // Relaxed: the wakeup only needs atomicity; see the module's orderings.
        self.flight.fetch_or(WAITED_FOR, Ordering::Relaxed);
        // Acquire [G←F]: the index and size that the operations in flight changed.
        while self.flight.load(Ordering::Acquire) >= IN_FLIGHT {
            state = self.settled.wait(state);
        }
        state
    }

    /// Erases the mark of the group whose lead slot is `slot`. Recovery then treats the group as
    /// never committed. The erasure is durable on return; it takes one fence and no space. The
    /// caller owns the mark (M4).
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub(crate) fn erase_mark<P: Pmem>(&self, medium: &Medium<P>, slot: u32) -> Result<(), Error> {
        let state = self.state.lock();
        state.check_poison()?;
        let page = state.pages[(slot / PAGE_SLOTS) as usize];
        drop(state);
        let mark_at = page_at(page) + (slot % PAGE_SLOTS) as u64 * SLOT_BYTES as u64;
        // An erased mark makes nothing reachable, so nothing has to be durable before it.
        medium.publish(mark_at, 0, Durable::at_rest());
        Ok(())
    }

    /// Compacts the log if it is too long for `live_slots` live slots.
    pub(crate) fn trim<P: Pmem>(&self, medium: &Medium<P>, live_slots: u64, live: &dyn Live) {
        let mut state = self.state.lock();
        if state.pages.len() as u64 <= compact::bound(live_slots) || state.quiescing {
            return;
        }
        state = self.quiesce(state);
        let quiet = Quiet {
            log: self,
            state: &mut state,
        };
        if quiet.state.check_poison().is_ok() {
            // This may fail for lack of pages; a later call tries again.
            let _ = compact::if_due(quiet.state, medium, 0, live);
        }
    }

    /// Returns the number of compactions. Whenever it changes, slots are renumbered.
    pub(crate) fn epoch(&self) -> u64 {
        self.state.lock().chain.epoch
    }

    /// Returns a guard that poisons the log if a panic drops it before it is
    /// [defused](PoisonOnUnwind::defuse) (L5).
    pub(crate) fn poison_on_unwind(&self) -> PoisonOnUnwind<'_> {
        PoisonOnUnwind(self)
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
        self.0.state.lock().poisoned = true;
    }
}

/// The period during which the log is quiet. Dropping it ends that period, also in a panic.
struct Quiet<'a> {
    log: &'a Log,
    state: &'a mut LogState,
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        // Relaxed: under the mutex, and no reservation is in flight.
        self.log.flight.fetch_and(!WAITED_FOR, Ordering::Relaxed);
        self.state.quiescing = false;
        self.log.settled.notify_all();
    }
}

/// Reserved slots at the end of a log, to be filled and committed by one operation.
///
/// If a panic drops it before it is [ended](Self::end), it poisons the log (L5).
#[derive(Debug)]
#[must_use = "a reservation blocks compactions until it ends"]
pub(crate) struct Reservation<'l> {
    log: &'l Log,
    slots: Slots,
    ended: bool,
}

impl Reservation<'_> {
    /// Returns the number of the first slot in the chain.
    pub(crate) fn first_slot(&self) -> u32 {
        self.slots.index
    }

    /// Commits `group`, whose first words are all zero. `flushed` stands for all stores that the
    /// group refers to. The group and those stores are durable on return.
    pub(crate) fn commit<P: Pmem>(&mut self, medium: &Medium<P>, group: &[u8], flushed: Flushed) {
        let Slots {
            index,
            count,
            seed,
            first_page,
            ..
        } = self.slots;
        debug_assert_eq!(group.len(), count as usize * SLOT_BYTES);
        debug_assert!(
            group
                .chunks_exact(SLOT_BYTES)
                .all(|s| s[..WORD_BYTES] == [0; WORD_BYTES])
        );
        let mark = mark_of(seed, index, group);
        let mut flushed = flushed;
        let mut within = (index % PAGE_SLOTS) as usize * SLOT_BYTES;
        let mark_at = page_at(first_page) + within as u64;
        let mut rest = group;
        for page in core::iter::once(first_page).chain(self.slots.further_pages.iter().copied()) {
            let here = rest.len().min(PAGE_SLOTS as usize * SLOT_BYTES - within);
            let (slots, behind) = rest.split_at(here);
            flushed = flushed.and(medium.store_slots(page, within, slots));
            (rest, within) = (behind, 0);
        }
        if injected_bug!(
            "mark-before-data",
            "a group is committed before its data and slots are durable",
            killed_by = "file-core/patch-patch, file-core/append-create"
        ) {
            medium.publish(mark_at, mark, Durable::at_rest());
            drop(flushed);
            return;
        }
        // One fence covers data and slots, another the mark.
        let durable = medium.pmem.fence(flushed);
        medium.publish(mark_at, mark, durable);
    }

    /// Ends the operation, after it has committed and updated the index and size (L4).
    pub(crate) fn end(mut self) {
        self.ended = true;
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if !self.ended {
            // L5: no step between a reservation and its end can fail, so this is a panic.
            self.log.state.lock().poisoned = true;
        }
        // Release [F→G]: the index and size that this operation changed (L4).
        let before = self.log.flight.fetch_sub(IN_FLIGHT, Ordering::Release);
        if before == IN_FLIGHT + WAITED_FOR {
            // The compaction holds the mutex from setting the bit until it sleeps, so taking the
            // mutex rules out a lost wakeup.
            let _state = self.log.state.lock();
            self.log.settled.notify_all();
        }
    }
}
