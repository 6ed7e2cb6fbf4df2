//! Waiting for a word: first-come, first-served queues in a table outside the words.
//!
//! # The problem
//! A lock word has 32 or 64 bits and no room for a queue, and there may be millions of words. So
//! waiters queue in a table outside, keyed by the lock and the word's address, like those of a
//! futex. There are four differences:
//!
//! - The order of the queue matters to the caller. Only a waiter **at the head** competes for the
//!   word: a waiter that no earlier waiter would exclude. All others sleep.
//! - A waiter is a [`Waker`]: a thread's ([`Park`](crate::Park)) or a future's.
//! - A word may hold the states of several things, its *lanes*. Each lane has a queue of its own.
//! - A thread that changes a word learns from a counter outside the word whether there are waiters.
//!   So the word needs no bit for that, and the change may be a plain store.
//!
//! # Protocol
//!
//! | | waiter | | thread that changes the word |
//! |---|---|---|---|
//! | 1 | [`join`]: enters the queue, which is occupied now | 1 | changes the word |
//! | 2 | (in `join`) [`heavy`] barrier | 2 | (in [`is_occupied`]) [`light`] barrier |
//! | 3 | checks the word; sleeps if it must wait | 3 | if the queue is occupied, wakes its head |
//!
//! [`join`]: WaitQueue::join
//! [`is_occupied`]: WaitQueue::is_occupied
//! [`heavy`]: crate::barrier::heavy
//! [`light`]: crate::barrier::light
//!
//! An arrival that finds the queue occupied may still [pass](WaitQueue::pass) the waiters that it
//! conflicts with, a limited number of times for each.
//!
//! # Invariants
//! - **Q-I1** The queues of a word count as occupied while a waiter is in one of them. (They may
//!   also count as occupied without a waiter, because words share counters.)
//! - **Q-I2** No wake is lost. Both sides store, pass a barrier, and load what the other stored. So
//!   either the waiter's check sees the change, or the changing thread sees the queue occupied and
//!   [wakes](WaitQueue::wake) its head, whose [`Park`](crate::Park) keeps the wake until it sleeps.
//!   Of several waiters at the head with the same [`Class`], only the first is woken. It wakes the
//!   next when it [leaves](WaitQueue::leave).
//! - **Q-I3** A waiter at the head stays there until it leaves or is evicted.
//! - **Q-I4** Arrivals pass the first waiter that they conflict with at most `patience` times. Each
//!   such pass is counted at that waiter, under the table's lock. An arrival that does not find the
//!   queue occupied came before the waiter, and is not counted. Arrivals that conflict with no
//!   waiter pass freely.
//! - **Q-I5** No foreign code runs under the table's lock: wakers are kept behind a reference count
//!   of ours, and are woken, cloned and dropped outside.
//!
//! # Orderings
//!
//! | letter | where | ordering | pairs with | needed by the model |
//! |---|---|---|---|---|
//! | D | between a change and the load | light barrier | E | `wait-and-wake`, `wakeup` |
//! | E | in `join`, before the first check | heavy barrier | D | `wait-and-wake`, `wakeup` |
//!
//! # Not guaranteed
//! A wake may be spurious, and addresses may be reused: a late wake for a freed lock can reach a
//! waiter of a new lock at the same address. Waiters recheck after each sleep. A place that was
//! forgotten keeps its entry, and blocks the waiters behind it, until the owner of the word
//! [evicts](WaitQueue::evict) it or drops the lock.

use core::fmt;
use core::marker::PhantomData;
use core::ops::Range;
use core::task::Waker;

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::atomic::Ordering::Relaxed;
use crate::barrier::{self, Flag};
use crate::unwind::for_each_surely;
use crate::world::wait as world;
pub use crate::world::wait::is_wake_left_out;
use crate::{Counters, DefaultPark, MutexGuard};

use bucket::{Bucket, Entry, NOBODY, Queue};

