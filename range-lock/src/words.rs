//! Words that hold the states of segments, and how they are taken: what every lock made of words has in common.
//!
//! # The problem
//! A segment lock has a reader-writer state for each segment, in one of several forms: a word each ([`crate::RwWord`]), or
//! several side by side in one word, so that one read-modify-write takes them all. What comes on top is the same for all: to
//! go past waiters or not, to spin, to queue, to sleep, to give up. So a form says only what a [`Word`] must, and the rest stands here once.
//!
//! # How a word is taken
//! A request takes a [`Run`] of lanes of a word, the first ones first: as many at a time as are free. An **arrival** that finds nobody waiting
//! takes what it can by one read-modify-write. If that is not all, it spins a little, then joins the queue of the first lane that
//! it lacks ([`spanlock_sync::wait`]). There
//!
//! - who is **in front**, with nobody before it that it conflicts with, takes its lane as soon as no conflicting hold is left;
//! - an **arrival** may still take it past those in front that it conflicts with, which is what keeps a contended lock fast (they may
//!   be asleep), but each such pass is counted, and at [`MAX_PASSES`] the door is shut: such arrivals join the queue. An arrival that conflicts with nobody who
//!   waits is none of their business, and passes freely.
//!
//! Everything else follows: among those that conflict the queue of a lane is first come, first served; who is in front is never passed more than
//! [`MAX_PASSES`] times by arrivals that came after it and conflict; a request with *w* waiters before it sees at most (*w* + 1) · `MAX_PASSES` such
//! arrivals go first.
//!
//! # Invariants
//! - **W-I1** Conflicting holds of a lane never exist at once: [`Word::take`] checks and takes in one step.
//! - **W-I2** Who waits stands in the queue of the first lane that it lacks, and holds only lanes before it.
//! - **W-I3** No wake is lost (Q-I2 of [`spanlock_sync::wait`]): after each change that may let somebody in there is a light barrier and a look at the
//!   queue; after joining it, a heavy barrier and a look at the word.
//! - **W-I4** Who is in front sleeps only if a conflicting hold exists, and the release that ends the last one wakes it. One that leaves and does not
//!   exclude the next wakes it.
//!
//! # Orderings
//!
//! | letter | where | ordering | pairs with | needed by the model |
//! |---|---|---|---|---|
//! | A | [`Word::take`], [`Word::strengthen`]: the read-modify-write that takes | Acquire | B, C | `give-up`, `exclusion`, `visibility`, `upgrade` |
//! | B | [`Word::give_back`], [`Word::weaken`] of an exclusive hold | Release | A | `give-up`, `exclusion`, `visibility`, `downgrade` |
//! | C | [`Word::give_back`] of a shared hold | Release | A | `exclusion-read-write` (a writer after a reader) |
//! | D | between a change and the look at the queue | light barrier | E of [`spanlock_sync::wait`] | `wakeup` |
//!
//! All else is Relaxed, and says why. That each is needed is a test: `verify/tests/mutants.rs` weakens or drops one at a time.

mod progress;

use core::fmt;
use core::marker::PhantomData;
#[cfg(feature = "std")]
use std::time::Instant;

use spanlock_sync::atomic::Zeroed;
use spanlock_sync::hint::{Backoff, scaled};
use spanlock_sync::wait::{Listener, Spot, WaitQueue};
use spanlock_sync::{Park, injected_bug};
#[cfg(feature = "std")]
use spanlock_sync::{Parker, Wakeup};

use crate::raw::Access;

pub use progress::{Progress, cancel_all, poll_all};

/// How many arrivals may take a lane past a waiter in front that they conflict with: 32, and 1 under a checker.
pub const MAX_PASSES: u32 = scaled(32, 1);

