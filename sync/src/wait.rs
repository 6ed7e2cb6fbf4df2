//! Waiting for a word: first-come-first-served queues in a table outside of the words.
//!
//! # The problem
//! A lock word has 32 or 64 bits and no room for a queue, and there may be millions of them. So waiters
//! stand in a table outside, keyed by the word's address: like a futex, with four differences.
//! The order of the queue is the caller's to use: only the *head* of a queue competes for the word, all others
//! sleep. A waiter is a [`Waker`]: a thread's ([`Park`](crate::Park)) or a future's. A word may hold the states of
//! several things, its *lanes*, each with a queue of its own. And who changes a word learns whether
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
//! An arrival that finds the queue occupied may still [go past](WaitQueue::pass) the head, a limited number of times for each head.
//!
//! # Invariants
//! - **Q-I1** The queues of a word are occupied while anybody stands in one of them. (They may be while nobody does: words share counters.)
//! - **Q-I2** No wake is lost. Both sides store, pass a barrier, and load what the other stored: so either the waiter's look
//!   sees the change, or the changer sees the queue occupied and wakes the head, whose [`Park`](crate::Park)
//!   keeps the wake until it sleeps.
//! - **Q-I3** A head stays the head until it leaves.
//! - **Q-I4** A head is passed at most as often as those who pass allow, by arrivals that find the queue occupied: they count under the
//!   table's lock. Who does not find it so came before.
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
//! owner of the word [evicts](evict) it.

use core::fmt;
use core::marker::PhantomData;
use core::ops::Range;
use core::task::Waker;

use alloc::collections::VecDeque;

#[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
use crate::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use crate::barrier::{self, Flag};
use crate::{Counters, DefaultPark, Mutex, MutexGuard};

/// Where waiters stand: a handle to the process's one table, or, under a checker, a table of
/// its own. `P` is how threads sleep. Four bytes; with the feature `statistics` it has counters too.
pub struct WaitQueue<P = DefaultPark> {
    /// How many stand at the words of this handle. Those who take a word look here first, because it lies beside what they have just looked
    /// at: the way through a hash to the bucket is as long as all the rest that they do.
    waiters: Flag,
    table: world::Table,
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

/// A place in the queue of a [`Spot`]. Whoever drops it without [leaving](WaitQueue::leave) blocks all behind it.
#[derive(Debug)]
#[must_use = "a waiter that never leaves blocks all behind it"]
pub struct Place {
    spot: Spot,
    id: u64,
    /// Known to be the head: once true it stays true (Q-I3), as long as nobody is evicted.
    head: bool,
    evictions: usize,
    /// Whose wake the entry holds: what `will_wake` would compare. The entry keeps it alive, so no other waker has it.
    waker: (usize, usize),
}

/// What tells wakers apart.
fn identity(waker: &Waker) -> (usize, usize) {
    (
        waker.data().addr(),
        core::ptr::from_ref(waker.vtable()).addr(),
    )
}

impl Place {
    /// What it waits for.
    #[inline]
    pub fn spot(&self) -> Spot {
        self.spot
    }
}

struct Entry {
    spot: Spot,
    id: u64,
    /// How many arrivals went past it while it was the head.
    passes: u32,
    waker: Waker,
}

/// Queues of several spots, interleaved in order of arrival.
struct Bucket {
    entries: VecDeque<Entry>,
    next_id: u64,
}

impl Bucket {
    const fn new() -> Self {
        Bucket {
            entries: VecDeque::new(),
            next_id: 0,
        }
    }

    fn head(&mut self, spot: Spot) -> Option<&mut Entry> {
        self.entries.iter_mut().find(|entry| entry.spot == spot)
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
            waiters: Flag::default(),
            table: world::Table::new(),
            counters: Counters::default(),
            parking: PhantomData,
        }
    }
}

