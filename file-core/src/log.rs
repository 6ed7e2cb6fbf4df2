//! The log of an inode: slots reserved under a short mutex, filled in parallel, committed by a mark each.
//!
//! # The problem
//! NOVA appends to an inode's log and commits by moving the tail pointer, under the inode's lock
//! (Xu & Swanson, FAST '16). With a range lock several writers append to one log at once, and a
//! tail that the second moves past the unfinished entry of the first would commit both. [SRL] §IV-D
//! gives every entry a mark of its own. Left open there: entries of several slots, stale marks in a
//! page that is used again, damaged entries, and the garbage collection's part in it.
//!
//! # Properties
//! - **Cost** of an append of one slot: two short critical sections of a few instructions, one line
//!   written, *two fences* for data and log together ([`Reservation::commit`]). Every 63 slots, a
//!   page more: one page written, two fences.
//! - **Progress**: an append blocks for the mutex, which is held across fences only while a page is
//!   added or the log is compacted. A compaction waits for the appends in flight; new ones wait for
//!   it.
//! - **Order**: slots are in the order of the reservations. Who reserves under a range hold appends
//!   after all earlier conflicting holds.
//!
//! ```text
//!   inode ──head──► page ──next──► page ──next──► page            one chain: (inode, generation, epoch)
//!                   │ 63 slots │   │ 63 slots │   │ 63 slots │    slots are numbered through: 0, 1, 2 …
//!                     ██░███████     █████░░███     ██·······
//!                        ▲                ▲           ▲
//!                 lost in a crash     in flight      next
//! ```
//!
//! # Invariants
//! M1…M7 of [`crate::medium`], and:
//! - **L1** `next <= 63 × pages`; slots before `next` are reserved, slots from `next` on have a
//!   zero first word on the medium.
//! - **L2** The link to every page of `pages` is durable before the mutex is released. So no mark
//!   on a page can be durable before the page can be reached.
//! - **L3** `flight` counts the reservations that exist, plus [`WAITED_FOR`] while a compaction
//!   waits. It grows only under the mutex and only while not `quiescing`.
//! - **L4** A reservation ends only after its owner has changed index and size. So while
//!   `quiescing` and `flight` is down to zero, the index says exactly what the committed groups
//!   say.
//! - **L5** The region may panic when its medium fails. Then memory and medium may disagree about
//!   this log, so it is *poisoned*: nothing is appended to it any more. The flag is set before the
//!   first store to a page of the chain and taken back after the last fence, and set by a
//!   reservation that is dropped before its owner has [ended](Reservation::end) it.
//!
//! # Orderings
//!
//! | letter | where | pairs with | carries |
//! |---|---|---|---|
//! | F | `Reservation::drop`: subtraction, Release | G | the index and size that the operation changed |
//! | G | `Log::quiesce`: load, Acquire | F | |
//!
//! The wakeup needs no ordering: `WAITED_FOR` and the count share one word, so the subtraction that
//! reaches zero either sees the bit, then takes the mutex and notifies; or comes before the bit in
//! the word's order, and the waiter's look, which follows, sees zero.
//!
//! No model covers these pairs yet: the file core is tested, not modelled.
//!
//! # Not promised
//! A group that has no mark when the volume crashes is forgotten, also when it was complete.
//!
//! [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905

#[cfg(test)]
mod tests;

use spanlock_pmem::{Durable, Flushed, Pmem};
use spanlock_sync::atomic::{AtomicU64, Ordering};
use spanlock_sync::{Condvar, Mutex, MutexGuard};

use crate::alloc::Class;
use crate::compact::{self, Live};
use crate::error::Error;
use crate::layout::{
    Chain, HEAD_SEQUENCE, PAGE, PAGE_SLOTS, SLOT_BYTES, WORD_BYTES, mark_of, page_at,
};
use crate::medium::Medium;

/// Added to `flight` while a compaction waits for it to drain.
const WAITED_FOR: u64 = 1;
/// Added to `flight` by each reservation.
const IN_FLIGHT: u64 = 2;

/// The log of one inode. On cache lines of its own (two, as processors fetch lines in pairs): every
/// append writes to it, and its neighbours are only read.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Log {
    state: Mutex<State>,
    /// L3.
    flight: AtomicU64,
    /// Notified when `flight` drains, and when `quiescing` ends.
    settled: Condvar,
}

/// What the mutex guards.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) chain: Chain,
    /// `chain.seed()`.
    seed: u32,
    /// The chain's pages in order.
    pub(crate) pages: Vec<u32>,
    /// The first slot that is not reserved.
    pub(crate) next: u32,
    /// Whether somebody compacts, or waits to.
    quiescing: bool,
    /// L5.
    pub(crate) poisoned: bool,
    /// From how many pages on it is worth asking how much of the log lives.
    pub(crate) compact_at: usize,
}

impl State {
    pub(crate) fn new(chain: Chain, pages: Vec<u32>, next: u32) -> Self {
        State {
            chain,
            seed: chain.seed(),
            pages,
            next,
            quiescing: false,
            poisoned: false,
            compact_at: compact::MIN_PAGES,
        }
    }

