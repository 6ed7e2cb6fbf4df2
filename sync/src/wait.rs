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
//! - A thread that changes a word learns from a counter outside the word whether there are waiters.
//!   So the word needs no bit for that, and the change may be a plain store.
//!
//! # Protocol
//!
//! | | waiter | | thread that changes the word |
//! |---|---|---|---|
//! | 1 | [`join`]: enters the queue, which then counts as occupied | 1 | changes the word |
//! | 2 | (in `join`) [`heavy`] barrier | 2 | (in [`is_occupied`]) [`light`] barrier |
//! | 3 | checks the word; sleeps if it must wait | 3 | if the queue is occupied, wakes its head |
//!
//! [`join`]: WaitQueue::join
//! [`is_occupied`]: WaitQueue::is_occupied
//! [`heavy`]: crate::barrier::heavy
//! [`light`]: crate::barrier::light
//!
//! An **arrival** is a request that has not joined a queue. If it finds the queue occupied, it may
//! still acquire the word before the waiters that it conflicts with: it [passes](WaitQueue::pass)
//! them. The number of passes is limited.
//!
//! # Invariants
//! - **Q-I1** The queues of a word count as occupied while a waiter is in one of them. (They may
//!   also count as occupied without a waiter, because words share counters.)
//! - **Q-I2** No wake is lost. Each side stores, issues a barrier, and loads what the other side
//!   stored. So either the waiter's check sees the change, or the changing thread sees that the
//!   queue is occupied, and [wakes](WaitQueue::wake) its head. (A waiter whose barrier was refused
//!   rechecks instead.) A wake that comes before the sleep
//!   is kept by [`Park`](crate::Park). If several waiters of one [`Class`] are at the head, only
//!   the first is woken. It wakes the next when it [leaves](WaitQueue::leave).
//! - **Q-I3** A waiter at the head stays there until it leaves or is evicted.
//! - **Q-I4** A pass counts only for the first waiter that conflicts with the arrival. It is
//!   counted under the table's lock. At most `patience` passes count for a waiter. An arrival that
//!   does not find the queue occupied came before the waiter, and is not counted. Arrivals that
//!   conflict with no waiter pass freely.
//! - **Q-I5** No foreign code runs under the table's lock. The table keeps each waker in an `Arc`.
//!   Wakers are cloned, called and dropped only outside the lock.
//!
//! # Orderings
//!
//! | letter | where | ordering | pairs with | needed by the model |
//! |---|---|---|---|---|
//! | D | in `is_any_occupied`, before the load | light barrier | E | `wait-and-wake`, `wakeup` |
//! | E | in `join`, before the first check | heavy barrier | D | `wait-and-wake`, `wakeup` |
//!
//! # Not guaranteed
//! A wake may be spurious, so waiters recheck after each sleep. For example, a late wake for a
//! freed word of a lock can reach a waiter of a new word of the same lock, at the same address. Or
//! a waker that was [listed](Wakers) during one wait wakes its thread in a later wait.
//!
//! If the system refuses the heavy barrier to a waiter, a thread that changes the word may overlook
//! it. So such a waiter [rechecks](Place::is_seen) from time to time. A wait may then end late.
//!
//! A [`Place`] is **forgotten** if it is dropped or leaked without [leaving](WaitQueue::leave). Its
//! entry stays in the queue, and blocks the waiters behind it, until the owner of the word
//! [evicts](WaitQueue::evict) the address or drops the lock.

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
use crate::{Counters, DefaultPark, MutexGuard, injected_bug};

use bucket::{Bucket, Entry, NOBODY, Queue};

pub(crate) mod bucket;

/// The queues of a lock's waiters. `P` decides how threads sleep.
///
/// As shipped (built without a checker), this is a handle to the one table of the process. Under a
/// checker, each `WaitQueue` has a table of its own.
///
/// As shipped, it takes eight bytes. The feature `statistics` adds the counters.
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

/// A [`Waker`] in an `Arc`, so that a queue can keep it without running foreign code.
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

    /// Calls the waker.
    pub fn wake(&self) {
        self.0.wake_by_ref();
    }
}

/// A waiter's place in the queue of a [`Spot`]. If it is dropped without
/// [leaving](WaitQueue::leave), its waiter stays queued, and blocks all later waiters that it would
/// exclude.
#[derive(Debug)]
#[must_use = "a waiter that never leaves blocks the waiters behind it"]
pub struct Place {
    spot: Spot,
    id: u64,
    /// Whether the waiter is known to be at the head. Once true, it stays true as long as no waiter
    /// is evicted (Q-I3).
    at_head: bool,
    /// The number of evictions when `at_head` was determined.
    evictions: usize,
    /// The address of the listener in the queue's entry.
    listener: *const Waker,
    is_seen: bool,
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

