//! Acquiring, waiting for and releasing the state words of segments.
//!
//! Every lock built from words shares this module. A [`Word`] supplies only the state transitions
//! of its own encoding: one segment in each word ([`crate::RwWord`]), or several packed into one
//! word so that a single read-modify-write acquires them all. Spinning, queueing, parking,
//! cancellation and fairness are implemented once, here.
//!
//! # Acquisition
//! A request names a lane range ([`Run`]) of one word. It acquires the lanes in ascending order, as
//! many per step as are free.
//!
//! ```text
//!             nobody queued,                     all lanes acquired
//!   arrival ── one read-modify-write ──────────────────────────────► holds
//!      │ lanes are missing                                             ▲
//!      ▼                                                               │
//!   spins for a few µs, retrying ──────────────────────────────────────┤
//!      │ still missing                                                 │
//!      ▼                                                               │
//!   joins the queue of its first missing lane ◄──┐                     │
//!      │ if at the head: heavy barrier, then     │ next lane missing   │
//!      │ rechecks the word                       │                     │
//!      ▼                                         │                     │
//!   sleeps until woken ─ lane is free ───────────┴─────────────────────┘
//!      ▲                     │ lane is held again
//!      │                     ▼
//!      └── heavy barrier, rechecks, sleeps again
//! ```
//!
//! - The **head** of the queue is a waiter with no conflicting waiter before it. It acquires its
//!   lane as soon as no conflicting hold is left.
//! - An **arrival** is a request that is not queued. It may overtake a head that it conflicts with.
//!   The head may be asleep: if the lane stayed idle until it woke up, the scheduler would set the
//!   pace of the lock. Each such pass is counted. After [`MAX_PASSES`] passes, and once
//!   [`PASS_TIME`] has gone by since the first of them, conflicting arrivals must enqueue.
//! - An arrival that conflicts with no waiter is never delayed by the queue.
//!
//! # Fairness
//! Conflicting requests for a lane are served first come, first served, except for that bounded
//! overtaking. Later conflicting arrivals overtake a head at most [`MAX_PASSES`] times, or for at
//! most [`PASS_TIME`], whichever takes longer. (When the time is over, up to 15 more may: passes
//! are counted 16 at a time.) So a request with `w` waiters ahead of it is overtaken at most
//! `(w + 1) * MAX_PASSES` times, or for at most `(w + 1) * PASS_TIME`. Without std, and under a
//! checker, there is no clock, so only the number counts.
//!
//! # Invariants
//! - **W-I1** Conflicting holds of a lane never coexist: [`Word::take`] checks and acquires in one
//!   atomic step.
//! - **W-I2** A waiter stands in the queue of the first lane that it lacks, and holds only lanes
//!   before that one.
//! - **W-I3** No wakeup is lost (Q-I2 of [`spanlock_sync::wait`]). A thread that may have unblocked
//!   a waiter issues the light barrier and then checks whether a head is asleep. A head that falls
//!   asleep is counted, issues the heavy barrier and then checks the word.
//! - **W-I4** The head sleeps only while a conflicting hold exists or, for a reader, while the
//!   reader count is full. The release that ends this wakes every head that is asleep. A head that
//!   leaves the queue with the lane wakes nobody: its hold excludes those that are now at the head.
//!   One that leaves without the lane (it gives up, or only wanted to see the lane free) wakes
//!   them.
//! - **W-I5** A blocking call that unwinds holds nothing and is in no queue. Foreign code (a waker,
//!   a [`Park`]) may panic while it waits.
//!
//! # Orderings
//!
//! | letter | where | ordering | pairs with | needed by the model |
//! |---|---|---|---|---|
//! | A | [`Word::take`], [`Word::try_upgrade`] | Acquire | B, C | `visibility`, `upgrade` |
//! | B | [`Word::release`], [`Word::downgrade`] | Release | A | `visibility`, `downgrade` |
//! | C | the same, of a shared hold | Release | A | `exclusion-read-write` |
//! | D | between a state change and the check for sleepers | light barrier | E | `wakeup` |
//!
//! A and B are needed by `give-up` and `exclusion` as well; B is of an exclusive hold. In
//! `exclusion-read-write` a writer follows a reader. The load of [`Word::free_until`], by which the
//! gate of `spanlock-srl` scans words, is an A as well. E is the heavy barrier of
//! [`spanlock_sync::wait`].
//!
//! All other orderings are Relaxed, and the comment at each says why that suffices. `cargo verify
//! mutants` weakens or drops one ordering at a time and shows that each is needed.

pub(crate) mod all;
mod progress;
mod wakes;

