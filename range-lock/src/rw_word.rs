//! The reader-writer word: 32 bits that many readers or one writer hold.
//!
//! # The problem
//! A file system keeps a reader-writer lock a file, or one a segment: there may be millions. So a lock must be one
//! small word, and cost as little as can be while nobody competes. The word of [SRL] (§IV-B: a writer
//! bit, a reader count) is the start; a bit for the upgradable reader is ours. Nothing about waiting is in the word
//! ([`crate::words`], [`spanlock_sync::wait`]), so while a writer holds nobody else changes it, and the writer gives it back by a plain
//! store: one read-modify-write for a write, instead of two.
//!
//! # State
//!
//! ```text
//!   31      30       29                                          0
//!  ┌───────┬────────┬─────────────────────────────────────────────┐
//!  │WRITER │UPGRADER│                   READERS                   │
//!  └───────┴────────┴─────────────────────────────────────────────┘
//! ```
//!
//! | field | meaning | set, raised by | cleared, lowered by |
//! |---|---|---|---|
//! | `WRITER` | a writer holds; all else is 0 | that writer | that writer, by a store |
//! | `UPGRADER` | one of the readers is the upgradable one | that reader | that reader |
//! | `READERS` | how many readers hold, up to 2³⁰ − 1 | each reader | that reader |
//!
//! # Invariants
//! - **R-I1** `WRITER` is set only in a word without holders, and readers are counted only in a word without `WRITER`: by
//!   the compare-exchange that checks it. So a writer excludes everybody.
//! - **R-I2** While `WRITER` is set only its writer changes the word: all others change it by a compare-exchange from a word that admits them. So the
//!   writer's plain store loses nothing.
//!
//! Orderings A, B, C: [`crate::words`]. B is a store: it begins a release sequence that the readers' read-modify-writes continue, so a
//! writer that takes the word after two readers synchronises with both.
//!
//! # Models
//! In `verify/`, rows `rw-word/…` for what only this face shows, and all rows of the locks made of words.
//!
//! | pair of operations | properties |
//! |---|---|
//! | lock, unlock; lock, lock | `exclusion`, `exclusion-read-write`, `wakeup`, `exclusion-3`, `last-reader-wakes`, `queued-readers-share` |
//! | try, any | `visibility`, `readers-share`, `try-leaves-no-trace` |
//! | giving up, lock | `give-up`, `give-up-reader`, `give-up-writer` |
//! | downgrade, lock; upgrade, lock | `downgrade`, `upgrade` |
//! | overtaking | `bounded-overtaking` |
//! | read, read with a full count | `full-count` |
//!
//! That the queue is first come, first served is beyond what ends unbounded with two threads: it is tested
//! on real threads (`tests/rw_word.rs`), and for the queue alone in `sync/tests/wait.rs`.
//!
//! # Not promised
//! Recursion: a reader that reads again can wait behind a writer that waits for it.
//!
//! [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905

use spanlock_sync::atomic::{AtomicU32, Ordering::*, Zeroed};
use spanlock_sync::hint::scaled;
use spanlock_sync::injected_bug;

use crate::raw::Access;
use crate::words::{Run, Word};

const WRITER: u32 = 1 << 31;
const UPGRADER: u32 = 1 << 30;
const READERS: u32 = MAX_READERS;

/// How many readers may hold a word at once: 2³⁰ − 1, and 3 under a checker. One more waits.
pub const MAX_READERS: u32 = scaled(UPGRADER - 1, 3);

/// A reader-writer lock in 32 bits: what the whole-range locks and the segment locks are made of.
#[derive(Debug)]
#[repr(transparent)]
pub struct RwWord(AtomicU32);

// SAFETY: `RwWord` is an `AtomicU32` (repr(transparent)), which is `Zeroed`.
unsafe impl Zeroed for RwWord {
    fn zeroed() -> Self {
        RwWord::new()
    }
}

impl RwWord {
    /// A word that nobody holds.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        RwWord(AtomicU32::new(0))
    }

    /// The word as a run of its one lane.
    #[inline]
    pub fn run(&self) -> Run<'_, Self> {
        Run::new(self, 0, 1)
    }
}

// SAFETY: R-I1 excludes; A, B and C make the earlier happen before the later.
unsafe impl Word for RwWord {
    const LANES: u32 = 1;