/// One atomic word with the reader-writer states of neighbouring segments, its *lanes*.
///
/// Lanes are given as `first..end`, at least one, at most [`LANES`](Self::LANES).
///
/// # Safety
/// Holds of one lane exclude each other as [`Access::conflicts_with`] says: `take` and `strengthen` check and take in one step. What
/// was done under a hold before it was given back or weakened happens-before what is done under a later one that conflicts.
///
/// `LANES` is a power of two, and the alignment at least 4: locks find the word of a segment by division, and keep what they know of a hold in the lowest bits
/// of its address.
pub unsafe trait Word: Zeroed + fmt::Debug + Send + Sync + 'static {
    /// How many lanes a word has.
    const LANES: u32;

    /// Takes lanes from `first` on, as many in a row as nothing conflicts with, if there are at least `least`; otherwise
    /// none. Returns the end of what was taken. Ordering: Acquire, if there is any.
    fn take(&self, first: u32, end: u32, access: Access, least: u32) -> u32;

    /// Gives lanes back. Whether anybody may be let in by that. Ordering: Release.
    ///
    /// # Safety
    /// The lanes are held with `access`, and that hold is given up.
    unsafe fn give_back(&self, first: u32, end: u32, access: Access) -> bool;

    /// Turns holds of lanes with `from` into ones with `to`, which exclude less. Ordering: Release.
    ///
    /// # Safety
    /// The lanes are held with `from`. It is [`Access::Write`], or [`Access::Upgradable`] with `to` being [`Access::Read`].
    unsafe fn weaken(&self, first: u32, end: u32, from: Access, to: Access);

    /// Turns holds of lanes with `from` into exclusive ones, if nobody else holds any of them; otherwise none. Ordering: Acquire if so.
    ///
    /// # Safety
    /// The lanes are held with `from`, [`Access::Read`] or [`Access::Upgradable`].
    unsafe fn strengthen(&self, first: u32, end: u32, from: Access) -> bool;

    /// The end of the lanes from `first` on of which no hold conflicts with `access`, whether there is room for one more or not: for who looks and takes
    /// nothing. Ordering: Acquire.
    fn free_until(&self, first: u32, end: u32, access: Access) -> u32;
}

/// Neighbouring lanes of a word, at least one.
#[derive(Debug)]
pub struct Run<'a, W> {
    word: &'a W,
    first: u32,
    end: u32,
}

impl<W> Clone for Run<'_, W> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<W> Copy for Run<'_, W> {}

impl<'a, W: Word> Run<'a, W> {
    /// The lanes `first..end` of `word`.
    ///
    /// # Panics
    /// If there are none, or `word` does not have them.
    #[inline]
    pub fn new(word: &'a W, first: u32, end: u32) -> Self {
        if first >= end || end > W::LANES {
            no_lanes(first, end);
        }
        Run { word, first, end }
    }

