//! Waiting for a word: first-come-first-served queues in a table outside of the words.
//!
//! # The problem
//! A lock word has 32 or 64 bits and no room for a queue, and there may be millions of them. So waiters
//! stand in a table outside, keyed by the lock and the word's address: like a futex, with four differences.
//! The order of the queue is the caller's to use: only who is *in front*, with nobody before it who would exclude it, competes for the word;
//! all others sleep. A waiter is a [`Waker`]: a thread's ([`Park`](crate::Park)) or a future's. A word may hold the states of several
//! things, its *lanes*, each with a queue of its own. And who changes a word learns whether
//! anybody waits from a counter outside the word too: so the word has no bit to spare for it, and the change may be a plain store.
//!
//! # Protocol
//!
//! | | waiter | | whoever changes the word |
//! |---|---|---|---|
//! | 1 | [`join`](WaitQueue::join): stands in the queue, which is occupied now | 1 | changes the word |
//! | 2 | (in `join`) [`heavy`](crate::barrier::heavy) barrier | 2 | (in `is_occupied`) [light](crate::barrier::light) barrier |
//! | 3 | looks at the word; sleeps if it must wait | 3 | looks whether the queue is [occupied](WaitQueue::is_occupied); wakes its head if it is |
//!
//! An arrival that finds the queue occupied may still [go past](WaitQueue::pass) those who wait and would exclude it, a limited number of times for each.
//!
//! # Invariants
//! - **Q-I1** The queues of a word are occupied while anybody stands in one of them. (They may be while nobody does: words share counters.)
//! - **Q-I2** No wake is lost. Both sides store, pass a barrier, and load what the other stored: so either the waiter's look
//!   sees the change, or the changer sees the queue occupied and [wakes](WaitQueue::wake) who is in front, whose [`Park`](crate::Park)
//!   keeps the wake until it sleeps. Of those in front with the same [`Class`] it wakes the first, who wakes the next when it
//!   [leaves](WaitQueue::leave).
//! - **Q-I3** Who is in front stays in front until it leaves.
//! - **Q-I4** A waiter is passed at most as often as those who pass allow, by arrivals that it would exclude and that find the queue occupied: they count under the
//!   table's lock, at the first waiter that would exclude them. Who does not find it occupied came before. Arrivals that nobody who waits would exclude pass freely.
//! - **Q-I5** Nobody's code runs under the table's lock: wakers are kept behind a count of their own, and woken, cloned and dropped outside.
//!
//! # Orderings
//!
//! | letter | where | ordering | pairs with | needed by the model |
//! |---|---|---|---|---|
//! | D | between a change and the look at the counter | light barrier | E | `wait-and-wake`, `wakeup` |
//! | E | in `join`, between the counter and the first look | heavy barrier | D | `wait-and-wake`, `wakeup` |
//!
//! # Not promised
//! A wake may be spurious, and addresses may be reused: a late wake for a freed lock can reach a waiter of
//! a new one at the same address. Waiters look again after each sleep. A place that was forgotten keeps its entry, and holds up who comes behind it, until the
//! owner of the word [evicts](WaitQueue::evict) it.

use core::fmt;
use core::marker::PhantomData;
use core::ops::Range;
use core::task::Waker;

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::atomic::Ordering::Relaxed;
use crate::barrier::{self, Flag};
use crate::unwind::for_each_surely;
use crate::{Counters, DefaultPark, MutexGuard};

use bucket::{Bucket, Entry, Line, NOBODY};
#[cfg(any(spanlock_loom, spanlock_shuttle))]
use checked as world;
#[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
use shipped as world;

mod bucket;
#[cfg(any(spanlock_loom, spanlock_shuttle))]
mod checked;
#[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
mod shipped;

/// Where the waiters of a lock stand: a handle to the process's one table, or, under a checker, a table of
/// its own. `P` is how threads sleep. Eight bytes; with the feature `statistics` it has counters too.
pub struct WaitQueue<P = DefaultPark> {
    handle: Handle,
    counters: Counters,
    parking: PhantomData<fn() -> P>,
}

/// What is waited for: a lane of the word at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The word's address.
    pub word: usize,
    /// Which of its lanes; 0 in a word that has one.
    pub lane: u32,
}

/// Whom a waiter would exclude, once it has what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Exclusive ones only.
    Shared,
    /// Exclusive ones and other upgradable ones.
    Upgradable,
    /// Everybody.
    Exclusive,
}

/// Whom to wake: a [`Waker`] that was cloned already, so that a queue never has to.
#[derive(Clone, Debug)]
pub struct Listener(Arc<Waker>);

impl Listener {
    /// Clones the waker, which is its author's code.
    pub fn new(waker: &Waker) -> Self {
        Listener(Arc::new(waker.clone()))
    }

