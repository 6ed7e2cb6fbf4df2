//! Waiting for a word: first-come, first-served queues in a table outside the words.
//!
//! # The problem
//! A lock word has 32 or 64 bits and no room for a queue, and there may be millions of words. So
//! waiters queue in a table outside the words, keyed by the lock and the word's address. There are
//! four differences from a futex:
//!
//! - The order of the queue matters to the caller. A waiter is **at the head** if no earlier waiter
//!   would exclude it. Only waiters at the head compete for the word. All others sleep.
//! - A waiter is a [`Waker`]: a thread's ([`Park`](crate::Park)) or a future's.
//! - A word may hold several independent states, its *lanes*. Each lane has a queue of its own.
//! - A thread that changes a word learns from a counter outside the word whether a waiter must be
//!   woken. So the word needs no bit for that, and the change may be a plain store.
//!
//! # The queue
//! A [`Waiter`] is a node that lies on the waiting thread's stack, or in the future that waits. The
//! queues link these nodes, so waiting allocates nothing. The header of a queue lies in the node of
//! one of its waiters, which *leads* the queue. When the leader leaves, the header moves to another
//! waiter. FreeBSD's turnstiles do the same. Once the queue is found in its bucket, all operations
//! take constant time, except those that wake or unblock many waiters.
//!
//! A waiter that sleeps keeps its waker in its node. A thread that wakes the waiter *takes* the
//! waker under the table's lock, and calls it without the lock. A waiter that was woken, and still
//! finds the word held, must [rearm](WaitQueue::rearm) before it sleeps again: it puts a waker into
//! its node.
//!
//! ```text
//!           join             its waker is taken            has acquired the word
//!   idle ─────────► asleep ──────────────────────► woken ────────────────────────► idle
//!                     ▲                              │
//!                     └──────────── rearm ───────────┘
//! ```
//!
//! A waiter may also leave, or be evicted, while it is asleep. A waiter that is woken is at the
//! head: only evictions concern other waiters.
//!
//! # Protocol
//! A queue is **armed** while a waiter at its head is asleep. Two counters belong to a handle: one
//! of its waiters, which arrivals read, and one of its armed queues, which releases read. So a
//! release costs a single load while the head is awake already.
//!
//! | | waiter | | thread that changes the word |
//! |---|---|---|---|
//! | 1 | [`join`] or [`rearm`]: sleeps at the head, so its queue is armed | 1 | changes the word |
//! | 2 | (in `join` or `rearm`) [`heavy`] barrier | 2 | (in [`is_asleep`]) [`light`] barrier |
//! | 3 | checks the word; parks if it must wait | 3 | if the queue is armed, [`wake`]s its head |
//!
//! [`join`]: WaitQueue::join
//! [`wake`]: WaitQueue::wake
//! [`rearm`]: WaitQueue::rearm
//! [`is_asleep`]: WaitQueue::is_asleep
//! [`heavy`]: crate::barrier::heavy
//! [`light`]: crate::barrier::light
//!
//! A waiter behind the head is **unblocked** when it becomes the head, because a waiter before it
//! has left. It is asleep, so its queue is then armed. There are two cases:
//!
//! - The waiter that left had acquired the word. Its hold excludes the unblocked waiter, and ends
//!   by a change of the word after the queue was counted. So that waiter is not woken yet.
//! - The waiter that left had acquired nothing. The word may be free, so the caller of
//!   [`leave`](WaitQueue::leave) wakes the head.
//!
//! An **arrival** is a request that has not joined a queue. If it finds waiters, it may still
//! acquire the word before the waiters that it conflicts with: it [passes](WaitQueue::pass) them.
//! The number of passes, or the time in which they are possible, is limited ([`Patience`]).
//!
//! # Invariants
//! - **Q-I1** Under the bucket's lock, the counters are exact: of a handle's waiters, and of its
//!   armed queues. (Words share the bucket's counters, so these may also count others.)
//! - **Q-I2** No wake is lost. A waiter that falls asleep at the head stores, issues a barrier, and
//!   checks the word; a thread that changes the word does the converse. So either the waiter's
//!   check sees the change, or that thread sees that the queue is armed. A waiter that falls asleep
//!   behind the head needs no barrier. Suppose that it is unblocked by a waiter that leaves with a
//!   hold. In the order of the word's changes, the release of that hold comes before the change
//!   that ends the *last* hold in its way, or is this change. The light barrier is an acquire fence
//!   too, so the thread that makes this last change sees that the queue is armed. (A waiter whose
//!   barrier was refused rechecks instead.) A wake goes to every waiter at the head that is asleep.
//!   One that comes before the sleep is kept by [`Park`](crate::Park).
//! - **Q-I3** A waiter at the head stays there until it leaves or is evicted. So a waiter that was
//!   woken is at the head.
//! - **Q-I4** The waiters that are at the head together belong to one **generation**. A new
//!   generation begins when no waiter of the old one is left at the head. The passes of a
//!   generation are never undercounted: its count is at least the number of arrivals that passed
//!   it, plus the *credits* of the bucket. An arrival that takes a credit need not be counted.
//!   Credits are given out under the bucket's lock, and are counted as passes for every queue of
//!   the bucket at that moment. When a new generation begins, the credits that are left are taken
//!   back, and no longer count as passes. None are given out while a queue of the bucket lets no
//!   arrival pass. An arrival that does not find a waiter came before it, and is not counted.
//!   Arrivals that conflict with no waiter pass freely.
//! - **Q-I5** No foreign code runs under the table's lock. A waker is moved into a node, and out of
//!   it, under the lock. It is cloned, called and dropped without the lock.
//! - **Q-I6** A queued node is alive, and its owner neither moves it nor uses it, except for its
//!   state and under the bucket's lock. Every owner takes that lock before it reuses a node that it
//!   once queued. So a thread may use a queued node under the lock.
//!
//! # Orderings
//!
//! | letter | where | ordering | pairs with | needed by the model |
//! |---|---|---|---|---|
//! | D | in `is_any_asleep`, before the load | light barrier | E | `wait-and-wake`, `wakeup` |
//! | E | in `join` and `rearm`, before the check | heavy barrier | D | `wait-and-wake`, `wakeup` |
//!
//! # Not guaranteed
//! A wake may be spurious, so waiters recheck after each wake. For example, a late wake for a freed
//! word of a lock can reach a waiter of a new word of the same lock, at the same address. Or a
//! waker that was taken during one wait wakes its thread in a later wait.
//!
//! If the system refuses the heavy barrier to a waiter, a thread that changes the word may overlook
//! it. So such a waiter [rechecks](Waiter::may_be_overlooked) from time to time. A wait may then
//! end late.
//!
//! A waiter is **forgotten** if it never [leaves](WaitQueue::leave), and its memory is never used
//! again. It stays in the queue, and blocks the waiters behind it, until the owner of the word
//! [evicts](WaitQueue::evict) the address or drops the lock.
//!
//! A waiter that was woken and never runs again delays those that it would exclude, and no others.
//!
//! # Limitation: copies of this crate
//! The table belongs to a copy of this crate. A shared library that was linked with a copy of its
//! own (a `cdylib`, as a plugin) has a table of its own, even if it uses a lock of the program that
//! has loaded it. Then the state of the word still excludes, but a release by one copy cannot wake
//! a waiter of the other, which sleeps for ever. The readers of [`rcu`](crate::rcu) are known to
//! one copy only, too: a tree that one copy shrinks while another reads it frees memory under the
//! reader.
//!
//! So share a lock across such a boundary only by calling functions of the copy that created it.
//! (Sharing the lock itself takes unsafe code, and two copies with the same layout.) With its
//! feature `deadlock-detection`, `spanlock-range-lock` panics when a copy uses a lock that another
//! copy has created. Rust's `dylib`s share one copy, and are not affected.