impl<P> WaitQueue<P> {
    /// The same queue, of threads that wait by `Q`.
    pub fn with_parking<Q>(self) -> WaitQueue<Q> {
        WaitQueue {
            waiters: self.waiters,
            table: self.table,
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
        // Light [D→E].
        self.waiters.is_raised()
    }

    /// Before a word is taken: whether somebody may wait at any word of this handle. Who is not told so came before.
    #[inline]
    pub fn may_be_occupied(&self) -> bool {
        self.waiters.may_be_raised()
    }

    /// What [`is_occupied`](Self::is_occupied) says where [`is_any_occupied`](Self::is_any_occupied) or [`may_be_occupied`](Self::may_be_occupied) has
    /// said yes.
    #[inline]
    pub fn is_this_occupied(&self, word: usize) -> bool {
        self.table.is_occupied(word)
    }

    /// Whether somebody waits for `spot`. A snapshot, for statistics and models; looked up.
    pub fn has_waiters(&self, spot: Spot) -> bool {
        self.lock(spot).head(spot).is_some()
    }

    /// Joins the queue of `spot` and passes the heavy barrier (E): the look at the word comes after this.
    #[track_caller]
    pub fn join(&self, spot: Spot, waker: &Waker) -> Place {
        self.counters.waits();
        // Cloned before the lock, as it is woken and dropped after it: it is the user's code.
        let kept = waker.clone();
        let waker = identity(&kept);
        let mut bucket = self.lock(spot);
        let id = bucket.next_id;
        bucket.next_id += 1;
        let head = bucket.head(spot).is_none();
        bucket.entries.push_back(Entry {
            spot,
            id,
            passes: 0,
            waker: kept,
        });
        // The barrier E below orders both; the bucket's lock orders them with other waiters (Q-I1).
        self.waiters.raise();
        self.table.raise(spot.word);
        drop(bucket);
        // Heavy [E→D].
        barrier::heavy();
        Place {
            spot,
            id,
            head,
            evictions: world::evictions(),
            waker,
        }
    }

    /// Whether `place` is the head, the one that may take the lane; none if it was [evicted](evict), and waits for nothing any more. From now on it is
    /// `waker` that is woken for it.
    pub fn is_head(&self, place: &mut Place, waker: &Waker) -> Option<bool> {
        let known = (place.evictions, place.waker) == (world::evictions(), identity(waker));
        if place.head && known {
            return Some(true);
        }
        // First: the user's code, which may panic.
        let mut kept = waker.clone();
        place.evictions = world::evictions();
        place.waker = identity(&kept);
        let mut bucket = self.lock(place.spot);
        let head = bucket.head(place.spot);
        place.head = head.is_some_and(|head| head.id == place.id);
        let mine = bucket
            .entries
            .iter_mut()
            .find(|entry| entry.id == place.id)?;
        core::mem::swap(&mut mine.waker, &mut kept);
        drop(bucket);
        Some(place.head)
    }

    /// Lets an arrival take lanes of the word past those who wait for them: calls `take` with the end of those lanes whose heads were passed
    /// less than `patience` times, and counts one more pass for the heads up to where `take` says that it got.
    pub fn pass(
        &self,
        word: usize,
        lanes: Range<u32>,
        patience: u32,
        take: impl FnOnce(u32) -> u32,
    ) -> u32 {
        let spot = |lane| Spot { word, lane };
        let mut bucket = self.lock(spot(0));
        let shut = |bucket: &mut Bucket, lane| {
            let head = bucket.head(spot(lane));
            head.is_some_and(|head| head.passes >= patience)
        };
        let open = lanes.clone().find(|&lane| shut(&mut bucket, lane));
        let end = take(open.unwrap_or(lanes.end));
        for lane in lanes.start..end {
            if let Some(head) = bucket.head(spot(lane)) {
                head.passes += 1;
                self.counters.overtakes();
            }
        }
        end
    }

    /// Wakes the head of the queue of `spot`, if there is one. It stays the head.
    #[cold]
    #[track_caller]
    pub fn wake_head(&self, spot: Spot) {
        #[cfg(any(spanlock_loom, spanlock_shuttle))]
        if crate::check::drop_wake(core::panic::Location::caller()) {
            return;
        }
        let waker = self.lock(spot).head(spot).map(|head| head.waker.clone());
        // Outside the lock: a future's waker runs its executor's code.
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Leaves the queue. If this was the head, the new head is woken if `wake_next` says so.
    ///
    /// A head that took the lane exclusively need not wake anybody: its release will.
    #[track_caller]
    pub fn leave(&self, place: Place, wake_next: bool) {
        #[cfg(any(spanlock_loom, spanlock_shuttle))]
        let wake_next = wake_next && !crate::check::drop_wake(core::panic::Location::caller());
        let mut bucket = self.lock(place.spot);
        // It need not be seen at once: who misses it looks into the queue in vain. Of one that was evicted, too.
        self.waiters.lower();
        let mut queue = bucket.entries.iter();
        let Some(at) = queue.position(|entry| entry.id == place.id) else {
            return;
        };
        let was_head = bucket
            .entries
            .iter()
            .take(at)
            .all(|entry| entry.spot != place.spot);
        let gone = bucket.entries.remove(at);
        self.table.lower(place.spot.word);
        let next = bucket.head(place.spot).filter(|_| was_head && wake_next);
        let next = next.map(|next| next.waker.clone());
        drop(bucket);
        drop(gone);
        if let Some(waker) = next {
            waker.wake();
        }
    }

    fn lock(&self, spot: Spot) -> MutexGuard<'_, Bucket> {
        self.table.bucket(spot.word).lock()
    }
}

/// Ends all waiting at words whose addresses lie in `words`, because their memory is about to be given up: whoever still waits there is woken, and
/// finds its place [gone](WaitQueue::is_head); who has forgotten its place leaves no ghost for the next owner of the address. (Its handle counts it for ever: that
/// costs a look at the bucket, no more.)
///
/// Under a checker a queue's table goes with it, and nothing is to be done.
pub fn evict(words: Range<usize>) {
    world::evict(words);
}

impl<P> fmt::Debug for WaitQueue<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitQueue").finish_non_exhaustive()
    }
}