use core::fmt;
use core::pin::{Pin, pin};
use core::task::{Poll, Waker};
use core::time::Duration;
#[cfg(feature = "std")]
use std::time::Instant;

use spanlock_sync::atomic::Zeroed;
use spanlock_sync::hint::{Backoff, scaled};
use spanlock_sync::wait::{Patience, Spot, WaitQueue};
use spanlock_sync::{Park, injected_bug};
#[cfg(feature = "std")]
use spanlock_sync::{Parker, Wakeup};

use crate::raw::Access;

pub use all::{downgrade_all, lock_all, try_lock_all, try_upgrade_all, unlock_all};
pub use progress::{Progress, cancel_all, poll_all};
pub use spanlock_sync::unwind::for_each_surely;
pub use wakes::{Wakes, address_range};

/// The number of conflicting arrivals that may always overtake the head of a queue: 32, and 1 under
/// a checker.
pub const MAX_PASSES: u32 = scaled(32, 1);

/// For how long more arrivals may overtake the head of a queue, if there is a clock: half a
/// millisecond since the first of them.
pub const PASS_TIME: Duration = Duration::from_micros(500);

/// How many passes are counted at a time: 16, and 1 under a checker.
const BATCH: u32 = scaled(16, 1);

/// An atomic word with the reader-writer states of neighbouring segments, its *lanes*.
///
/// Lanes are given as `first..end`: at least one, and at most [`LANES`](Self::LANES).
///
/// # Safety
/// Holds of one lane exclude each other as [`Access::conflicts_with`] says: `take` and
/// `try_upgrade` check and acquire in one atomic step. Everything done under a hold before its
/// release or downgrade happens-before everything done under a later conflicting hold.
///
/// `LANES` is a power of two, and the alignment is at least 4. Locks find the word of a segment by
/// division, and store flags of a hold in the lowest bits of the word's address.
pub unsafe trait Word: Zeroed + fmt::Debug + Send + Sync + 'static {
    /// The number of lanes in a word.
    const LANES: u32;

    /// The number of readers that can hold a lane at the same time. One more waits.
    const READERS: u32;

    /// Acquires consecutive lanes from `first` on, up to the first conflicting lane. Acquires none
    /// if that would be fewer than `least`. Returns the end of the acquired lanes. Ordering:
    /// Acquire, if any lane was acquired.
    fn take(&self, first: u32, end: u32, access: Access, least: u32) -> u32;

    /// Releases lanes. Returns whether a waiter may have been unblocked. Ordering: Release.
    ///
    /// # Safety
    /// The lanes are held with `access`, and the caller gives up that hold.
    unsafe fn release(&self, first: u32, end: u32, access: Access) -> bool;

    /// Turns holds of lanes with `from` into holds with `to`, which excludes less. Ordering:
    /// Release.
    ///
    /// # Safety
    /// The lanes are held with `from`. Either `from` is [`Access::Write`], or `from` is
    /// [`Access::Upgradable`] and `to` is [`Access::Read`].
    unsafe fn downgrade(&self, first: u32, end: u32, from: Access, to: Access);

    /// Turns holds of lanes with `from` into exclusive holds if nobody else holds any of them;
    /// otherwise changes nothing and returns false. Ordering: Acquire on success.
    ///
    /// # Safety
    /// The lanes are held with `from`, which is [`Access::Read`] or [`Access::Upgradable`].
    unsafe fn try_upgrade(&self, first: u32, end: u32, from: Access) -> bool;

    /// Returns the end of the lanes from `first` on that have no hold conflicting with `access`.
    /// Acquires nothing, so a full reader count does not matter. Ordering: Acquire.
    fn free_until(&self, first: u32, end: u32, access: Access) -> u32;
}