use core::fmt;
use core::marker::PhantomData;
use core::ops::Range;
use core::pin::Pin;
use core::task::Waker;
use core::time::Duration;

use crate::atomic::Ordering::Relaxed;
use crate::barrier;
use crate::world::wait as world;
pub use crate::world::wait::is_wake_left_out;
use crate::{Counters, DefaultPark, MutexGuard};
use crate::{const_if_shipped, injected_bug};

use bucket::Bucket;
use handle::Handle;
use waiter::{Batch, Identity, for_each_waker};
pub use waiter::{Status, Waiter};

pub(crate) mod bucket;
mod handle;
mod node;
mod waiter;

/// The queues of a lock's waiters. `P` decides how threads sleep.
///
/// As shipped (built without a checker), this is a handle to the one table of the process. Under a
/// checker, each `WaitQueue` has a table of its own.
///
/// As shipped, it takes twelve bytes. The feature `statistics` adds the counters.
pub struct WaitQueue<P = DefaultPark> {
    handle: Handle,
    counters: Counters,
    parking: PhantomData<fn() -> P>,
}

/// The lane for which a waiter waits, and the address of its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The word's address.
    pub word: usize,
    /// The number of the lane; 0 in a word that has only one.
    pub lane: u32,
}

/// The set of holders that a waiter will exclude once it has acquired the lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Excludes exclusive holders only.
    Shared,
    /// Excludes exclusive holders and other upgradable holders.
    Upgradable,
    /// Excludes all other holders.
    Exclusive,
}