pub(crate) mod bucket;

/// The queues of a lock's waiters. As shipped, a handle to the process's one table; under a
/// checker, a table of its own. `P` is how threads sleep.
///
/// Takes eight bytes, and with the feature `statistics` also counters.
pub struct WaitQueue<P = DefaultPark> {
    handle: Handle,
    counters: Counters,
    parking: PhantomData<fn() -> P>,
}

/// A lane of the word at an address, for which a waiter waits.
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
    /// Exclusive ones only.
    Shared,
    /// Exclusive and other upgradable ones.
    Upgradable,
    /// All others.
    Exclusive,
}

/// A [`Waker`] that has been cloned already, so that a queue never has to.
#[derive(Clone, Debug)]
pub struct Listener(Arc<Waker>);

impl Listener {
    /// Clones the waker, which runs foreign code.
    pub fn new(waker: &Waker) -> Self {
        Listener(Arc::new(waker.clone()))
    }

    /// Returns whether this listener wakes the same task as `waker`.
    pub fn is(&self, waker: &Waker) -> bool {
        self.0.will_wake(waker)
    }
}

/// A waiter's place in the queue of a [`Spot`]. If it is dropped without
/// [leaving](WaitQueue::leave), it blocks all waiters behind it that it would exclude.
#[derive(Debug)]
#[must_use = "a waiter that never leaves blocks those behind it"]
pub struct Place {
    spot: Spot,
    id: u64,
    /// Known to be at the head. Stays true (Q-I3) as long as no waiter is evicted.
    at_head: bool,
    evictions: usize,
    /// The listener that the entry has.
    listener: *const Waker,
}

// SAFETY: the pointer is only compared, never dereferenced.
unsafe impl Send for Place {}
// SAFETY: as above.
unsafe impl Sync for Place {}

impl Place {
    /// Returns the spot for which the waiter waits.
    #[inline]
    pub fn spot(&self) -> Spot {
        self.spot
    }
}

/// A **waker list**: the wakers to call once all locks are released, because they run foreign code.
#[derive(Debug, Default)]
#[must_use = "a waiter that is not woken sleeps for ever"]
pub struct Wakers(pub(crate) [Option<Arc<Waker>>; 2]);

impl Wakers {
    /// Returns whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// Calls the wakers: the second one even if the first one panics.
    pub fn wake(self) {
        for_each_surely(self.0.into_iter().flatten(), |waker| waker.wake_by_ref());
    }
}

impl WaitQueue {
    /// Returns an empty queue, for threads that wait in the [default](DefaultPark) way.
    pub fn new() -> Self {
        Self::default()
    }
}

impl<P> Default for WaitQueue<P> {
    /// Returns an empty queue.
    fn default() -> Self {
        WaitQueue {
            handle: Handle::default(),
            counters: Counters::default(),
            parking: PhantomData,
        }
    }
}

impl<P> WaitQueue<P> {
    /// Returns the same queue, for threads that wait by `Q`.
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

    /// Returns whether there may be a waiter for a lane of the word at this address.
    ///
    /// After a change, false means that every waiter of the word sees the change. True may be due
    /// to a waiter of another word.
    #[inline]
    #[track_caller]
    pub fn is_occupied(&self, word: usize) -> bool {
        self.is_any_occupied() && self.is_this_occupied(word)
    }

    /// Issues a light barrier (D), then returns whether there may be a waiter for any word of this
    /// handle. Call it after a change.
    #[inline]
    #[track_caller]
    pub fn is_any_occupied(&self) -> bool {
        // Light [D→E]. Relaxed: the table's lock orders what is found there.
        self.handle.waiters.is_raised(Relaxed)
    }

    /// Returns whether there may be a waiter for any word of this handle. To be called before a
    /// word is acquired: an arrival that reads false came before the waiter.
    #[inline]
    pub fn may_be_occupied(&self) -> bool {
        self.handle.waiters.may_be_raised()
    }