/// A lane range: neighbouring lanes of a word, at least one.
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
    /// Returns the lanes `first..end` of `word`.
    ///
    /// # Panics
    /// Panics if the lane range is empty or exceeds the word.
    #[inline]
    pub fn new(word: &'a W, first: u32, end: u32) -> Self {
        if first >= end || end > W::LANES {
            no_lanes(first, end);
        }
        Run { word, first, end }
    }

    /// Returns the number of lanes, never 0.
    #[inline]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(self) -> u32 {
        self.end - self.first
    }

    /// Returns the lanes after the first `lanes`, which are already acquired. At least one remains.
    #[inline]
    fn after(self, lanes: u32) -> Self {
        Run::new(self.word, self.first + lanes, self.end)
    }

    /// Returns the first `lanes` lanes, at least one.
    #[inline]
    fn up_to(self, lanes: u32) -> Self {
        Run::new(self.word, self.first, self.first + lanes)
    }

    /// Returns whether a waiter is queued for the first lane. A snapshot, for statistics and
    /// models.
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

    /// Acquires the first lanes as an arrival: at least `least`, or none. Returns how many.
    #[inline]
    pub fn arrive<P>(self, access: Access, least: u32, queue: &WaitQueue<P>) -> u32 {
        let Run { word, first, end } = self;
        if queue.may_be_occupied() {
            return arrive_among_waiters(word, first, end, access, least, queue) - first;
        }
        word.take(first, end, access, least) - first
    }

    /// Acquires every lane if none is held in conflict and no waiter is queued at any word of the
    /// queue.
    ///
    /// This is the uncontended path and nothing else: small enough to be inlined, and without
    /// calls. A call would force registers to be saved before the read-modify-write, which then
    /// waits for those stores. That would cost more than everything else.
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

    /// Acquires every lane if that is possible at once. Ordering: Acquire on success.
    #[inline]
    pub fn try_lock<P>(self, access: Access, queue: &WaitQueue<P>) -> bool {
        match self.take_at_once(access, queue) {
            Ok(()) => true,
            Err(refusal) => self.try_lock_slow(access, queue, refusal),
        }
    }

    #[cold]
    fn try_lock_slow<P>(self, access: Access, queue: &WaitQueue<P>, refusal: Refusal) -> bool {
        let Run { word, first, end } = self;
        refusal == Refusal::Untried
            && arrive_among_waiters(word, first, end, access, end - first, queue) == end
    }

    /// Acquires every lane; blocks until no conflicting hold is left. Ordering: Acquire.
    #[inline]
    pub fn lock<P: Park>(self, access: Access, queue: &WaitQueue<P>) {
        if let Err(refusal) = self.take_at_once(access, queue) {
            self.lock_slow(access, queue, refusal);
        }
    }

    /// Like [`lock`](Self::lock), but gives up once `deadline` has passed: then returns false and
    /// leaves no trace.
    #[cfg(feature = "std")]
    pub fn lock_until(self, access: Access, queue: &WaitQueue, deadline: Instant) -> bool {
        if self.try_lock(access, queue) {
            return true;
        }
        let mut attempt = Attempt {
            run: self,
            access,
            progress: pin!(Progress::default()),
            queue,
        };
        Parker::with(|parker| {
            while attempt.poll(parker.waker()).is_pending() {
                let timed_out = if attempt.progress.may_be_overlooked() {
                    parker.park_briefly();
                    Parker::has_passed(deadline)
                } else if attempt.progress.as_mut().is_asleep() {
                    parker.park_until(Some(deadline)) == Wakeup::TimedOut
                } else {
                    Parker::has_passed(deadline)
                };
                attempt.progress.as_mut().refresh();
                if timed_out {
                    return false;
                }
            }
            true
        })
    }

    #[cold]
    fn lock_slow<P: Park>(self, access: Access, queue: &WaitQueue<P>, refusal: Refusal) {
        if self.try_lock_slow(access, queue, refusal) {
            return;
        }
        let (mut spin, mut taken) = (Backoff::new(), 0);
        while spin.round() {
            taken += self.after(taken).arrive(access, 1, queue);
            if taken == self.len() {
                return;
            }
        }
        let mut attempt = Attempt {
            run: self,
            access,
            progress: pin!(Progress::default()),
            queue,
        };
        // Counted before foreign code runs, which may panic (W-I5).
        attempt.progress.as_mut().skip(u64::from(taken));
        P::with(|parker| {
            let mut progress = attempt.progress.as_mut();
            progress.as_mut().listen(parker.waker());
            // Spinning did not help; enqueue without another check.
            // SAFETY: the attempt is polled until it is ready, or cancelled when it is dropped.
            unsafe { progress.enqueue(self.after(taken), access, queue) };
            while attempt.poll(parker.waker()).is_pending() {
                attempt.progress.as_mut().park(parker);
            }
        });
    }

    /// Releases every lane and wakes the waiters that this unblocks. Ordering: Release.
    ///
    /// # Safety
    /// The caller holds every lane with `access`, and gives up that hold.
    #[inline]
    pub unsafe fn unlock<P>(self, access: Access, queue: &WaitQueue<P>) {
        // Compute the wake list first: once the word is released, another thread may free it.
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
        if unsafe { self.release_no_wake(access) } && !wakes_early {
            wakes.wake(queue);
        }
    }

    /// Like [`unlock`](Self::unlock), but leaves the waking to the caller, who uses
    /// [`wakes`](Self::wakes). Returns whether a waiter may have been unblocked.
    ///
    /// # Safety
    /// As for [`unlock`](Self::unlock).
    #[inline]
    pub unsafe fn release_no_wake(self, access: Access) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.word.release(self.first, self.end, access) }
    }

    /// Turns a hold of every lane into one that excludes less, and wakes the waiters that this
    /// unblocks. Ordering: Release.
    ///
    /// # Safety
    /// As for [`Word::downgrade`].
    #[inline]
    pub unsafe fn downgrade<P>(self, from: Access, to: Access, queue: &WaitQueue<P>) {
        // SAFETY: the caller's promise.
        unsafe { self.downgrade_no_wake(from, to) };
        self.wakes().wake(queue);
    }

    /// Like [`downgrade`](Self::downgrade), but leaves the waking to the caller, who uses
    /// [`wakes`](Self::wakes).
    ///
    /// # Safety
    /// As for [`Word::downgrade`].
    #[inline]
    pub unsafe fn downgrade_no_wake(self, from: Access, to: Access) {
        // SAFETY: the caller's promise.
        unsafe { self.word.downgrade(self.first, self.end, from, to) };
    }

    /// Returns the waiters for these lanes.
    #[inline]
    pub fn wakes(self) -> Wakes<W> {
        Wakes::new(self.address(), self.first, u64::from(self.end))
    }

    /// Turns a hold of every lane into an exclusive one if nobody else holds any of them. Goes
    /// ahead of all waiters. Ordering: Acquire on success.
    ///
    /// # Safety
    /// As for [`Word::try_upgrade`].
    #[inline]
    pub unsafe fn try_upgrade(self, from: Access) -> bool {
        // SAFETY: the caller's promise.
        unsafe { self.word.try_upgrade(self.first, self.end, from) }
    }

    /// Returns whether a hold of every lane would conflict with no other hold. Acquires nothing.
    /// Ordering: Acquire.
    #[inline]
    pub fn is_free(self, access: Access) -> bool {
        self.word.free_until(self.first, self.end, access) == self.end
    }
}

