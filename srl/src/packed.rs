//! The packed encoding: the states of sixteen neighbouring segments in one 64-bit word.
//!
//! # The problem
//! With one word per segment, a request for a megabyte needs 256 read-modify-writes. With packed
//! words, one compare-exchange takes up to sixteen neighbouring segments, and one store or
//! read-modify-write releases them.
//!
//! # What it costs
//! A segment's state is a **lane** of four bits. Three of them count readers, and a count of 7
//! means a writer. So at most **six readers**, one of them possibly upgradable, can hold a segment
//! at the same time. A seventh reader waits, as it would for a writer; the count never wraps.
//! Sixteen neighbours share a word, so a change of one segment can make a compare-exchange for
//! another fail. A cache line holds 128 segments instead of 16, so more threads contend for it.
//!
//! # State
//!
//! ```text
//!   63       60 59       56            7         4 3         0
//!  ┌───────────┬───────────┬────────┬─────────────┬───────────┐
//!  │  lane 15  │  lane 14  │   …    │   lane 1    │  lane 0   │
//!  └───────────┴───────────┴────────┴─────────────┴───────────┘
//!
//!      3      2      1      0
//!  ┌──────┬─────────────────────┐     0000  free           1rrr  r readers, one upgradable
//!  │  U   │       READERS       │     0rrr  r readers      1111  a writer
//!  └──────┴─────────────────────┘     (1 ≤ r ≤ 6)          0111, 1000  never
//! ```
//!
//! | change of a lane | made by | operation |
//! |---|---|---|
//! | takes: adds `0001` (reader), `1001` (upgradable), `1111` (writer) | taker | compare-exchange |
//! | upgrades: the state of the only reader becomes `1111` | that reader | compare-exchange |
//! | releases: subtracts the value that was added | holder | fetch-sub |
//! | downgrades: subtracts the difference of the two accesses | holder | fetch-sub |
//! | releases all sixteen lanes: stores 0 | their writer | store |
//!
//! # Invariants
//! - **K-I1** A lane is `1111` exactly while a writer holds it. Only a compare-exchange makes a
//!   lane `1111`: from `0000`, or from the state of a single reader, which upgrades.
//! - **K-I2** In a lane without a writer, `READERS` counts all readers, including the upgradable
//!   one, and is at most 6. The compare-exchange that adds a reader checks this. An upgradable
//!   reader that downgrades is already counted. So no lane carries into the next, and `READERS` is
//!   0 only in a free lane.
//! - **K-I3** While a writer holds *every* lane, no other thread changes the word, so the writer
//!   releases it by a plain store. A holder of fewer lanes releases them by a read-modify-write.
//!
//! For the orderings A, B and C see [`spanlock_range_lock::words`].
//!
//! # Models
//! Rows `packed-word/…` of `cargo verify` check the word alone. The gate of the lock would hide
//! wrong orderings of the word. Rows `srl-packed/…` check the lock. There, `full-lane` and
//! `full-lane-downgrade` check that a seventh reader of a lane waits, and that a reader which
//! leaves or downgrades admits the right waiters.

use spanlock_range_lock::Access;
use spanlock_range_lock::words::Word;
use spanlock_sync::atomic::{AtomicU64, Ordering::*, Zeroed};
use spanlock_sync::injected_bug;

/// The bits of a lane.
const BITS: u32 = 4;
/// The number of lanes in a word.
const LANES: u32 = u64::BITS / BITS;
/// The lowest bit of every lane.
const EACH: u64 = 0x1111_1111_1111_1111;
/// The value that a reader adds to a lane.
const READER: u64 = 0b0001;
/// The value that an upgradable reader adds to a lane.
const UPGRADER: u64 = 0b1001;
/// The value that a writer adds to a lane.
const WRITER: u64 = 0b1111;

/// The number of readers that can hold a segment at the same time, including the upgradable one.
pub const MAX_READERS: u32 = 6;

/// The states of sixteen neighbouring segments, in 64 bits. See the [module](self).
#[derive(Debug)]
#[repr(transparent)]
pub struct PackedWord(AtomicU64);

// SAFETY: `PackedWord` is an `AtomicU64` (repr(transparent)), which is `Zeroed`.
unsafe impl Zeroed for PackedWord {
    fn zeroed() -> Self {
        PackedWord::new()
    }
}

impl PackedWord {
    /// Creates a word in which every lane is free.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        PackedWord(AtomicU64::new(0))
    }

    /// Does what [`take`](Word::take) does, but starts from `word`, a value that was read before.
    #[inline]
    fn take_from(&self, mut word: u64, first: u32, end: u32, access: Access, least: u32) -> u32 {
        loop {
            let open = until(refused(word, access), first, end);
            if open - first < least {
                return first;
            }
            let taken = word + lanes(first, open) * held(access);
            // Acquire [A→B, C]: pairs with the releases of earlier holds. Relaxed on failure:
            // nothing but the word itself is read then.
            match self.0.compare_exchange_weak(word, taken, Acquire, Relaxed) {
                Ok(_) => return open,
                Err(now) => word = now,
            }
        }
    }

    /// Calls [`take_from`](Self::take_from). Not inlined, to keep the loop out of the fast path.
    #[cold]
    #[inline(never)]
    fn take_found(&self, now: u64, first: u32, end: u32, access: Access, least: u32) -> u32 {
        self.take_from(now, first, end, access, least)
    }
}

