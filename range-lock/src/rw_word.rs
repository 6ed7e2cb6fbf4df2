//! The reader-writer word: 32 bits, held by many readers or one writer.
//!
//! # The problem
//! A file system keeps one reader-writer lock for each file, or one for each segment: there may be
//! millions. So a lock must be one small word, and as cheap as possible while uncontended. The word
//! of [SRL] (§IV-B: a writer bit and a reader count) is the starting point; this crate adds a bit
//! for the upgradable reader. The word stores nothing about waiting ([`crate::words`],
//! [`spanlock_sync::wait`]). So while a writer holds it, no other thread changes it, and the writer
//! releases it by a plain store: a write takes one read-modify-write instead of two.
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
//! | field | meaning | set or raised by | cleared or lowered by |
//! |---|---|---|---|
//! | `WRITER` | a writer holds; all other bits are 0 | that writer | that writer, by a store |
//! | `UPGRADER` | one of the readers is upgradable | that reader | that reader |
//! | `READERS` | the number of readers, up to 2³⁰ − 1 | each reader | that reader |
//!
//! # Invariants
//! - **R-I1** `WRITER` is set only in a word without holders, and readers are counted only in a
//!   word without `WRITER`. The compare-exchange that makes the change checks this. So a writer
//!   excludes everybody else.
//! - **R-I2** While `WRITER` is set, only its writer changes the word: every other thread uses a
//!   compare-exchange that expects a word without a conflicting holder. So the writer's plain store
//!   overwrites no other change.
//!
//! The orderings A, B and C are those of [`crate::words`]. B is a store and C a read-modify-write.
//! Each heads a release sequence that the readers' read-modify-writes continue. So a reader that
//! acquires the word after other readers still synchronizes with the writer before them, and a
//! writer that acquires it after two readers synchronizes with both.
//!
//! # Models
//! `cargo verify` rows `rw-word/…` cover this word alone, and the rows of all locks made of words
//! cover it too.
//!
//! | pair of operations | properties |
//! |---|---|
//! | lock, unlock | `exclusion`, `exclusion-read-write`, `exclusion-3`, `wakeup` |
//! | lock, lock | `last-reader-wakes`, `queued-readers-share` |
//! | try, any | `visibility`, `readers-share`, `try-leaves-no-trace` |
//! | giving up, lock | `give-up`, `give-up-reader`, `give-up-writer` |
//! | downgrade, lock; upgrade, lock | `downgrade`, `upgrade` |
//! | overtaking | `bounded-overtaking` |
//! | read, read with a full count | `full-count` |
//!
//! A search for violations of first-come, first-served order does not finish without bounds, even
//! with two threads. Tests on real threads check the order instead (`tests/rw_word.rs`), and
//! `sync/tests/facade/wait.rs` checks the queue alone.
//!
//! # Not guaranteed
//! Recursion: a reader that reads again can wait behind a writer that waits for that reader.
//!
//! [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905

use spanlock_sync::atomic::{AtomicU32, Ordering::*, Zeroed};
use spanlock_sync::hint::scaled;
use spanlock_sync::{const_if_shipped, injected_bug};

use crate::raw::Access;
use crate::words::{Run, Word};

const WRITER: u32 = 1 << 31;
const UPGRADER: u32 = 1 << 30;
const READERS: u32 = MAX_READERS;

/// The number of readers that may hold a word at once: 2³⁰ − 1, and 3 under a checker. Any further
/// reader waits.
pub const MAX_READERS: u32 = scaled(UPGRADER - 1, 3);

/// A reader-writer lock in 32 bits, from which the whole-range locks and the segment locks are
/// built.
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
    const_if_shipped! {
        /// Returns a word without holders.
        #[allow(clippy::new_without_default)]
        pub fn new() -> Self {
            RwWord(AtomicU32::new(0))
        }
    }

    /// Returns the word's one lane as a run.
    #[inline]
    pub fn run(&self) -> Run<'_, Self> {
        Run::new(self, 0, 1)
    }
}

// SAFETY: R-I1 provides exclusion; A, B and C provide happens-before.
unsafe impl Word for RwWord {
    const LANES: u32 = 1;
    const READERS: u32 = MAX_READERS;