/// How long arrivals may pass the waiters at the head of a queue.
///
/// They may do so until `passes` of them have, *and* more than `time` has gone by since the first
/// pass was counted. Without std there is no clock, and under a checker no clock runs: there, only
/// the number counts.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// The number of passes that are always possible.
    pub passes: u32,
    /// How long after the first pass further passes are possible. The clock is read once for the
    /// first pass and, after `passes` of them, once for each batch.
    pub time: Duration,
    /// How many passes are counted at a time, at least 1. All but the first of a batch need no
    /// lock. So up to `batch` − 1 arrivals may pass after the time is over.
    pub batch: u32,
}

/// What a waiter leaves behind when it [leaves](WaitQueue::leave).
#[derive(Debug, Default)]
pub struct Left {
    /// The waiter's waker, unless a thread has taken it to wake the waiter.
    pub waker: Option<Waker>,
    /// Whether the waiter unblocked others, so that they are now at the head.
    pub unblocks: bool,
}

impl WaitQueue {
    /// Returns an empty queue, whose threads wait in the [default](DefaultPark) way.
    pub fn new() -> Self {
        Self::default()
    }
}

impl<P> WaitQueue<P> {
    const_if_shipped! {
        /// Returns an empty queue, like `default`, but leaves it to the first use to register the
        /// process for `membarrier`.
        pub fn empty() -> Self {
            WaitQueue {
                handle: Handle::new(),
                counters: Counters::new(),
                parking: PhantomData,
            }
        }
    }
}

impl<P> Default for WaitQueue<P> {
    /// Returns an empty queue.
    fn default() -> Self {
        let mut queue = Self::empty();
        queue.handle.register();
        queue
    }
}

/// Methods for threads that change words, and for arrivals.
impl<P> WaitQueue<P> {
    /// Returns the same queue, whose threads now wait with `Q`.
    pub fn with_parking<Q>(self) -> WaitQueue<Q> {
        WaitQueue {
            handle: self.handle,
            counters: self.counters,
            parking: PhantomData,
        }
    }

    /// Returns the counters of the feature `statistics`. The queue counts waits and overtakes; the
    /// lock counts acquisitions.
    #[inline]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns whether a waiter at the head of a queue of the word at this address may be asleep.
    ///
    /// If this returns false after a change, every waiter of the word sees the change. If it
    /// returns true, the waiter may be one of another word.
    #[inline]
    #[track_caller]
    pub fn is_asleep(&self, word: usize) -> bool {
        self.is_any_asleep() && self.is_this_asleep(word)
    }

