//! The process's one waiting table.

use core::ops::Range;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

use super::mutex::Mutex;
use crate::wait::bucket::Bucket;

pub use super::bug::is_wake_left_out;

/// The table outlives the locks, so a lock that is dropped removes the entries of forgotten places.
pub(crate) const OUTLIVES_LOCKS: bool = true;

const BUCKETS: usize = 256;

/// A bucket that shares no pair of cache lines with another, because x86 fetches lines in pairs.
#[repr(align(128))]
struct Padded(Mutex<Bucket>);

static TABLE: [Padded; BUCKETS] = [const { Padded(Mutex::new(Bucket::new())) }; BUCKETS];

/// How many waiters each bucket has. A thread reads one of these counters when some word of its
/// lock has a waiter. The counters are rarely written, so they lie close together, apart from the
/// buckets.
static OCCUPIED: [AtomicU32; BUCKETS] = [const { AtomicU32::new(0) }; BUCKETS];

/// How many waiters were evicted.
static EVICTIONS: AtomicUsize = AtomicUsize::new(0);

pub(crate) fn evictions() -> usize {
    // Relaxed: an evicted waiter is woken after the count was raised, and rechecks then.
    EVICTIONS.load(Relaxed)
}

pub(crate) fn note_evictions(count: usize) {
    // Relaxed: the wakes that follow order the increment.
    EVICTIONS.fetch_add(count, Relaxed);
}

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
        // repeat. Even then, only a forgotten place could be mistaken for a place of another lock.
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
        // Relaxed: ordered in the same way as the handle's count (see `wait.rs`).
        OCCUPIED[bucket_of(word)].load(Relaxed) != 0
    }

    pub(crate) fn raise(&self, word: usize) {
        // Relaxed: ordered in the same way as the handle's count (see `wait.rs`).
        OCCUPIED[bucket_of(word)].fetch_add(1, Relaxed);
    }

    pub(crate) fn lower(&self, word: usize, by: u32) {
        // Relaxed: ordered in the same way as the handle's count (see `wait.rs`).
        OCCUPIED[bucket_of(word)].fetch_sub(by, Relaxed);
    }

    /// Calls `f` with the buckets of the words in a range. `f` returns how many waiters it has
    /// removed.
    pub(crate) fn each_bucket(
        &self,
        words: &Range<usize>,
        mut f: impl FnMut(&Mutex<Bucket>) -> u32,
    ) {
        let visit = |bucket: usize| {
            // Relaxed: the caller knows of every waiter that still waits. All other entries are
            // those of forgotten places.
            if OCCUPIED[bucket].load(Relaxed) != 0 {
                let gone = f(&TABLE[bucket].0);
                // Relaxed: as in `lower`.
                OCCUPIED[bucket].fetch_sub(gone, Relaxed);
            }
        };
        // Words lie at least this far apart.
        const WORD: usize = size_of::<u32>();
        if words.len() <= 2 * WORD {
            words.clone().step_by(WORD).map(bucket_of).for_each(visit);
        } else {
            (0..BUCKETS).for_each(visit);
        }
    }
}
