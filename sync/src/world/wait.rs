//! The process's one waiting table.

use core::ops::Range;
use core::time::Duration;

use super::mutex::Mutex;
use crate::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use crate::wait::bucket::Bucket;

pub use super::bug::is_wake_left_out;

/// The table outlives the locks, so a lock that is dropped removes forgotten waiters.
pub(crate) const OUTLIVES_LOCKS: bool = true;

const BUCKETS: usize = 256;

/// A bucket that shares no pair of cache lines with another, because x86 fetches lines in pairs.
#[repr(align(128))]
struct Padded(Mutex<Bucket>);

static TABLE: [Padded; BUCKETS] = [const { Padded(Mutex::new(Bucket::new())) }; BUCKETS];

/// The counters of a bucket. Those of waiters and queues cannot overflow: each waiter has an
/// address of its own.
struct Counts {
    /// How many waiters the bucket has. An arrival reads it when some word of its lock has a
    /// waiter.
    waiters: AtomicUsize,
    /// How many of the bucket's queues have a waiter at the head that is asleep. A thread that
    /// changes a word reads it when some word of its lock has such a queue.
    armed: AtomicUsize,
    /// How many arrivals may pass all waiters of the bucket without being counted, because they
    /// were counted in advance.
    credits: AtomicU32,
}

/// The waiters and armed queues are rarely written, so the counters of all buckets lie close
/// together, apart from the buckets.
static COUNTS: [Counts; BUCKETS] = [const {
    Counts {
        waiters: AtomicUsize::new(0),
        armed: AtomicUsize::new(0),
        credits: AtomicU32::new(0),
    }
}; BUCKETS];

/// A moment of the system's clock. Without a clock, every moment is long past.
#[cfg(feature = "std")]
#[derive(Clone, Copy)]
pub(crate) struct Moment(Option<std::time::Instant>);

#[cfg(feature = "std")]
impl Moment {
    pub(crate) fn now() -> Self {
        Moment(crate::time::now())
    }

    /// Returns whether this moment is longer ago than `time`.
    pub(crate) fn is_past(self, time: Duration) -> bool {
        (self.0).is_none_or(|moment| crate::time::elapsed(moment) > time)
    }
}

/// Without std there is no clock: every moment is long past.
#[cfg(not(any(feature = "std", spanlock_kernel)))]
#[derive(Clone, Copy)]
pub(crate) struct Moment;

#[cfg(not(any(feature = "std", spanlock_kernel)))]
impl Moment {
    pub(crate) fn now() -> Self {
        Moment
    }

    pub(crate) fn is_past(self, _time: Duration) -> bool {
        true
    }
}

/// A moment of the kernel's monotonic clock, in nanoseconds.
#[cfg(spanlock_kernel)]
#[derive(Clone, Copy)]
pub(crate) struct Moment(u64);

#[cfg(spanlock_kernel)]
impl Moment {
    pub(crate) fn now() -> Self {
        Moment(super::kernel::now())
    }

    /// Returns whether this moment is longer ago than `time`.
    pub(crate) fn is_past(self, time: Duration) -> bool {
        u128::from(super::kernel::now().saturating_sub(self.0)) > time.as_nanos()
    }
}

#[cfg(all(
    target_os = "linux",
    feature = "std",
    not(any(miri, spanlock_simulated))
))]
pub(in crate::world) mod fork;

/// Returns a number that distinguishes the calling thread from the other living threads. Without
/// std, it is the same for all.
#[cfg(all(feature = "std", not(spanlock_simulated)))]
pub(crate) fn thread() -> usize {
    std::thread_local! { static PLACE: core::cell::Cell<u8> = const { core::cell::Cell::new(0) }; }
    PLACE.with(|place| core::ptr::from_ref(place).addr())
}

#[cfg(not(feature = "std"))]
pub(crate) fn thread() -> usize {
    0
}

#[cfg(spanlock_simulated)]
pub(crate) use spanlock_cores::core as thread;

/// A number that distinguishes locks. It is 0 until the lock has its first waiter.
#[derive(Default)]
pub(crate) struct Number(AtomicU32);

impl Number {
    pub(crate) fn get(&self) -> u32 {
        // Relaxed: each waiter reads the number before it locks the bucket to join. A thread that
        // finds the waiter in the bucket has locked that bucket after the waiter did, so it reads
        // the same number. (`Handle::retire` reads the number before it locks the bucket. But its
        // caller already knows of every waiter that still waits.)
        self.0.load(Relaxed)
    }