    /// Issues a light barrier (D), then returns whether a waiter at the head of any queue of this
    /// handle may be asleep. Call it after changing a word.
    #[inline]
    #[track_caller]
    pub fn is_any_asleep(&self) -> bool {
        // Light [D→E]. Relaxed: the bucket's lock orders the nodes that are found there.
        self.handle.armed.is_raised(Relaxed)
    }

    /// Like [`is_asleep`](Self::is_asleep), but checks this word only, and issues no barrier. Call
    /// it after [`is_any_asleep`](Self::is_any_asleep) has returned true.
    #[inline]
    pub fn is_this_asleep(&self, word: usize) -> bool {
        self.handle.table.is_armed(word)
    }

    /// Returns whether there may be a waiter for any word of this handle. Call it before acquiring
    /// a word: an arrival that reads false came before the waiter (Q-I4).
    #[inline]
    pub fn may_be_occupied(&self) -> bool {
        // Without a barrier: an arrival may come before a waiter that has just joined.
        self.handle.waiters.may_be_raised()
    }

    /// Like [`may_be_occupied`](Self::may_be_occupied), but checks this word only. Call it after
    /// [`may_be_occupied`](Self::may_be_occupied) has returned true.
    #[inline]
    pub fn is_this_occupied(&self, word: usize) -> bool {
        self.handle.table.is_occupied(word)
    }

    /// Returns whether a waiter waits for `spot`. The call locks the table, and its result is a
    /// snapshot. It is meant for statistics and models.
    pub fn has_waiters(&self, spot: Spot) -> bool {
        let mut bucket = self.lock(spot);
        // SAFETY: the bucket is locked; Q-I6.
        unsafe { bucket.queue(self.handle.number.get(), spot).is_some() }
    }

    /// Lets an arrival acquire lanes of the word before the waiters it conflicts with, if the
    /// arrival gets a credit (Q-I4). Returns whether it got one. If not, call
    /// [`pass`](Self::pass).
    ///
    /// Call this only if nothing else keeps the arrival from acquiring the lanes: the credit is
    /// used up, whether the arrival acquires them or not.
    #[inline]
    pub fn take_credit(&self, word: usize) -> bool {
        let taken = self.handle.table.take_credit(word);
        if taken {
            self.counters.overtakes();
        }
        taken
    }

    /// Lets an arrival of this class acquire lanes of the word before the waiters it conflicts
    /// with.
    ///
    /// Calls `take` with the (exclusive) end of the lanes that the arrival may acquire. It may not
    /// acquire a lane whose queue has a waiter that conflicts with it, and has run out of
    /// `patience`: the first such lane is the end. If there is none, the end is that of `lanes`.
    /// `take` returns the end of the lanes that it acquired. In each acquired lane whose queue has
    /// a waiter that conflicts with the arrival, a pass is counted. Returns what `take` returned.
    pub fn pass(
        &self,
        word: usize,
        lanes: Range<u32>,
        class: Class,
        patience: Patience,
        take: impl FnOnce(u32) -> u32,
    ) -> u32 {
        let spot = |lane| Spot { word, lane };
        let mut bucket = self.lock(spot(0));
        let lock = self.handle.number.get();
        // SAFETY: the bucket is locked; Q-I6.
        let is_shut = |&lane: &u32| unsafe { bucket.is_shut(lock, spot(lane), class, patience) };
        let open = lanes.clone().find(is_shut);
        let end = take(open.unwrap_or(lanes.end));
        let mut passes = false;
        for lane in lanes.start..end {
            // SAFETY: as above.
            if unsafe { bucket.count_pass(lock, spot(lane), class) } {
                self.counters.overtakes();
                passes = true;
            }
        }
        if passes && patience.batch > 1 && !self.handle.table.has_credits(word) {
            // SAFETY: as above.
            let credits = unsafe { bucket.count_in_advance(patience.batch - 1, patience) };
            self.handle.table.add_credits(word, credits);
        }
        end
    }