    #[inline]
    fn take(&self, _first: u32, _end: u32, access: Access, _least: u32) -> u32 {
        if access == Access::Write {
            return loop {
                // Acquire [A→B, C], Relaxed on failure: as below.
                match self.0.compare_exchange_weak(0, WRITER, Acquire, Relaxed) {
                    Ok(_) => break 1,
                    // Spuriously.
                    Err(0) => {}
                    Err(_) => break 0,
                }
            };
        }
        // The usual case without a look: free.
        let mut seen = 0;
        while admits(seen, access) {
            let taken = seen + held(access);
            // Acquire [A→B, C]: pairs with the releases of the holds before. Relaxed on failure: nothing is read under it but the
            // word itself.
            match self.0.compare_exchange_weak(seen, taken, Acquire, Relaxed) {
                Ok(_) => return 1,
                Err(now) => seen = now,
            }
        }
        0
    }

    #[inline]
    unsafe fn give_back(&self, _first: u32, _end: u32, access: Access) -> bool {
        match access {
            Access::Write => {
                // Release [B→A]: what the writer did is seen by whoever takes the word next. A store: R-I2.
                self.0.store(0, Release);
                true
            }
            Access::Read => {
                // Release [C→A]: what the reader read, it read before the next writer writes.
                let before = if !injected_bug!(
                    "release-by-store",
                    "a reader releases a shared word by a load and a store, not by a read-modify-write",
                    killed_by = "rw-counter/readers-share, srl-array/readers-share, srl-tree/readers-share, \
                        rw-word/downgrade-upgradable, rw-word/give-up-reader"
                ) {
                    self.0.fetch_sub(1, Release)
                } else {
                    // Relaxed, Release: as one would write it; that these are two steps is the mistake.
                    let before = self.0.load(Relaxed);
                    self.0.store(before.wrapping_sub(1), Release);
                    before
                };
                // One in front waits for the last reader or, if it is a reader, for room in the count.
                matches!(before & READERS, 1 | READERS)
            }
            Access::Upgradable => {
                // Release [C→A]: as for any reader. One in front may wait for this one in particular.
                self.0.fetch_sub(held(access), Release);
                true
            }
        }
    }

    unsafe fn weaken(&self, _first: u32, _end: u32, from: Access, to: Access) {
        match from {
            // Release [B→A]: what the writer did is seen by the readers that this lets in. A store: R-I2.
            Access::Write => self.0.store(held(to), Release),
            // Release [C→A]: as the end of a read. Others hold the word too.
            Access::Upgradable | Access::Read => {
                self.0.fetch_sub(held(from) - held(to), Release);
            }
        }
    }

    unsafe fn strengthen(&self, _first: u32, _end: u32, from: Access) -> bool {
        // Acquire [A→C]: pairs with the releases of the other readers. Relaxed on failure: nothing is read
        // under it but the word itself.
        self.0
            .compare_exchange(held(from), WRITER, Acquire, Relaxed)
            .is_ok()
    }

    #[inline]
    fn free_until(&self, _first: u32, _end: u32, access: Access) -> u32 {
        // Acquire [A→B, C]: as in `take`.
        u32::from(self.0.load(Acquire) & conflicting(access) == 0)
    }
}

/// What one hold adds to the word.
#[inline]
const fn held(access: Access) -> u32 {
    match access {
        Access::Read => 1,
        Access::Upgradable => UPGRADER + 1,
        Access::Write => WRITER,
    }
}

/// What is in the word only while a hold conflicts.
#[inline]
const fn conflicting(access: Access) -> u32 {
    match access {
        Access::Read => WRITER,
        Access::Upgradable => WRITER | UPGRADER,
        Access::Write => u32::MAX,
    }
}

/// Whether the holds in `word` leave room for one more: R-I1.
#[inline]
const fn admits(word: u32, access: Access) -> bool {
    match access {
        Access::Read => word & WRITER == 0 && word & READERS < READERS,
        Access::Upgradable => word & (WRITER | UPGRADER) == 0 && word & READERS < READERS,
        Access::Write => word == 0,
    }
}

#[cfg(all(test, not(any(spanlock_loom, spanlock_shuttle))))]
mod tests {
    use super::*;
    use Access::{Read, Upgradable, Write};

    /// The count of readers is full at 2³⁰ − 1: one more waits, and does not become an upgradable one or a writer.
    #[test]
    fn a_full_count_of_readers() {
        let word = RwWord(AtomicU32::new(MAX_READERS));
        for access in [Read, Upgradable, Write] {
            assert_eq!(word.take(0, 1, access, 1), 0);
        }
        // Who takes nothing needs no room.
        assert_eq!(word.free_until(0, 1, Read), 1);
        assert_eq!(word.free_until(0, 1, Write), 0);
        // SAFETY: one of the readers goes.
        assert!(unsafe { word.give_back(0, 1, Read) }, "there is room again");
        assert_eq!(word.take(0, 1, Upgradable, 1), 1);
        assert_eq!(word.take(0, 1, Read, 1), 0);
    }
}