/// Returns the lowest bit of each of the lanes `first..end`. There must be at least one lane.
#[inline]
const fn lanes(first: u32, end: u32) -> u64 {
    (EACH >> ((LANES - (end - first)) * BITS)) << (first * BITS)
}

/// Returns the value that a hold adds to each lane.
#[inline]
const fn held(access: Access) -> u64 {
    match access {
        Access::Read => READER,
        Access::Upgradable => UPGRADER,
        Access::Write => WRITER,
    }
}

/// Returns the lowest bit of each lane of `word` that has a conflicting hold.
#[inline]
const fn conflicting(word: u64, access: Access) -> u64 {
    let conflicting = match access {
        // A count of seven means a writer (K-I2).
        Access::Read => word & (word >> 1) & (word >> 2),
        // A writer sets bit U too.
        Access::Upgradable => word >> 3,
        // Every reader is counted, and a writer sets all bits.
        Access::Write => word | word >> 1 | word >> 2,
    };
    conflicting & EACH
}

/// Returns the lowest bit of each lane of `word` without room for one more reader.
///
/// These are the lanes with six readers, and those with a writer, which read as seven.
#[inline]
const fn full(word: u64) -> u64 {
    (word >> 1) & (word >> 2) & EACH
}

/// Returns the lowest bit of each lane of `word` that cannot be taken.
#[inline]
const fn refused(word: u64, access: Access) -> u64 {
    match access {
        // A lane with a writer counts as full.
        Access::Read => full(word),
        Access::Upgradable => full(word) | conflicting(word, access),
        Access::Write => conflicting(word, access),
    }
}

/// Returns the first of the lanes `first..end` whose lowest bit is set in `lowest`, or `end`.
#[inline]
const fn until(lowest: u64, first: u32, end: u32) -> u32 {
    let lowest = lowest & lanes(first, end);
    if lowest == 0 {
        end
    } else {
        lowest.trailing_zeros() / BITS
    }
}

// SAFETY: conflicting holds exclude each other (K-I1, K-I2). By A, B and C, the earlier hold
// happens-before the later one.
unsafe impl Word for PackedWord {
    const LANES: u32 = LANES;
    const READERS: u32 = MAX_READERS;

    #[inline]
    fn take(&self, first: u32, end: u32, access: Access, least: u32) -> u32 {
        let taken = lanes(first, end) * held(access);
        // Guess that the word is free instead of loading it first: a load would have to wait for
        // this thread's last read-modify-write of the word.
        // Acquire [A→B, C], Relaxed on failure: as in `take_from`.
        match self.0.compare_exchange(0, taken, Acquire, Relaxed) {
            Ok(_) => end,
            Err(now) => self.take_found(now, first, end, access, least),
        }
    }

    #[inline]
    unsafe fn release(&self, first: u32, end: u32, access: Access) -> bool {
        if access == Access::Write && end - first == LANES {
            // Release [B→A]: the next holder of a lane sees what the writer did. K-I3 allows a
            // store.
            self.0.store(0, Release);
            return true;
        }
        let mine = lanes(first, end);
        // Release [B→A], [C→A]: the next holder of a lane sees what was done under this hold.
        let before = if !injected_bug!(
            "release-by-store",
            "a holder releases lanes of a shared word by a load and a store",
            killed_by = "readers-share, exclusion, exclusion-read-write"
        ) {
            self.0.fetch_sub(mine * held(access), Release)
        } else {
            // Relaxed, Release: the orderings are right. The bug is that there are two steps.
            let before = self.0.load(Relaxed);
            self.0
                .store(before.wrapping_sub(mine * held(access)), Release);
            before
        };
        match access {
            // A writer at the head of a lane's queue waits for the last reader to leave. A reader
            // there waits for room in the count.
            Access::Read => {
                let last = before & !(before >> 1) & !(before >> 2);
                (last | full(before)) & mine != 0
            }
            // The head of the queue may wait for this holder.
            Access::Upgradable | Access::Write => true,
        }
    }

    unsafe fn downgrade(&self, first: u32, end: u32, from: Access, to: Access) {
        let less = held(from) - held(to);
        // Release [B→A], [C→A]: a request that the downgrade admits sees what was done under the
        // hold.
        self.0.fetch_sub(lanes(first, end) * less, Release);
    }

    unsafe fn try_upgrade(&self, first: u32, end: u32, from: Access) -> bool {
        let mine = lanes(first, end);
        // Relaxed: only a first guess; the compare-exchange decides.
        let mut word = self.0.load(Relaxed);
        while word & (mine * WRITER) == mine * held(from) {
            let taken = word | (mine * WRITER);
            // Acquire [A→C]: pairs with the releases of the other readers. Relaxed on failure:
            // nothing but the word itself is read then.
            match self.0.compare_exchange_weak(word, taken, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    #[inline]
    fn free_until(&self, first: u32, end: u32, access: Access) -> u32 {
        // Acquire [A→B, C]: as in `take`.
        until(conflicting(self.0.load(Acquire), access), first, end)
    }
}

#[cfg(all(test, not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))))]
mod tests;