    /// How many lanes; never 0.
    #[inline]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(self) -> u32 {
        self.end - self.first
    }

    /// All but the first `lanes`: the rest of a run of which these are taken. There is a rest.
    #[inline]
    fn after(self, lanes: u32) -> Self {
        Run::new(self.word, self.first + lanes, self.end)
    }

    /// The first `lanes` of them, at least one.
    #[inline]
    fn up_to(self, lanes: u32) -> Self {
        Run::new(self.word, self.first, self.first + lanes)
    }

    /// Whether somebody waits for the first lane. A snapshot, for statistics and models; looked up.
    pub fn has_waiters<P>(self, queue: &WaitQueue<P>) -> bool {
        queue.has_waiters(self.first_spot())
    }

    #[inline]
    fn address(self) -> usize {
        core::ptr::from_ref(self.word).addr()
    }

    #[inline]
    fn first_spot(self) -> Spot {
        Spot {
            word: self.address(),
            lane: self.first,
        }
    }

    /// Takes the first lanes as one who has just come: at least `least`, or none. Returns how many.
    #[inline]
    pub fn arrive<P>(self, access: Access, least: u32, queue: &WaitQueue<P>) -> u32 {
        let Run { word, first, end } = self;
        if queue.may_be_occupied() {
            return arrive_among_waiters(word, first, end, access, least, queue) - first;
        }
        word.take(first, end, access, least) - first
    }

    /// Takes every lane if that is possible at once, and nobody waits at any word of the queue.
    ///
    /// The usual case, and no more: small enough to be inlined, and it calls nothing. What a call could change would have to be saved before
    /// the read-modify-write, which then waits for those stores: that would cost more than all the rest.
    #[inline]
    pub fn take_at_once<P>(self, access: Access, queue: &WaitQueue<P>) -> Result<(), Refusal> {
        if queue.may_be_occupied() {
            return Err(Refusal::Untried);
        }
        let Run { word, first, end } = self;
        if word.take(first, end, access, end - first) == end {
            Ok(())
        } else {
            Err(Refusal::Busy)
        }
    }

    /// Takes every lane if that is possible at once. Ordering: Acquire on success.
    #[inline]
    pub fn try_lock<P>(self, access: Access, queue: &WaitQueue<P>) -> bool {
        match self.take_at_once(access, queue) {
            Ok(()) => true,
            Err(refusal) => self.try_lock_otherwise(access, queue, refusal),
        }
    }

    #[cold]
    fn try_lock_otherwise<P>(self, access: Access, queue: &WaitQueue<P>, refusal: Refusal) -> bool {
        let Run { word, first, end } = self;
        refusal == Refusal::Untried
            && arrive_among_waiters(word, first, end, access, end - first, queue) == end
    }

    /// Takes every lane; blocks until no conflicting hold is left. Ordering: Acquire.
    #[inline]
    pub fn lock<P: Park>(self, access: Access, queue: &WaitQueue<P>) {
        if let Err(refusal) = self.take_at_once(access, queue) {
            self.lock_otherwise(access, queue, refusal);
        }
    }

    /// As [`lock`](Self::lock), but gives up when `deadline` has passed: false, and no trace is left.
    #[cfg(feature = "std")]
    pub fn lock_until(self, access: Access, queue: &WaitQueue, deadline: Instant) -> bool {
        if self.try_lock(access, queue) {
            return true;
        }
        Parker::with(|parker| {
            let (mut progress, run) = (Progress::default(), core::iter::once(self));
            loop {
                let runs = run.clone();
                if poll_all(runs, access, &mut progress, queue, parker.waker()).is_ready() {
                    return true;
                }
                if parker.park_until(Some(deadline)) == Wakeup::TimedOut {
                    // SAFETY: the request is of this call.
                    unsafe { cancel_all(run, access, &mut progress, queue) };
                    return false;
                }
            }
        })
    }

    #[cold]
    fn lock_otherwise<P: Park>(mut self, access: Access, queue: &WaitQueue<P>, refusal: Refusal) {
        if self.try_lock_otherwise(access, queue, refusal) {
            return;
        }
        let mut spin = Backoff::new();
        while spin.round() {
            let taken = self.arrive(access, 1, queue);
            if taken == self.len() {
                return;
            }
            self = self.after(taken);
        }
        P::with(|parker| {
            // It has looked often enough: straight into the queue.
            let listener = Listener::new(parker.waker());
            let (mut progress, run) = (
                Progress::queued(self, 0, access, queue, listener),
                core::iter::once(self),
            );
            if injected_bug!(
                "no-recheck",
                "a thread that has joined the queue sleeps without rechecking the word",
                killed_by = "wakeup, poll, give-up, full-count"
            ) {
                parker.park();
            }
            while poll_all(run.clone(), access, &mut progress, queue, parker.waker()).is_pending() {
                parker.park();
            }
        });
    }

    /// Gives every lane back and wakes whom that unblocks. Ordering: Release.
    ///
    /// # Safety
    /// The caller holds every lane with `access`, and gives that hold up.
    #[inline]
    pub unsafe fn unlock<P>(self, access: Access, queue: &WaitQueue<P>) {
        // Before: afterwards the word may be gone with the last who could hold its memory.
        let wakes = self.wakes();
        let wakes_early = injected_bug!(
            "wake-before-change",
            "the waiters are woken before the word is released, not after",
            killed_by = "wakeup, give-up, full-count"
        );
        if wakes_early {
            self.wakes().wake(queue);
        }
        // SAFETY: the caller's promise.
        if unsafe { self.give_back(access) } && !wakes_early {
            wakes.wake(queue);
        }
    }

    /// As [`unlock`](Self::unlock), but leaves the waking to the caller, by [`wakes`](Self::wakes): whether there is any to be done.
    ///
    /// # Safety
    /// As [`unlock`](Self::unlock).
    #[inline]
    pub unsafe fn give_back(self, access: Access) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.word.give_back(self.first, self.end, access) }
    }

    /// Turns a hold of every lane into one that excludes less, and wakes whom that unblocks. Ordering: Release.
    ///
    /// # Safety
    /// As [`Word::weaken`].
    #[inline]
    pub unsafe fn downgrade<P>(self, from: Access, to: Access, queue: &WaitQueue<P>) {
        // SAFETY: the caller's promise.
        unsafe { self.weaken(from, to) };
        self.wakes().wake(queue);
    }

    /// As [`downgrade`](Self::downgrade), but leaves the waking to the caller, by [`wakes`](Self::wakes).
    ///
    /// # Safety
    /// As [`Word::weaken`].
    #[inline]
    pub unsafe fn weaken(self, from: Access, to: Access) {
        // SAFETY: the caller's promise.
        unsafe { self.word.weaken(self.first, self.end, from, to) };
    }

    /// Those who wait for its lanes.
    #[inline]
    pub fn wakes(self) -> Wakes<W> {
        Wakes::new(self.address(), self.first, u64::from(self.end))
    }

    /// Turns a hold of every lane into an exclusive one if nobody else holds any, before all who wait. Ordering: Acquire on
    /// success.
    ///
    /// # Safety
    /// As [`Word::strengthen`].
    #[inline]
    pub unsafe fn try_upgrade(self, from: Access) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.word.strengthen(self.first, self.end, from) }
    }

    /// Whether a hold of every lane would conflict with nobody's. Takes nothing. Ordering: Acquire.
    #[inline]
    pub fn is_free(self, access: Access) -> bool {
        self.word.free_until(self.first, self.end, access) == self.end
    }
}