    /// The state after a compaction into `chain`.
    pub(crate) fn follow(&self, chain: Chain, pages: Vec<u32>, next: u32) -> Self {
        State {
            quiescing: self.quiescing,
            compact_at: self.compact_at,
            ..State::new(chain, pages, next)
        }
    }

    /// L5: asked after every wait, as what was in flight may have panicked.
    fn check_poison(&self) -> Result<(), Error> {
        match self.poisoned {
            true => Err(Error::Poisoned {
                inode: self.chain.inode,
            }),
            false => Ok(()),
        }
    }

    /// Slots that can be reserved without another page.
    fn room(&self) -> u64 {
        self.pages.len() as u64 * PAGE_SLOTS as u64 - self.next as u64
    }

    /// Takes the next `slots` slots; there is room for them.
    fn take(&mut self, slots: u32) -> Slots {
        let index = self.next;
        self.next += slots;
        let first = (index / PAGE_SLOTS) as usize;
        let last = ((self.next - 1) / PAGE_SLOTS) as usize;
        Slots {
            index,
            count: slots,
            seed: self.seed,
            first_page: self.pages[first],
            further_pages: self.pages[first + 1..=last].to_vec(),
        }
    }
}

impl Log {
    /// A log whose chain has `pages`, with the first free slot at `next`.
    pub(crate) fn new(chain: Chain, pages: Vec<u32>, next: u32) -> Self {
        Log {
            state: Mutex::new(State::new(chain, pages, next)),
            flight: AtomicU64::new(0),
            settled: Condvar::new(),
        }
    }

    /// Reserves `slots` consecutive slots, adding pages or compacting if need be. `class` says for
    /// what the log may draw on the reserve, `live` what a compaction has to keep.
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
        // Relaxed: the mutex orders it towards `quiesce`.
        self.flight.fetch_add(IN_FLIGHT, Ordering::Relaxed);
        Ok(Reservation {
            log: self,
            slots: state.take(slots),
            ended: false,
        })
    }

    /// Room for `slots`: by compaction if the log is due, by new pages, and on a full volume by a
    /// compaction out of turn, then by the reserve.
    #[cold]
    fn make_room<'l, P: Pmem>(
        &'l self,
        mut state: MutexGuard<'l, State>,
        medium: &Medium<P>,
        slots: u32,
        class: Class,
        live: &dyn Live,
    ) -> Result<MutexGuard<'l, State>, Error> {
        if state.pages.len() >= state.compact_at {
            state = self.quiesce(state);
            let quiet = Quiet {
                log: self,
                state: &mut state,
            };
            quiet.state.check_poison()?;
            // A compaction that finds no pages may be tried again; the append can do without.
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

    /// Shuts new reservations out and waits until none is in flight. A [`Quiet`] ends it.
    fn quiesce<'l>(&'l self, mut state: MutexGuard<'l, State>) -> MutexGuard<'l, State> {
        state.quiescing = true;
        // Relaxed: atomicity is all that the wakeup needs (see the module's orderings).
        self.flight.fetch_or(WAITED_FOR, Ordering::Relaxed);
        // Acquire [G←F]: the index and size that the operations in flight changed.
        while self.flight.load(Ordering::Acquire) >= IN_FLIGHT {
            state = self.settled.wait(state);
        }
        state
    }

    /// Takes the mark back of the group whose lead is slot `slot`: to recovery it is as if it had
    /// never been committed. Durable when it returns. Needs no space, and one fence. The caller
    /// owns the mark (M4).
    ///
    /// # Errors
    /// [`Error::Poisoned`].
    pub(crate) fn erase_mark<P: Pmem>(&self, medium: &Medium<P>, slot: u32) -> Result<(), Error> {
        let state = self.state.lock();
        state.check_poison()?;
        let page = state.pages[(slot / PAGE_SLOTS) as usize];
        drop(state);
        let mark_at = page_at(page) + (slot % PAGE_SLOTS) as u64 * SLOT_BYTES as u64;
        // Nothing becomes reachable by it, so it relies on nothing.
        medium.publish(mark_at, 0, Durable::at_rest());
        Ok(())
    }

    /// Compacts if the log is longer than `live_slots` live slots justify.
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
            // If there is no room for a fresh chain now, there will be later.
            let _ = compact::if_due(quiet.state, medium, 0, live);
        }
    }

    /// Counts the compactions: when it changes, slots have new numbers.
    pub(crate) fn epoch(&self) -> u64 {
        self.state.lock().chain.epoch
    }

    /// Poisons the log if the guard is dropped by a panic, before it is
    /// [defused](PoisonOnUnwind::defuse) (L5).
    pub(crate) fn poison_on_unwind(&self) -> PoisonOnUnwind<'_> {
        PoisonOnUnwind(self)
    }

    /// The pages of the chain, for who is alone with the log.
    pub(crate) fn take_pages(&self) -> Vec<u32> {
        core::mem::take(&mut self.state.lock().pages)
    }
}