/// The request of a blocking call. Dropping it gives the request up, in case foreign code panics
/// before it is granted: the stack that contains the waiter is then being unwound.
struct Attempt<'a, 'p, W: Word, P> {
    run: Run<'a, W>,
    access: Access,
    progress: Pin<&'p mut Progress>,
    queue: &'a WaitQueue<P>,
}

impl<W: Word, P> Attempt<'_, '_, W, P> {
    fn poll(&mut self, waker: &Waker) -> Poll<()> {
        let (run, progress) = (core::iter::once(self.run), self.progress.as_mut());
        // SAFETY: the request is for this run. When the attempt is dropped, it leaves the queue.
        unsafe { progress::advance_all(run, self.access, progress, self.queue, waker) }
    }
}

impl<W: Word, P> Drop for Attempt<'_, '_, W, P> {
    fn drop(&mut self) {
        let (run, progress) = (core::iter::once(self.run), self.progress.as_mut());
        // SAFETY: the request is for this run, with this access. One that is granted is as new.
        unsafe { cancel_all(run, self.access, progress, self.queue) }
    }
}

/// A function of its own, because formatting the values in [`Run::new`] would force them into
/// memory even where the panic is never reached.
#[cold]
#[inline(never)]
fn no_lanes(first: u32, end: u32) -> ! {
    panic!("lane range {first}..{end} is empty or exceeds the word")
}

/// The reason why a lane range was not acquired at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A waiter is queued, though perhaps for another lane range: nothing was tried.
    Untried,
    /// A lane has a conflicting hold, or its reader count is full.
    Busy,
}

/// [`Run::arrive`] when a waiter is queued for some word of the queue.
///
/// A free function so that the word's address stays in a register: a run passed by reference would
/// have to be in memory, on the uncontended path too.
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
    if BATCH > 1 {
        // A credit must not be wasted on lanes that are held: spinning threads come here again and
        // again.
        let free = word.free_until(first, end, access);
        if free == first || free - first < least {
            return first;
        }
        if queue.take_credit(address) {
            return word.take(first, end, access, least);
        }
    }
    let take = |open| {
        if open - first < least {
            return first;
        }
        word.take(first, open, access, least)
    };
    let class = progress::class(access);
    let passes = if injected_bug!(
        "no-aging",
        "arrivals overtake a waiter without limit",
        killed_by = "bounded-overtaking"
    ) {
        u32::MAX
    } else {
        MAX_PASSES
    };
    let patience = Patience {
        passes,
        time: PASS_TIME,
        batch: BATCH,
    };
    queue.pass(address, first..end, class, patience, take)
}