    /// Whether it is this one that is woken.
    pub fn is(&self, waker: &Waker) -> bool {
        self.0.will_wake(waker)
    }
}

/// A place in the queue of a [`Spot`]. Whoever drops it without [leaving](WaitQueue::leave) blocks all behind whom it would exclude.
#[derive(Debug)]
#[must_use = "a waiter that never leaves blocks those behind it"]
pub struct Place {
    spot: Spot,
    id: u64,
    /// Known to be in front: once true it stays true (Q-I3), as long as nobody is evicted.
    front: bool,
    evictions: usize,
    /// Which listener the entry has.
    listener: *const Waker,
}

// SAFETY: the pointer is compared, and leads nowhere.
unsafe impl Send for Place {}
// SAFETY: as above.
unsafe impl Sync for Place {}

impl Place {
    /// What it waits for.
    #[inline]
    pub fn spot(&self) -> Spot {
        self.spot
    }
}

/// Those who are to be woken now, outside of all locks and sections: it is their authors' code that runs then.
#[derive(Debug, Default)]
#[must_use = "who is not woken sleeps for ever"]
pub struct Calls([Option<Arc<Waker>>; 2]);

impl Calls {
    /// Whether there is nobody to wake.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// Wakes them: the second even if the first one's waker panics.
    pub fn wake(self) {
        for_each_surely(self.0.into_iter().flatten(), |waker| waker.wake_by_ref());
    }
}

impl WaitQueue {
    /// A queue that nobody stands in, of threads that wait as they do by [default](DefaultPark).
    pub fn new() -> Self {
        Self::default()
    }
}

impl<P> Default for WaitQueue<P> {
    /// A queue that nobody stands in.
    fn default() -> Self {
        WaitQueue {
            handle: Handle::default(),
            counters: Counters::default(),
            parking: PhantomData,
        }
    }
}

impl<P> WaitQueue<P> {
    /// The same queue, of threads that wait by `Q`.
    pub fn with_parking<Q>(self) -> WaitQueue<Q> {
        WaitQueue {
            handle: self.handle,
            counters: self.counters,
            parking: PhantomData,
        }
    }

    /// What has happened here, with the feature `statistics`: the queue counts waits and overtakes, and whoever takes words the acquisitions.
    #[inline]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Whether somebody may wait for a lane of the word at this address.
    ///
    /// After a change, "no" means that whoever waits for the word sees the change. "Yes" can be somebody at another word.
    #[inline]
    #[track_caller]
    pub fn is_occupied(&self, word: usize) -> bool {
        self.is_any_occupied() && self.is_this_occupied(word)
    }

    /// After a change: a light barrier (D), then whether somebody may wait at any word of this handle.
    #[inline]
    #[track_caller]
    pub fn is_any_occupied(&self) -> bool {
        // Light [D→E]. Relaxed: the table's lock orders what is found there.
        self.handle.waiters.is_raised(Relaxed)
    }

    /// Before a word is taken: whether somebody may wait at any word of this handle. Who is not told so came before.
    #[inline]
    pub fn may_be_occupied(&self) -> bool {
        self.handle.waiters.may_be_raised()
    }

    /// What [`is_occupied`](Self::is_occupied) says where [`is_any_occupied`](Self::is_any_occupied) or [`may_be_occupied`](Self::may_be_occupied) has
    /// said yes.
    #[inline]
    pub fn is_this_occupied(&self, word: usize) -> bool {
        self.handle.table.is_occupied(word)
    }

    /// Whether somebody waits for `spot`. A snapshot, for statistics and models; looked up.
    pub fn has_waiters(&self, spot: Spot) -> bool {
        let bucket = self.lock(spot);
        bucket.at(self.handle.number(), spot).is_some()
    }