    /// Wakes every waiter at the head of the queue of `spot` that is asleep. They stay queued.
    #[cold]
    #[track_caller]
    pub fn wake(&self, spot: Spot) {
        if is_wake_left_out() {
            return;
        }
        // Wake each waiter only once. A woken waiter may rearm meanwhile, over and over, but then
        // it comes behind the shared waiters that have not been woken yet.
        let mut shared_left = None;
        let refill = |batch: &mut Batch| {
            let mut bucket = self.lock(spot);
            // SAFETY: the bucket is locked; Q-I6.
            let Some(queue) = (unsafe { bucket.queue(self.handle.number.get(), spot) }) else {
                return;
            };
            let left = shared_left.get_or_insert_with(|| {
                // SAFETY: as above.
                if let Some(waker) = unsafe { queue.wake_single() } {
                    batch.push(waker);
                }
                queue.shared_asleep()
            });
            if injected_bug!(
                "wake-first-only",
                "a wake goes to the first waiter at the head only",
                killed_by = "queued-readers-share"
            ) {
                *left = (*left).min(1);
            }
            while *left > 0 && batch.has_room() {
                // SAFETY: as above.
                let Some(waker) = (unsafe { queue.wake_shared() }) else {
                    break;
                };
                batch.push(waker);
                *left -= 1;
            }
            // SAFETY: as above.
            let armed = unsafe { queue.settle() };
            self.handle.count_armed(spot.word, armed);
        };
        for_each_waker(refill, Waker::wake);
    }

    /// Ends all waiting at words whose addresses lie in `words`, because their memory is about to
    /// be freed.
    ///
    /// Wakes every waiter there that is asleep, even if the waker of another panics. Their
    /// [status](Waiter::status) is then [`Status::Evicted`]. Forgotten waiters are removed, too, so
    /// the next owner of the address does not meet them.
    pub fn evict(&self, words: Range<usize>) {
        let gone = |spot: Spot| words.contains(&spot.word);
        self.handle.retire(&words, gone, Waker::wake);
    }

    fn lock(&self, spot: Spot) -> MutexGuard<'_, Bucket> {
        self.handle.table.bucket(spot.word).lock()
    }
}

/// Methods for the owner of a waiter.
impl<P> WaitQueue<P> {
    /// Joins the queue of `spot`, asleep: a wake calls `waker`. Returns whether the waiter is at
    /// the head. If so, this call has issued the heavy barrier (E), and the caller must check the
    /// word. If the system refuses the barrier, the waiter
    /// [may be overlooked](Waiter::may_be_overlooked). If the waiter is not at the head, it will be
    /// woken once it is worthwhile to check.
    ///
    /// # Panics
    /// Panics if the waiter is in a queue.
    ///
    /// # Safety
    /// Until the waiter has [left](Self::leave), it is passed to this queue only. Its memory is not
    /// used for anything else until the waiter has left, was evicted, or this queue is dropped. (So
    /// the waiter may be forgotten, but not dropped.)
    #[track_caller]
    pub unsafe fn join(
        &self,
        mut waiter: Pin<&mut Waiter>,
        spot: Spot,
        class: Class,
        waker: Waker,
    ) -> bool {
        assert_eq!(waiter.place, None, "the waiter is in a queue");
        self.counters.waits();
        let lock = self.handle.number.get_or_new();
        // SAFETY: the waiter is not moved.
        let this = unsafe { waiter.as_mut().get_unchecked_mut() };
        (this.place, this.shown) = (Some(spot), Identity::of(&waker));
        this.is_unseen = false;
        let node = this.node();
        // SAFETY: the waiter is in no queue, so nobody else uses its node.
        unsafe {
            ((*node).lock, (*node).spot, (*node).class) = (lock, spot, class);
            (*node).thread = world::thread();
            (*node).waker = Some(waker);
        }
        let mut bucket = self.lock(spot);
        self.handle.waiters.raise();
        self.handle.table.raise(spot.word);
        // SAFETY: the bucket is locked. The node is alive until the waiter has left: the caller's
        // promise, which makes Q-I6 hold.
        let joined = unsafe { bucket.join(node) };
        self.handle.count_armed(spot.word, joined.armed);
        if joined.renews {
            self.handle.take_back_credits(&mut bucket, spot.word);
        }
        drop(bucket);
        if joined.is_at_head {
            // Heavy [E→D]: orders counting the queue as armed before the caller's check.
            this.is_unseen = !barrier::heavy();
        }
        joined.is_at_head
    }

