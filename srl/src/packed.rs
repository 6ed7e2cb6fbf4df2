//! The packed form of segment states: sixteen neighbouring segments in one 64-bit word.
//!
//! # The problem
//! A word a segment costs a read-modify-write a segment: a request of a megabyte pays for 256 of them. Packed, one compare-exchange takes as many
//! as sixteen neighbouring segments at once, and one store or read-modify-write gives them back.
//!
//! # What that costs
//! A lane has four bits: **six readers**, of whom one may be upgradable, can hold a segment at once. One more waits, as for a writer; the count never wraps. And neighbours share
//! a word, hence a cache line that they would else share eight at a time, hence also failed compare-exchanges while both are busy.
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
//!  ┌──────┬─────────────────────┐     0000  nobody         1rrr  r readers (1 ≤ r ≤ 6), one of them upgradable
//!  │  U   │       READERS       │     0rrr  r readers      1111  a writer
//!  └──────┴─────────────────────┘                          0111, 1000  never
//! ```
//!
//! # Invariants
//! - **K-I1** A lane is `1111` exactly while a writer holds it; it becomes so from `0000` only, or from the one reader that is upgraded, by a compare-exchange.
//! - **K-I2** Otherwise `READERS` counts all who hold it, the upgradable one too, and is at most 6: they are added by a compare-exchange that checks it, and an upgradable
//!   reader that goes on as a plain one is counted already. So no lane carries into the next, and `READERS` is 0 only if nobody holds it.
//! - **K-I3** While a writer holds *every* lane, nobody else changes the word: it gives back by a plain store. Who holds fewer gives back by a
//!   read-modify-write.
//!
//! Orderings A, B, C: [`spanlock_range_lock::words`].
//!
//! # Models
//! In `verify/`, rows `packed-word/…` of the word alone, whose orderings the gate around it would hide, and `srl-packed/…`; that a lane with six readers lets a seventh wait, and those who
//! leave or are downgraded let the right ones in: `full-lane`.

use spanlock_range_lock::Access;
use spanlock_range_lock::words::Word;
use spanlock_sync::atomic::{AtomicU64, Ordering::*, Zeroed};
use spanlock_sync::injected_bug;

/// Bits of a lane.
const BITS: u32 = 4;
/// How many lanes a word has.
const LANES: u32 = u64::BITS / BITS;
/// The lowest bit of every lane.
const EACH: u64 = 0x1111_1111_1111_1111;
/// What a reader, the upgradable one, and a writer add to a lane.
const READER: u64 = 0b0001;
const UPGRADER: u64 = 0b1001;
const WRITER: u64 = 0b1111;

/// How many readers may hold a segment at once, the upgradable one among them. One more waits.
pub const MAX_READERS: u32 = 6;

/// The states of sixteen neighbouring segments in 64 bits. See the [module](self).
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
    /// A word that nobody holds any lane of.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        PackedWord(AtomicU64::new(0))
    }

    /// [`take`](Word::take), when the word was `word`.
    #[inline]
    fn take_from(&self, mut word: u64, first: u32, end: u32, access: Access, least: u32) -> u32 {
        loop {
            let open = until(refused(word, access), first, end);
            if open - first < least {
                return first;
            }
            let taken = word + lanes(first, open) * held(access);
            // Acquire [A→B, C]: pairs with the releases of the holds before. Relaxed on failure: nothing is read
            // under it but the word itself.
            match self.0.compare_exchange_weak(word, taken, Acquire, Relaxed) {
                Ok(_) => return open,
                Err(now) => word = now,
            }
        }
    }

    /// As [`take_from`](Self::take_from), out of the way of those who find every lane free.
    #[cold]
    #[inline(never)]
    fn take_found(&self, now: u64, first: u32, end: u32, access: Access, least: u32) -> u32 {
        self.take_from(now, first, end, access, least)
    }
}

/// The lowest bits of the lanes `first..end`, at least one.
#[inline]
const fn lanes(first: u32, end: u32) -> u64 {
    (EACH >> ((LANES - (end - first)) * BITS)) << (first * BITS)
}

/// What a hold adds to each lane.
#[inline]
const fn held(access: Access) -> u64 {
    match access {
        Access::Read => READER,
        Access::Upgradable => UPGRADER,
        Access::Write => WRITER,
    }
}