/// See [`Log::poison_on_unwind`].
#[must_use = "it poisons the log when it is dropped"]
pub(crate) struct PoisonOnUnwind<'l>(&'l Log);

impl PoisonOnUnwind<'_> {
    /// All went well.
    pub(crate) fn defuse(self) {
        core::mem::forget(self);
    }
}

impl Drop for PoisonOnUnwind<'_> {
    fn drop(&mut self) {
        self.0.state.lock().poisoned = true;
    }
}

/// The time between [`Log::quiesce`] and its end, which comes in any case.
struct Quiet<'a> {
    log: &'a Log,
    state: &'a mut State,
}

impl Drop for Quiet<'_> {
    fn drop(&mut self) {
        // Relaxed: under the mutex, and nobody is in flight.
        self.log.flight.fetch_and(!WAITED_FOR, Ordering::Relaxed);
        self.state.quiescing = false;
        self.log.settled.notify_all();
    }
}

/// Adds as many pages to the chain as `slots` more slots need.
fn extend<P: Pmem>(
    state: &mut State,
    medium: &Medium<P>,
    slots: u32,
    class: Class,
) -> Result<(), Error> {
    let lacking = slots as u64 - state.room();
    let count = lacking.div_ceil(PAGE_SLOTS as u64) as u32;
    let new = medium
        .space
        .alloc
        .take(state.chain.inode as u64, count, class)?;
    let new: Vec<u32> = new.pages().collect();
    let sequence = state.pages.len() as u32;
    // L5, for the rule's sake: without it, the next page's link would go over this one's, and no
    // harm done.
    state.poisoned = true;
    let stored = store_chain(medium, &state.chain, sequence, &new, &[]);
    let durable = medium.pmem.fence(stored);
    // The link comes after the pages' fence, and is durable before anybody can reserve on them (L2).
    let (at, position) = match state.pages.last() {
        Some(&last) => (medium.next_at(last), sequence - 1),
        None => (medium.head_at(state.chain.inode), HEAD_SEQUENCE),
    };
    medium.publish(at, state.chain.seal(position, new[0]), durable);
    medium.space.count_log_pages(new.len() as u64);
    state.pages.extend(new);
    state.poisoned = false;
    Ok(())
}

/// Stores log pages from position `sequence` of `chain` on, linked to each other, with `slots` in
/// front and zero slots behind: so that no mark of an older life of these pages remains (L1). The
/// pages are private (M2).
pub(crate) fn store_chain<P: Pmem>(
    medium: &Medium<P>,
    chain: &Chain,
    sequence: u32,
    pages: &[u32],
    slots: &[u8],
) -> Flushed {
    let mut slots = slots.chunks(PAGE_SLOTS as usize * SLOT_BYTES);
    let mut stored = Flushed::nothing();
    for (i, &page) in pages.iter().enumerate() {
        let position = sequence + i as u32;
        let mut image = [0; PAGE];
        if let Some(slots) = slots.next() {
            image[..slots.len()].copy_from_slice(slots);
        }
        let next = pages
            .get(i + 1)
            .map_or(0, |&next| chain.seal(position, next));
        chain.put_tail(&mut image, position, next);
        stored = stored.and(medium.store_page(page, &image));
    }
    stored
}

/// Which slots a reservation has.
#[derive(Debug)]
struct Slots {
    /// The first one's number in the chain.
    index: u32,
    count: u32,
    /// The chain's.
    seed: u32,
    first_page: u32,
    further_pages: Vec<u32>,
}

/// Slots at the end of a log, to be filled and committed by one operation. Dropped by a panic,
/// before it is [ended](Self::end), it poisons the log (L5).
#[derive(Debug)]
#[must_use = "a reservation holds compactions up"]
pub(crate) struct Reservation<'l> {
    log: &'l Log,
    slots: Slots,
    ended: bool,
}

impl Reservation<'_> {
    /// The first slot's number in the chain.
    pub(crate) fn first_slot(&self) -> u32 {
        self.slots.index
    }

    /// Commits the group in `group`, whose first words are all zero, together with what `flushed`
    /// stands for: everything that the group refers to. Durable when it returns.
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
        // One fence for data and slots, one for the mark.
        let durable = medium.pmem.fence(flushed);
        medium.publish(mark_at, mark, durable);
    }

    /// The operation is over: it has committed, and memory says so too (L4).
    pub(crate) fn end(mut self) {
        self.ended = true;
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if !self.ended {
            // L5: nothing fails between a reservation and its end, so this is a panic.
            self.log.state.lock().poisoned = true;
        }
        // Release [F→G]: the index and size that this operation changed (L4).
        let before = self.log.flight.fetch_sub(IN_FLIGHT, Ordering::Release);
        if before == IN_FLIGHT + WAITED_FOR {
            // The compaction holds the mutex from setting the bit until it sleeps.
            let _state = self.log.state.lock();
            self.log.settled.notify_all();
        }
    }
}