    #[inline]
    fn take(&self, _first: u32, _end: u32, access: Access, _least: u32) -> u32 {
        if access == Access::Write {
            return loop {
                // Acquire [A→B, C], Relaxed on failure: as below.
                match self.0.compare_exchange_weak(0, WRITER, Acquire, Relaxed) {
                    Ok(_) => break 1,
                    // A spurious failure.
                    Err(0) => {}
                    Err(_) => break 0,
                }
            };
        }
        // Guess that the word is free instead of loading it first.
        let mut seen = 0;
        while admits(seen, access) {
            let taken = seen + held(access);
            // Acquire [A→B, C]: pairs with the releases of earlier holds. Relaxed on failure: a
            // failure reads nothing but the word itself.
            match self.0.compare_exchange_weak(seen, taken, Acquire, Relaxed) {
                Ok(_) => return 1,
                Err(now) => seen = now,
            }
        }
        0
    }

    #[inline]
    unsafe fn release(&self, _first: u32, _end: u32, access: Access) -> bool {
        match access {
            Access::Write => {
                // Release [B→A]: publishes the writer's changes to the next holder. A store
                // suffices: R-I2.
                self.0.store(0, Release);
                true
            }
            Access::Read => {
                // Release [C→A]: orders the reader's reads before the next writer's writes.
                let before = if !injected_bug!(
                    "release-by-store",
                    "a reader releases a shared word by a load and a store, not by a read-modify-write",
                    killed_by = "rw-counter/readers-share, srl-array/readers-share, srl-tree/readers-share, \
                        rw-word/downgrade-upgradable, rw-word/give-up-reader"
                ) {
                    self.0.fetch_sub(1, Release)
                } else {
                    // Relaxed, Release: strong enough; the injected bug is to take two steps.
                    let before = self.0.load(Relaxed);
                    self.0.store(before.wrapping_sub(1), Release);
                    before
                };
                // The head of the queue waits for the last reader or, if it is a reader, for room
                // in the count.
                matches!(before & READERS, 1 | READERS)
            }
            Access::Upgradable => {
                // Release [C→A]: as for any reader. The head of the queue may wait for this one in
                // particular.
                self.0.fetch_sub(held(access), Release);
                true
            }
        }
    }

    unsafe fn downgrade(&self, _first: u32, _end: u32, from: Access, to: Access) {
        match from {
            // Release [B→A]: publishes the writer's changes to the readers it lets in. A store
            // suffices: R-I2.
            Access::Write => self.0.store(held(to), Release),
            // Release [C→A]: as at the end of a read. Other readers hold the word too.
            Access::Upgradable | Access::Read => {
                self.0.fetch_sub(held(from) - held(to), Release);
            }
        }
    }

    unsafe fn try_upgrade(&self, _first: u32, _end: u32, from: Access) -> bool {
        // Acquire [A→C]: pairs with the releases of the other readers. Relaxed on failure: a
        // failure reads nothing but the word itself.
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

/// Returns what one hold adds to the word.
#[inline]
const fn held(access: Access) -> u32 {
    match access {
        Access::Read => 1,
        Access::Upgradable => UPGRADER + 1,
        Access::Write => WRITER,
    }
}

/// Returns the bits that are set only while a conflicting hold exists.
#[inline]
const fn conflicting(access: Access) -> u32 {
    match access {
        Access::Read => WRITER,
        Access::Upgradable => WRITER | UPGRADER,
        Access::Write => u32::MAX,
    }
}

/// Returns whether the holds in `word` leave room for one more: R-I1.
#[inline]
const fn admits(word: u32, access: Access) -> bool {
    match access {
        Access::Read => word & WRITER == 0 && word & READERS < READERS,
        Access::Upgradable => word & (WRITER | UPGRADER) == 0 && word & READERS < READERS,
        Access::Write => word == 0,
    }
}

#[cfg(all(test, not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))))]
mod tests {
    use super::*;
    use Access::{Read, Upgradable, Write};

    /// At 2³⁰ − 1 the reader count is full: nobody else gets in, with any access, until a reader
    /// leaves.
    #[test]
    fn a_full_reader_count_admits_nobody() {
        let word = RwWord(AtomicU32::new(MAX_READERS));
        for access in [Read, Upgradable, Write] {
            assert_eq!(word.take(0, 1, access, 1), 0);
        }
        // `free_until` acquires nothing, so it needs no room.
        assert_eq!(word.free_until(0, 1, Read), 1);
        assert_eq!(word.free_until(0, 1, Write), 0);
        // SAFETY: the word counts this reader, which leaves now.
        assert!(unsafe { word.release(0, 1, Read) }, "there is room again");
        assert_eq!(word.take(0, 1, Upgradable, 1), 1);
        assert_eq!(word.take(0, 1, Read, 1), 0);
    }
}