    /// Returns whether every later change of the word wakes the waiter. If not, the system has
    /// refused the heavy barrier, and the waiter must recheck the word from time to time.
    #[inline]
    pub fn is_seen(&self) -> bool {
        self.is_seen
            || injected_bug!(
                "unseen-waiter-sleeps",
                "a waiter whose heavy barrier was refused sleeps until it is woken",
                killed_by = "rw-word/refused-barrier"
            )
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

    /// Calls the wakers. Calls the second even if the first panics.
    pub fn wake(self) {
        for_each_surely(self.0.into_iter().flatten(), |waker| waker.wake_by_ref());
    }
}

impl WaitQueue {
    /// Returns an empty queue, whose threads wait in the [default](DefaultPark) way.
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

    /// Returns whether there may be a waiter for a lane of the word at this address.
    ///
    /// If this returns false after a change, every waiter of the word sees the change. If it
    /// returns true, the waiter may be one of another word.
    #[inline]
    #[track_caller]
    pub fn is_occupied(&self, word: usize) -> bool {
        self.is_any_occupied() && self.is_this_occupied(word)
    }

    /// Issues a light barrier (D), then returns whether there may be a waiter for any word of this
    /// handle. Call it after changing a word.
    #[inline]
    #[track_caller]
    pub fn is_any_occupied(&self) -> bool {
        // Light [D→E]. Relaxed: the table's lock orders the entries that are found there.
        self.handle.waiters.is_raised(Relaxed)
    }

    /// Returns whether there may be a waiter for any word of this handle. Call it before acquiring
    /// a word: an arrival that reads false came before the waiter (Q-I4).
    #[inline]
    pub fn may_be_occupied(&self) -> bool {
        self.handle.waiters.may_be_raised()
    }

    /// Like [`is_occupied`](Self::is_occupied), but checks this word only, and issues no barrier.
    /// Call it after [`is_any_occupied`](Self::is_any_occupied) or
    /// [`may_be_occupied`](Self::may_be_occupied) has returned true.
    #[inline]
    pub fn is_this_occupied(&self, word: usize) -> bool {
        self.handle.table.is_occupied(word)
    }

    /// Returns whether a waiter waits for `spot`. The call locks the table, and its result is a
    /// snapshot. It is meant for statistics and models.
    pub fn has_waiters(&self, spot: Spot) -> bool {
        let bucket = self.lock(spot);
        bucket.at(self.handle.number.get(), spot).is_some()
    }

    /// Joins the queue of `spot` and issues the heavy barrier (E). The caller must check the word
    /// after this call. If the system refuses the barrier, the waiter is not
    /// [seen](Place::is_seen).
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
        // The barrier E below orders both increments before the caller's check. The bucket's lock
        // orders them with the changes of other waiters (Q-I1).
        self.handle.waiters.raise();
        self.handle.table.raise(spot.word);
        drop(bucket);
        // Heavy [E→D].
        let is_seen = barrier::heavy();
        Place {
            spot,
            id,
            at_head,
            evictions: world::evictions(),
            listener: Arc::as_ptr(&listener.0),
            is_seen,
        }
    }

    /// Returns whether the waiter is at the head, and so may acquire the lane. From now on, a wake
    /// of this waiter calls `listener`.
    ///
    /// Returns `None` if the waiter was [evicted](Self::evict) and no longer waits.
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
    /// Calls `take` with the (exclusive) end of the lanes that the arrival may acquire. That end is
    /// the first lane that it may not acquire, because the first conflicting waiter there has
    /// already been passed `patience` times. If there is no such lane, it is the end of `lanes`.
    /// `take` returns the end of the lanes that it acquired. In each acquired lane, one more pass
    /// counts for the first conflicting waiter. Returns what `take` returned.
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

    /// Wakes the head of the queue of `spot`: the first waiter of each class that is at the head.
    /// The woken waiters stay queued.
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

    /// Leaves the queue. If `wake_next` is true, the result holds the wakers of the waiters behind
    /// this one that are now at the head, one for each class.
    ///
    /// A waiter that has acquired the lane exclusively need not wake the next waiter: its release
    /// will.
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
        // The decrement need not be visible at once: a thread that misses it only searches the
        // queue in vain.
        self.handle.waiters.lower();
        self.handle.table.lower(place.spot.word, 1);
        drop(bucket);
        drop(gone);
        wakers
    }

    /// Ends all waiting at words whose addresses lie in `words`, because their memory is about to
    /// be freed.
    ///
    /// Wakes every waiter that still waits there, even if the waker of another panics.
    /// [`is_at_head`](Self::is_at_head) then returns `None` to the waiter. The entries of forgotten
    /// places are removed, too, so the next owner of the address does not meet them.
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
    /// How many waiters queue at the words of this handle. A thread that changes a word checks this
    /// count before the bucket's count. This count lies in the lock, next to data that the thread
    /// has just read. Hashing the address to find the bucket would take as long as the rest of the
    /// operation.
    waiters: Flag,
    /// The number that distinguishes this lock from others.
    number: world::Number,
    table: world::Table,
}

impl Handle {
    /// Removes the queues of this handle for which `gone` returns true, and returns their entries.
    /// The caller ensures that the words of these queues lie in `words`.
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
    /// Removes the entries of forgotten places. No other waiter can be left.
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