    /// Joins the queue of `spot` and passes the heavy barrier (E): the look at the word comes after this.
    #[track_caller]
    pub fn join(&self, spot: Spot, class: Class, listener: &Listener) -> Place {
        self.counters.waits();
        let lock = self.handle.number_or_new();
        let mut bucket = self.lock(spot);
        let id = bucket.next_id;
        bucket.next_id += 1;
        let line = bucket.line_or_new(lock, spot);
        let front = line.first_against(class) == NOBODY;
        line.push(Entry {
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
            front,
            evictions: world::evictions(),
            listener: Arc::as_ptr(&listener.0),
        }
    }

    /// Whether `place` is in front, and so may take the lane; none if it was [evicted](Self::evict), and waits for nothing any more. From now on it is
    /// `listener` that is woken for it.
    pub fn is_in_front(&self, place: &mut Place, listener: &Listener) -> Option<bool> {
        let shown = Arc::as_ptr(&listener.0);
        if place.front && (place.evictions, place.listener) == (world::evictions(), shown) {
            return Some(true);
        }
        place.evictions = world::evictions();
        place.listener = shown;
        let mut bucket = self.lock(place.spot);
        let line = bucket.line(self.handle.number(), place.spot);
        place.front = false;
        let line = line?;
        let at = line.position(place.id)?;
        place.front = line.is_in_front(&line.entries[at]);
        let before = core::mem::replace(&mut line.entries[at].listener, listener.0.clone());
        drop(bucket);
        drop(before);
        Some(place.front)
    }

    /// Lets an arrival of this class take lanes of the word past those who wait for them: calls `take` with the end of those lanes whose first waiter that would exclude it was
    /// passed less than `patience` times, and counts one more pass for those up to where `take` says that it got.
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
        let lock = self.handle.number();
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

    /// Wakes who is in front in the queue of `spot`, the first of each class. They stay there.
    #[cold]
    #[track_caller]
    pub fn wake(&self, spot: Spot) {
        #[cfg(any(spanlock_loom, spanlock_shuttle))]
        if crate::check::drop_wake(core::panic::Location::caller()) {
            return;
        }
        let mut bucket = self.lock(spot);
        let line = bucket.line(self.handle.number(), spot);
        let calls = line.map(|line| line.calls(0));
        drop(bucket);
        if let Some(calls) = calls {
            calls.wake();
        }
    }

    /// Leaves the queue. Whom to wake, if `wake_next` says so: those behind it that are in front now.
    ///
    /// Who took the lane exclusively need not wake anybody: its release will.
    #[track_caller]
    pub fn leave(&self, place: Place, wake_next: bool) -> Calls {
        #[cfg(any(spanlock_loom, spanlock_shuttle))]
        let wake_next = wake_next && !crate::check::drop_wake(core::panic::Location::caller());
        let mut bucket = self.lock(place.spot);
        let Some(at_line) = bucket.at(self.handle.number(), place.spot) else {
            return Calls::default();
        };
        let line = &mut bucket.lines[at_line];
        let Some(at) = line.position(place.id) else {
            return Calls::default();
        };
        let gone = line.remove(at);
        let calls = if wake_next {
            line.calls(at)
        } else {
            Calls::default()
        };
        if line.entries.is_empty() {
            bucket.retire(at_line);
        }
        // It need not be seen at once: who misses it looks into the queue in vain.
        self.handle.waiters.lower();
        self.handle.table.lower(place.spot.word, 1);
        drop(bucket);
        drop(gone);
        calls
    }

    /// Ends all waiting at words whose addresses lie in `words`, because their memory is about to be given up: whoever still waits there is woken, and
    /// finds its place [gone](Self::is_in_front); who has forgotten its place leaves no ghost for the next owner of the address.
    pub fn evict(&self, words: Range<usize>) {
        let gone = self
            .handle
            .retire(|line| words.contains(&line.spot.word), &words);
        for entry in gone {
            entry.listener.wake_by_ref();
        }
    }

    fn lock(&self, spot: Spot) -> MutexGuard<'_, Bucket> {
        self.handle.table.bucket(spot.word).lock()
    }
}

/// What does not depend on how threads sleep.
#[derive(Default)]
struct Handle {
    /// How many stand at the words of this handle. Those who take a word look here first, because it lies beside what they have just looked
    /// at: the way through a hash to the bucket is as long as all the rest that they do.
    waiters: Flag,
    number: world::Number,
    table: world::Table,
}

impl Handle {
    /// Which lock's it is, if anybody has ever waited for it.
    fn number(&self) -> u32 {
        self.number.get()
    }

    fn number_or_new(&self) -> u32 {
        self.number.get_or_new()
    }

    /// Takes all away who stand in its lines that `gone` says, whose words lie in `words`.
    fn retire(&self, gone: impl Fn(&Line) -> bool, words: &Range<usize>) -> Vec<Entry> {
        let mut all = Vec::new();
        if !self.waiters.may_be_raised() {
            return all;
        }
        let lock = self.number();
        self.table.each_bucket(words, |bucket| {
            let mut lines = bucket.lock();
            let retired = lines.retire_all(|line| line.lock == lock && gone(line));
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

#[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
impl Drop for Handle {
    /// Nobody waits who has not forgotten it.
    fn drop(&mut self) {
        drop(self.retire(|_| true, &(0..usize::MAX)));
    }
}

/// Whether a model leaves out what the caller is about to wake, in a queue of its own: a site like a [wake](WaitQueue::wake). Never as shipped.
#[inline]
#[track_caller]
pub fn is_wake_left_out() -> bool {
    #[cfg(any(spanlock_loom, spanlock_shuttle))]
    return crate::check::drop_wake(core::panic::Location::caller());
    #[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
    false
}

impl<P> fmt::Debug for WaitQueue<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitQueue").finish_non_exhaustive()
    }
}