#[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
mod world {
    use alloc::vec::Vec;
    use core::ops::Range;
    use core::task::Waker;

    use super::{AtomicU32, AtomicUsize, Bucket, Mutex, Relaxed};

    const BUCKETS: usize = 256;

    /// Two lines apart: x86 fetches lines in pairs.
    #[repr(align(128))]
    struct Padded(Mutex<Bucket>);

    static TABLE: [Padded; BUCKETS] = [const { Padded(Mutex::new(Bucket::new())) }; BUCKETS];

    /// How many stand in each bucket. Apart from the buckets, and close together: every release reads one, and
    /// hardly anything writes them.
    static OCCUPIED: [AtomicU32; BUCKETS] = [const { AtomicU32::new(0) }; BUCKETS];

    pub(super) struct Table;

    /// How often anybody was evicted.
    static EVICTIONS: AtomicUsize = AtomicUsize::new(0);

    pub(super) fn evictions() -> usize {
        // Relaxed: who is evicted is woken after the count was raised, and looks again.
        EVICTIONS.load(Relaxed)
    }

    pub(super) fn evict(words: Range<usize>) {
        if words.len() <= size_of::<u64>() {
            evict_from(bucket_of(words.start), &words);
        } else {
            (0..BUCKETS).for_each(|bucket| evict_from(bucket, &words));
        }
    }

    fn evict_from(bucket: usize, words: &Range<usize>) {
        // Relaxed: whoever stands there by right is known to the caller, or has been forgotten.
        if OCCUPIED[bucket].load(Relaxed) == 0 {
            return;
        }
        let mut evicted: Vec<Waker> = Vec::new();
        let mut queues = TABLE[bucket].0.lock();
        queues.entries.retain(|entry| {
            let stays = !words.contains(&entry.spot.word);
            if !stays {
                evicted.push(entry.waker.clone());
            }
            stays
        });
        // Relaxed: as in `leave`.
        OCCUPIED[bucket].fetch_sub(evicted.len() as u32, Relaxed);
        drop(queues);
        // Relaxed: before the wakes, which order it.
        EVICTIONS.fetch_add(evicted.len(), Relaxed);
        evicted.into_iter().for_each(Waker::wake);
    }

    #[inline]
    fn bucket_of(word: usize) -> usize {
        // Fibonacci hashing: words are 4 or 8 bytes apart, the high bits of the product are mixed.
        let hash = (word as u64 >> 2).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (hash >> 56) as usize
    }

    impl Table {
        pub(super) fn new() -> Self {
            Table
        }

        pub(super) fn bucket(&self, word: usize) -> &'static Mutex<Bucket> {
            &TABLE[bucket_of(word)].0
        }

        /// Out of line: who comes here has found that somebody waits for some word of his lock.
        #[cold]
        pub(super) fn is_occupied(&self, word: usize) -> bool {
            // Relaxed: as the handle's own count.
            OCCUPIED[bucket_of(word)].load(Relaxed) != 0
        }

        pub(super) fn raise(&self, word: usize) {
            // Relaxed: as the handle's own count.
            OCCUPIED[bucket_of(word)].fetch_add(1, Relaxed);
        }

        pub(super) fn lower(&self, word: usize) {
            // Relaxed: as the handle's own count.
            OCCUPIED[bucket_of(word)].fetch_sub(1, Relaxed);
        }
    }
}

#[cfg(any(spanlock_loom, spanlock_shuttle))]
mod world {
    use super::{Bucket, Mutex};

    pub(super) fn evict(_words: core::ops::Range<usize>) {}

    pub(super) fn evictions() -> usize {
        0
    }

    /// One bucket for every address: as if all hashes collided. So the handle's own count says all.
    pub(super) struct Table {
        bucket: Mutex<Bucket>,
    }

    impl Table {
        pub(super) fn new() -> Self {
            Table {
                bucket: Mutex::new(Bucket::new()),
            }
        }

        pub(super) fn bucket(&self, _word: usize) -> &Mutex<Bucket> {
            &self.bucket
        }

        #[inline]
        pub(super) fn is_occupied(&self, _word: usize) -> bool {
            true
        }

        pub(super) fn raise(&self, _word: usize) {}

        pub(super) fn lower(&self, _word: usize) {}
    }
}