/// Not within [`Run::new`]: what a message shows has to be in memory, whether it is shown or not.
#[cold]
#[inline(never)]
fn no_lanes(first: u32, end: u32) -> ! {
    panic!("no lanes of a word: {first}..{end}")
}

/// Why a run was not taken at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Somebody waits, if not for this run: it was not tried.
    Untried,
    /// A lane is in the hands of others.
    Busy,
}

/// [`Run::arrive`] where somebody waits for a word of the queue. (Not a method: a run that is passed by reference would have to be in memory, in the
/// usual case as well.)
#[cold]
#[inline(never)]
fn arrive_among_waiters<W: Word, P>(
    word: &W,
    first: u32,
    end: u32,
    access: Access,
    least: u32,
    queue: &WaitQueue<P>,
) -> u32 {
    let address = core::ptr::from_ref(word).addr();
    if !queue.is_this_occupied(address) {
        return word.take(first, end, access, least);
    }
    let take = |open| {
        if open - first < least {
            return first;
        }
        word.take(first, open, access, least)
    };
    let class = progress::class(access);
    let patience = if injected_bug!(
        "no-aging",
        "arrivals overtake a waiter without limit",
        killed_by = "bounded-overtaking"
    ) {
        u32::MAX
    } else {
        MAX_PASSES
    };
    queue.pass(address, first..end, class, patience, take)
}

/// Whom a change may have let in: those in front of the queues of neighbouring lanes. Knows the words' address only, so they may be gone.
#[derive(Debug)]
#[must_use = "who is not woken sleeps for ever"]
pub struct Wakes<W> {
    /// The address of the first word, in which `first` and `end` count.
    word: usize,
    first: u32,
    end: u64,
    form: PhantomData<fn() -> W>,
}

impl<W: Word> Wakes<W> {
    /// Of lanes of the word at this address and of those behind it in memory, counted on.
    #[inline]
    pub fn new(word: usize, first: u32, end: u64) -> Self {
        Wakes {
            word,
            first,
            end,
            form: PhantomData,
        }
    }

    /// Wakes them, if there are any.
    #[inline]
    pub fn wake<P>(self, queue: &WaitQueue<P>) {
        // Light [D→E]: between the change and the look.
        if queue.is_any_occupied() {
            wake_fronts::<W, P>(self.word, self.first, self.end, queue);
        }
    }
}

/// Not a method, for the reason of [`arrive_among_waiters`].
#[cold]
#[inline(never)]
fn wake_fronts<W: Word, P>(word: usize, first: u32, end: u64, queue: &WaitQueue<P>) {
    let spots = (u64::from(first)..end).map(|lane| {
        let (word_of, lane) = (lane / u64::from(W::LANES), lane % u64::from(W::LANES));
        Spot {
            word: word + word_of as usize * size_of::<W>(),
            lane: lane as u32,
        }
    });
    for_each_surely(
        spots.filter(|spot| queue.is_this_occupied(spot.word)),
        |spot| queue.wake(spot),
    );
}

