//! The process's one table.

use core::ops::Range;

use super::Bucket;
use crate::Mutex;
use crate::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

const BUCKETS: usize = 256;

/// Two lines apart: x86 fetches lines in pairs.
#[repr(align(128))]
struct Padded(Mutex<Bucket>);

static TABLE: [Padded; BUCKETS] = [const { Padded(Mutex::new(Bucket::new())) }; BUCKETS];

/// How many stand in each bucket. Apart from the buckets, and close together: who finds that somebody waits for another word of its lock reads one, and
/// hardly anything writes them.
static OCCUPIED: [AtomicU32; BUCKETS] = [const { AtomicU32::new(0) }; BUCKETS];

/// How often anybody was evicted.
static EVICTIONS: AtomicUsize = AtomicUsize::new(0);

pub(super) fn evictions() -> usize {
    // Relaxed: who is evicted is woken after the count was raised, and looks again.
    EVICTIONS.load(Relaxed)
}

pub(super) fn note_evictions(count: usize) {
    // Relaxed: before the wakes, which order it.
    EVICTIONS.fetch_add(count, Relaxed);
}

/// What tells a lock from others that have waiters; 0 while it never had.
#[derive(Default)]
pub(super) struct Number(AtomicU32);

impl Number {
    pub(super) fn get(&self) -> u32 {
        // Relaxed: who asks for a lock's waiters holds their bucket's lock, as they did when they came.
        self.0.load(Relaxed)
    }

    pub(super) fn get_or_new(&self) -> u32 {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let known = self.get();
        if known != 0 {
            return known;
        }
        // Relaxed: only to be different. After 2³² locks that were waited for numbers come again, and then nothing but the ghosts of places
        // that were forgotten could be taken for those of another lock.
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
    // Fibonacci hashing: words are 4 or 8 bytes apart, the high bits of the product are mixed.
    let hash = (word as u64 >> 2).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (hash >> 56) as usize
}

#[derive(Default)]
pub(super) struct Table;

impl Table {
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

    pub(super) fn lower(&self, word: usize, by: u32) {
        // Relaxed: as the handle's own count.
        OCCUPIED[bucket_of(word)].fetch_sub(by, Relaxed);
    }

    /// Calls `f` with the buckets of words in a range; it says how many it has taken away.
    pub(super) fn each_bucket(
        &self,
        words: &Range<usize>,
        mut f: impl FnMut(&Mutex<Bucket>) -> u32,
    ) {
        let mut visit = |bucket: usize| {
            // Relaxed: whoever stands there by right is known to the caller, or has been forgotten.
            if OCCUPIED[bucket].load(Relaxed) != 0 {
                let gone = f(&TABLE[bucket].0);
                // Relaxed: as in `lower`.
                OCCUPIED[bucket].fetch_sub(gone, Relaxed);
            }
        };
        if words.len() <= size_of::<u64>() {
            visit(bucket_of(words.start));
        } else {
            (0..BUCKETS).for_each(visit);
        }
    }
}