    /// Like [`is_occupied`](Self::is_occupied), but without the barrier and the first check. To be
    /// called after [`is_any_occupied`](Self::is_any_occupied) or
    /// [`may_be_occupied`](Self::may_be_occupied) has returned true.
    #[inline]
    pub fn is_this_occupied(&self, word: usize) -> bool {
        self.handle.table.is_occupied(word)
    }

    /// Returns whether a waiter waits for `spot`: a snapshot, for statistics and models, which
    /// locks the table.
    pub fn has_waiters(&self, spot: Spot) -> bool {
        let bucket = self.lock(spot);
        bucket.at(self.handle.number.get(), spot).is_some()
    }

    /// Joins the queue of `spot` and issues the heavy barrier (E). The caller checks the word after
    /// this.
    #[track_caller]
    pub fn join(&self, spot: Spot, class: Class, listener: &Listener) -> Place {
        self.counters.waits();
        let lock = self.handle.number.get_or_new();
        let mut bucket = self.lock(spot);
        let id = bucket.next_id;
        bucket.next_id += 1;
        let queue = bucket.queue_or_new(lock, spot);
        let at_head = queue.first_against(class) == NOBODY;
        queue.push(Entry {
            id,
            class,
            passes: 0,
            listener: listener.0.clone(),
        });
        // The barrier E below orders both; the bucket's lock orders them with other waiters (Q-I1).
        self.handle.waiters.raise();
        self.handle.table.raise(spot.word);
        drop(bucket);
        // Heavy [E→D].
        barrier::heavy();
        Place {
            spot,
            id,
            at_head,
            evictions: world::evictions(),
            listener: Arc::as_ptr(&listener.0),
        }
    }

    /// Returns whether `place` is at the head, and so may acquire the lane. `None` means that it
    /// was [evicted](Self::evict) and waits no more. From now on, `listener` is woken for it.
    pub fn is_at_head(&self, place: &mut Place, listener: &Listener) -> Option<bool> {
        let shown = Arc::as_ptr(&listener.0);
        if place.at_head && (place.evictions, place.listener) == (world::evictions(), shown) {
            return Some(true);
        }
        place.evictions = world::evictions();
        place.listener = shown;
        let mut bucket = self.lock(place.spot);
        let queue = bucket.queue(self.handle.number.get(), place.spot);
        place.at_head = false;
        let queue = queue?;
        let at = queue.position(place.id)?;
        place.at_head = queue.is_at_head(&queue.entries[at]);
        let before = core::mem::replace(&mut queue.entries[at].listener, listener.0.clone());
        drop(bucket);
        drop(before);
        Some(place.at_head)
    }

    /// Lets an arrival of this class acquire lanes of the word before the waiters it conflicts
    /// with.
    ///
    /// Calls `take` with the end of the lanes that the arrival may acquire: the first lane whose
    /// first conflicting waiter has already been passed `patience` times. `take` returns the end of
    /// the lanes that it acquired, and so does this function. In each of these lanes, one more pass
    /// is counted at the first conflicting waiter.
    pub fn pass(
        &self,
        word: usize,
        lanes: Range<u32>,
        class: Class,
        patience: u32,
        take: impl FnOnce(u32) -> u32,
    ) -> u32 {
        let spot = |lane| Spot { word, lane };
        let mut bucket = self.lock(spot(0));
        let lock = self.handle.number.get();
        let shut = |bucket: &mut Bucket, lane| {
            let against = bucket.first_against(lock, spot(lane), class);
            against.is_some_and(|entry| entry.passes >= patience)
        };
        let open = lanes.clone().find(|&lane| shut(&mut bucket, lane));
        let end = take(open.unwrap_or(lanes.end));
        for lane in lanes.start..end {
            if let Some(entry) = bucket.first_against(lock, spot(lane), class) {
                entry.passes += 1;
                self.counters.overtakes();
            }
        }
        end
    }