    pub(crate) fn get_or_new(&self) -> u32 {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let known = self.get();
        if known != 0 {
            return known;
        }
        // Relaxed: only the number's uniqueness matters. After 2³² locks with waiters, numbers
        // repeat. Even then, only a forgotten waiter could be mistaken for a waiter of another
        // lock.
        let new = LAST.fetch_add(1, Relaxed).wrapping_add(1).max(1);
        // Relaxed, both: as in `get`.
        match self.0.compare_exchange(0, new, Relaxed, Relaxed) {
            Ok(_) => new,
            Err(known) => known,
        }
    }
}

#[inline]
fn bucket_of(word: usize) -> usize {
    // Fibonacci hashing. Words are at least 4 bytes apart, so the two lowest bits are left out. The
    // high bits of the product are well mixed.
    let hash = (word as u64 >> 2).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (hash >> 56) as usize
}

#[derive(Default)]
pub(crate) struct Table;

impl Table {
    pub(crate) fn bucket(&self, word: usize) -> &'static Mutex<Bucket> {
        &TABLE[bucket_of(word)].0
    }

    /// Out of line, because a thread calls it only when some word of its lock has a waiter.
    #[cold]
    pub(crate) fn is_occupied(&self, word: usize) -> bool {
        // Relaxed: a hint for arrivals.
        COUNTS[bucket_of(word)].waiters.load(Relaxed) != 0
    }

    /// Out of line, because a thread calls it only when some word of its lock has an armed queue.
    #[cold]
    pub(crate) fn is_armed(&self, word: usize) -> bool {
        // Relaxed: ordered in the same way as the handle's count (see `wait.rs`).
        COUNTS[bucket_of(word)].armed.load(Relaxed) != 0
    }

    /// Counts one more waiter. The caller has locked the bucket.
    pub(crate) fn raise(&self, word: usize) {
        // Relaxed: a hint for arrivals.
        COUNTS[bucket_of(word)].waiters.fetch_add(1, Relaxed);
    }

    pub(crate) fn lower(&self, word: usize) {
        // Relaxed: as above.
        COUNTS[bucket_of(word)].waiters.fetch_sub(1, Relaxed);
    }

    /// Counts one more armed queue. The caller has locked the bucket.
    pub(crate) fn arm(&self, word: usize) {
        // Relaxed: ordered in the same way as the handle's count (see `wait.rs`).
        COUNTS[bucket_of(word)].armed.fetch_add(1, Relaxed);
    }

    pub(crate) fn disarm(&self, word: usize) {
        // Relaxed: as above.
        COUNTS[bucket_of(word)].armed.fetch_sub(1, Relaxed);
    }

    /// Takes back the credits that are left, and returns their number. The caller has locked the
    /// bucket.
    pub(crate) fn take_back_credits(&self, word: usize) -> u32 {
        let credits = &COUNTS[bucket_of(word)].credits;
        // Relaxed, both: credits are added under the bucket's lock only, so none is overlooked.
        if credits.load(Relaxed) == 0 {
            return 0;
        }
        credits.swap(0, Relaxed)
    }

    /// Returns whether credits are left. The caller has locked the bucket.
    pub(crate) fn has_credits(&self, word: usize) -> bool {
        // Relaxed: as in `take_back_credits`.
        COUNTS[bucket_of(word)].credits.load(Relaxed) != 0
    }

    /// Adds credits. The caller has locked the bucket, has counted them, and has found none left.
    pub(crate) fn add_credits(&self, word: usize, credits: u32) {
        // Relaxed: a credit publishes nothing; only the number matters.
        COUNTS[bucket_of(word)].credits.fetch_add(credits, Relaxed);
    }

    /// Takes a credit, if there is one.
    pub(crate) fn take_credit(&self, word: usize) -> bool {
        // Relaxed, all: as above.
        let less = |credits: u32| credits.checked_sub(1);
        (COUNTS[bucket_of(word)]
            .credits
            .fetch_update(Relaxed, Relaxed, less))
        .is_ok()
    }

    /// Returns the buckets of the words in a range that have waiters.
    pub(crate) fn buckets(
        &self,
        words: &Range<usize>,
    ) -> impl Iterator<Item = &'static Mutex<Bucket>> + use<> {
        // Words lie at least this far apart.
        const WORD: usize = size_of::<u32>();
        let words = words.clone();
        let few = words.len() <= 2 * WORD;
        let hashed = (few.then(|| words.step_by(WORD).map(bucket_of)).into_iter()).flatten();
        let all = (!few).then_some(0..BUCKETS).into_iter().flatten();
        // Relaxed: the caller knows of every waiter that still waits. All others were forgotten.
        let occupied = |&bucket: &usize| COUNTS[bucket].waiters.load(Relaxed) != 0;
        (hashed.chain(all).filter(occupied)).map(|bucket| &TABLE[bucket].0)
    }
}