/// The lowest bits of those lanes of `word` of which a hold conflicts.
#[inline]
const fn conflicting(word: u64, access: Access) -> u64 {
    let conflicting = match access {
        // Seven is a writer's (K-I2).
        Access::Read => word & (word >> 1) & (word >> 2),
        // A writer has that bit too.
        Access::Upgradable => word >> 3,
        // Whoever holds it is counted, or has all bits.
        Access::Write => word | word >> 1 | word >> 2,
    };
    conflicting & EACH
}

/// The lowest bits of those lanes of `word` in which there is no room for one more reader: of six or seven, a writer's.
#[inline]
const fn full(word: u64) -> u64 {
    (word >> 1) & (word >> 2) & EACH
}

/// The lowest bits of those lanes of `word` that cannot be taken.
#[inline]
const fn refused(word: u64, access: Access) -> u64 {
    match access {
        // What conflicts is full too.
        Access::Read => full(word),
        Access::Upgradable => full(word) | conflicting(word, access),
        Access::Write => conflicting(word, access),
    }
}

/// The first of the lanes `first..end` that is one of `lowest`, which are lowest bits of lanes; `end` if none is.
#[inline]
const fn until(lowest: u64, first: u32, end: u32) -> u32 {
    let lowest = lowest & lanes(first, end);
    if lowest == 0 {
        end
    } else {
        lowest.trailing_zeros() / BITS
    }
}

// SAFETY: K-I1 and K-I2 exclude; A, B and C make the earlier happen before the later.
unsafe impl Word for PackedWord {
    const LANES: u32 = LANES;

    #[inline]
    fn take(&self, first: u32, end: u32, access: Access, least: u32) -> u32 {
        if end - first == LANES {
            // Whoever takes every lane finds them free as a rule, and need not look.
            let taken = EACH * held(access);
            // Acquire [A→B, C], Relaxed on failure: as in `take_from`.
            return match self.0.compare_exchange(0, taken, Acquire, Relaxed) {
                Ok(_) => end,
                Err(now) => self.take_found(now, first, end, access, least),
            };
        }
        // Relaxed: a first guess; the compare-exchange decides.
        self.take_from(self.0.load(Relaxed), first, end, access, least)
    }

    #[inline]
    unsafe fn release(&self, first: u32, end: u32, access: Access) -> bool {
        if access == Access::Write && end - first == LANES {
            // Release [B→A]: what the writer did is seen by whoever takes a lane next. A store: K-I3.
            self.0.store(0, Release);
            return true;
        }
        let mine = lanes(first, end);
        // Release [B→A], [C→A]: what was done under the hold is seen by whoever takes the lanes next.
        let before = if !injected_bug!(
            "release-by-store",
            "lanes of a shared word are released by a load and a store, not by a read-modify-write",
            killed_by = "readers-share, exclusion, exclusion-read-write"
        ) {
            self.0.fetch_sub(mine * held(access), Release)
        } else {
            // Relaxed, Release: as one would write it; that these are two steps is the mistake.
            let before = self.0.load(Relaxed);
            self.0
                .store(before.wrapping_sub(mine * held(access)), Release);
            before
        };
        match access {
            // One in front waits for the last of its lane or, if it is a reader, for room in the count.
            Access::Read => {
                let last = before & !(before >> 1) & !(before >> 2);
                (last | full(before)) & mine != 0
            }
            // Or for this one in particular.
            Access::Upgradable | Access::Write => true,
        }
    }

    unsafe fn downgrade(&self, first: u32, end: u32, from: Access, to: Access) {
        let less = held(from) - held(to);
        // Release [B→A], [C→A]: what was done under the hold is seen by whom this lets in.
        self.0.fetch_sub(lanes(first, end) * less, Release);
    }

    unsafe fn try_upgrade(&self, first: u32, end: u32, from: Access) -> bool {
        let mine = lanes(first, end);
        // Relaxed: a first guess; the compare-exchange decides.
        let mut word = self.0.load(Relaxed);
        while word & (mine * WRITER) == mine * held(from) {
            let taken = word | (mine * WRITER);
            // Acquire [A→C]: pairs with the releases of the other readers. Relaxed on failure: nothing is read
            // under it but the word itself.
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

#[cfg(all(test, not(any(spanlock_loom, spanlock_shuttle))))]
mod tests;