/// The addresses of a slice of words, which whoever gives up their memory [evicts](spanlock_sync::wait::WaitQueue::evict).
pub fn address_range<T>(words: &[T]) -> core::ops::Range<usize> {
    let words = words.as_ptr_range();
    words.start.addr()..words.end.addr()
}

/// Takes every run, in the order given, waiting for one lane at a time. Ordering: Acquire.
///
/// Requests whose lanes are given in one global order never wait for each other in a circle.
#[inline]
pub fn lock_all<'a, W: Word, P: Park>(
    runs: impl Iterator<Item = Run<'a, W>>,
    access: Access,
    queue: &WaitQueue<P>,
) {
    for run in runs {
        run.lock(access, queue);
    }
}

/// Takes every run, or none: at the first that is not to be had, gives back those before it. Ordering:
/// Acquire on success.
#[inline]
pub fn try_lock_all<'a, W: Word, P>(
    runs: impl Iterator<Item = Run<'a, W>> + Clone,
    access: Access,
    queue: &WaitQueue<P>,
) -> bool {
    let busy = runs.clone().position(|run| !run.try_lock(access, queue));
    let Some(busy) = busy else { return true };
    if injected_bug!(
        "try-keeps",
        "a failed try keeps the words it has taken",
        killed_by = "rw-distributed/try-leaves-no-trace"
    ) {
        return false;
    }
    // SAFETY: the runs before the busy one were taken just now, and are given up.
    unsafe { unlock_all(runs.take(busy), access, queue) }
    false
}

/// Gives every run back and wakes whom that unblocks. Ordering: Release.
///
/// # Safety
/// The caller holds every run with `access`, and gives those holds up.
#[inline]
pub unsafe fn unlock_all<'a, W: Word, P>(
    runs: impl Iterator<Item = Run<'a, W>>,
    access: Access,
    queue: &WaitQueue<P>,
) {
    // SAFETY: the caller's promise, run by run.
    for_each_surely(runs, |run| unsafe { run.unlock(access, queue) });
}

/// Calls `f` for every item, for those after one at which it panics too: a waker that panics must not keep the rest of a hold held.
///
/// A second panic ends the process, as any does that comes while another unwinds.
#[inline]
pub fn for_each_surely<I: Iterator>(items: I, f: impl FnMut(I::Item)) {
    struct Rest<I: Iterator, F: FnMut(I::Item)>(I, F);
    impl<I: Iterator, F: FnMut(I::Item)> Drop for Rest<I, F> {
        #[inline]
        fn drop(&mut self) {
            for item in self.0.by_ref() {
                (self.1)(item);
            }
        }
    }
    let mut rest = Rest(items, f);
    // Not a loop over all that is left: that would take it from `Rest`.
    #[allow(clippy::while_let_on_iterator)]
    while let Some(item) = rest.0.next() {
        (rest.1)(item);
    }
}

/// Turns holds of every run into holds that exclude less. Ordering: Release.
///
/// # Safety
/// As [`Run::downgrade`], for every run.
pub unsafe fn downgrade_all<'a, W: Word, P>(
    runs: impl Iterator<Item = Run<'a, W>>,
    from: Access,
    to: Access,
    queue: &WaitQueue<P>,
) {
    // SAFETY: the caller's promise, run by run.
    for_each_surely(runs, |run| unsafe { run.downgrade(from, to, queue) });
}

/// Turns holds of every run into exclusive ones, or none. Ordering: Acquire on success.
///
/// # Safety
/// As [`Run::try_upgrade`], for every run.
pub unsafe fn try_upgrade_all<'a, W: Word, P>(
    runs: impl Iterator<Item = Run<'a, W>> + Clone,
    from: Access,
    queue: &WaitQueue<P>,
) -> bool {
    // SAFETY: the caller's promise, run by run.
    let shared = runs
        .clone()
        .position(|run| !unsafe { run.try_upgrade(from) });
    let Some(shared) = shared else { return true };
    // SAFETY: the runs before the shared one were upgraded just now.
    unsafe { downgrade_all(runs.take(shared), Access::Write, from, queue) }
    false
}