    /// Lets a [woken](Status::Woken) waiter sleep again, and issues the heavy barrier (E).
    /// The caller must check the word after this call. If the system refuses the barrier, the
    /// waiter [may be overlooked](Waiter::may_be_overlooked). Gives the waker back if the waiter
    /// was not woken (it may have been evicted).
    ///
    /// # Errors
    /// `waker`, if the waiter is not in the state [`Status::Woken`].
    #[track_caller]
    pub fn rearm(&self, mut waiter: Pin<&mut Waiter>, waker: Waker) -> Result<(), Waker> {
        let Some(spot) = waiter.place else {
            return Err(waker);
        };
        let shown = Identity::of(&waker);
        let mut bucket = self.lock(spot);
        // SAFETY: the bucket is locked; the waiter is in this queue or was evicted, as `join`'s
        // caller promised; Q-I6.
        let armed = unsafe { bucket.rearm(waiter.node(), waker) }?;
        self.handle.count_armed(spot.word, armed);
        drop(bucket);
        // SAFETY: the waiter is not moved.
        let this = unsafe { waiter.as_mut().get_unchecked_mut() };
        this.shown = shown;
        // Heavy [E→D]: orders counting the queue as armed before the caller's check.
        this.is_unseen = !barrier::heavy();
        Ok(())
    }

    /// Replaces the waker of a waiter that is [asleep](Status::Asleep), and returns the one before.
    ///
    /// # Errors
    /// `waker`, if the waiter is not in the state [`Status::Asleep`].
    pub fn replace_waker(
        &self,
        mut waiter: Pin<&mut Waiter>,
        waker: Waker,
    ) -> Result<Option<Waker>, Waker> {
        let Some(spot) = waiter.place else {
            return Err(waker);
        };
        let shown = Identity::of(&waker);
        // SAFETY: as in `rearm`.
        let before = unsafe { self.lock(spot).replace(waiter.node(), waker) }?;
        // SAFETY: the waiter is not moved.
        unsafe { waiter.as_mut().get_unchecked_mut() }.shown = shown;
        Ok(before)
    }

    /// Leaves the queue. Does nothing if the waiter is [idle](Status::Idle).
    ///
    /// The caller must [wake](Self::wake) the spot if the waiter [unblocks](Left::unblocks) others,
    /// unless it has acquired the lane with the access of its class. In that case its release wakes
    /// them.
    pub fn leave(&self, mut waiter: Pin<&mut Waiter>) -> Left {
        // SAFETY: the waiter is not moved.
        let place = unsafe { &mut waiter.as_mut().get_unchecked_mut().place };
        let Some(spot) = place.take() else {
            return Left::default();
        };
        let mut bucket = self.lock(spot);
        // SAFETY: as in `rearm`. The bucket's lock was taken, so the node may be used again (Q-I6).
        let removed = unsafe { bucket.remove(waiter.node()) };
        let Some(removed) = removed else {
            return Left::default(); // It was evicted.
        };
        self.handle.count_gone(&mut bucket, spot.word, &removed);
        Left {
            waker: removed.waker,
            unblocks: removed.unblocks,
        }
    }
}

impl<P> fmt::Debug for WaitQueue<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitQueue").finish_non_exhaustive()
    }
}