    /// Wakes the head of the queue of `spot`: the first waiter there of each class. They stay
    /// queued.
    #[cold]
    #[track_caller]
    pub fn wake(&self, spot: Spot) {
        if is_wake_left_out() {
            return;
        }
        let mut bucket = self.lock(spot);
        let queue = bucket.queue(self.handle.number.get(), spot);
        let wakers = queue.map(|queue| queue.wakers(0));
        drop(bucket);
        if let Some(wakers) = wakers {
            wakers.wake();
        }
    }

    /// Leaves the queue. If `wake_next`, returns the wakers of the waiters behind it that are at
    /// the head now.
    ///
    /// A waiter that has acquired the lane exclusively need not wake the next: its release will.
    #[track_caller]
    pub fn leave(&self, place: Place, wake_next: bool) -> Wakers {
        let wake_next = wake_next && !is_wake_left_out();
        let mut bucket = self.lock(place.spot);
        let Some(at_queue) = bucket.at(self.handle.number.get(), place.spot) else {
            return Wakers::default();
        };
        let queue = &mut bucket.queues[at_queue];
        let Some(at) = queue.position(place.id) else {
            return Wakers::default();
        };
        let gone = queue.remove(at);
        let wakers = if wake_next {
            queue.wakers(at)
        } else {
            Wakers::default()
        };
        if queue.entries.is_empty() {
            bucket.retire(at_queue);
        }
        // The decrement need not be visible at once: a thread that misses it searches the queue in
        // vain.
        self.handle.waiters.lower();
        self.handle.table.lower(place.spot.word, 1);
        drop(bucket);
        drop(gone);
        wakers
    }

    /// Ends all waiting at words whose addresses lie in `words`, because their memory is about to
    /// be freed.
    ///
    /// A waiter that still waits there is woken, even if the waker of another panics. It finds its
    /// place [gone](Self::is_at_head). A place that was forgotten leaves nothing behind for the
    /// next owner of the address.
    pub fn evict(&self, words: Range<usize>) {
        let gone = self
            .handle
            .retire(|queue| words.contains(&queue.spot.word), &words);
        for_each_surely(gone.into_iter(), |entry| entry.listener.wake_by_ref());
    }

    fn lock(&self, spot: Spot) -> MutexGuard<'_, Bucket> {
        self.handle.table.bucket(spot.word).lock()
    }
}

/// The part of a [`WaitQueue`] that does not depend on how threads sleep.
#[derive(Default)]
struct Handle {
    /// How many waiters queue at the words of this handle. A thread that acquires a word checks
    /// this before the bucket, because it lies next to what the thread has just read. Hashing the
    /// address to find the bucket would take as long as the rest of the acquisition.
    waiters: Flag,
    /// The number of the lock.
    number: world::Number,
    table: world::Table,
}

impl Handle {
    /// Removes the waiters from those queues of this handle for which `gone` holds. The words of
    /// these queues lie in `words`.
    fn retire(&self, gone: impl Fn(&Queue) -> bool, words: &Range<usize>) -> Vec<Entry> {
        let mut all = Vec::new();
        if !self.waiters.may_be_raised() {
            return all;
        }
        let lock = self.number.get();
        self.table.each_bucket(words, |bucket| {
            let mut bucket = bucket.lock();
            let retired = bucket.retire_all(|queue| queue.lock == lock && gone(queue));
            for _ in &retired {
                self.waiters.lower();
            }
            let count = retired.len() as u32;
            all.extend(retired);
            count
        });
        world::note_evictions(all.len());
        all
    }
}

impl Drop for Handle {
    /// Removes forgotten places; no other waiter can be left.
    fn drop(&mut self) {
        if world::OUTLIVES_LOCKS {
            drop(self.retire(|_| true, &(0..usize::MAX)));
        }
    }
}

impl<P> fmt::Debug for WaitQueue<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitQueue").finish_non_exhaustive()
    }
}
