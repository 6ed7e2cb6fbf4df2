//! The reader-writer word: 32 bits that many readers or one writer hold, with bounded overtaking.
//!
//! # The problem
//! A file system keeps a reader-writer lock a file, or one a segment: there may be millions. So a lock must be one
//! small word, cost one read-modify-write to take and one to give back while nobody competes, and still
//! neither starve a writer under a rain of readers nor burn a core in waiting. The word of [SRL] (§IV-B: a writer
//! bit, a reader count; "aging" is named there as the remedy against starvation, not built) is the start;
//! the two fields in the middle are ours.
//!
//! # State
//!
//! ```text
//!   31      30      29        24   23       22                     0
//!  ┌───────┬───────┬────────────┬──────────┬────────────────────────┐
//!  │WRITER │QUEUED │   PASSES   │ UPGRADER │        READERS         │
//!  └───────┴───────┴────────────┴──────────┴────────────────────────┘
//! ```
//!
//! | field | meaning | set, raised by | cleared, lowered by |
//! |---|---|---|---|
//! | `WRITER` | a writer holds | that writer (W1) | that writer (W2) |
//! | `UPGRADER` | one of the readers is the upgradable one | that reader (W1) | that reader (W3) |
//! | `READERS` | how many readers hold, up to 2²³ − 1 | each reader (W1) | that reader (W3) |
//! | `QUEUED` | somebody stands in the queue of this word | the first waiter to join (W4) | the last to leave (W5) |
//! | `PASSES` | arrivals that took the word past the queue's head | each such arrival (W1) | the head, when it takes the word (W1); the last to leave (W5) |
//!
//! # How it is taken
//! An arrival takes a free word by one compare-exchange. If it cannot, it spins a little, then joins the
//! word's queue ([`spanlock_sync::wait`]). While the queue is not empty,
//!
//! - its **head** takes the word as soon as no conflicting hold is left;
//! - an **arrival** may still take it past the head, which is what keeps a contended lock fast (the head may
//!   be asleep), but each one raises `PASSES`, and at [`MAX_PASSES`] the door is shut: arrivals join the queue.
//!
//! Everything else follows: the queue is first come, first served; the head is never passed more than
//! [`MAX_PASSES`] times; a request with *w* waiters before it sees at most (*w* + 1) · `MAX_PASSES` later
//! arrivals go first.
//!
//! # Invariants
//! - **W-I1** `WRITER` is set only in a word without holders, and readers are counted only in a word without `WRITER`: by
//!   the compare-exchange that checks it. So a writer excludes everybody.
//! - **W-I2** `QUEUED` is set exactly while somebody stands in the word's queue, as seen under the queue's lock.
//! - **W-I3** `PASSES` is 0 while `QUEUED` is clear.
//! - **W-I4** No wake is lost: a release is a read-modify-write that returns `QUEUED`, so it either comes before the waiter's
//!   setting of that bit (whose look then sees the release) or wakes the head. All in one word: no fence.
//! - **W-I5** The head sleeps only if a conflicting hold exists, and the release that ends the last one wakes it.
//!
//! # Orderings
//!
//! | letter | where | ordering | pairs with | needed by the model |
//! |---|---|---|---|---|
//! | A | compare-exchange that takes the word (three sites), or upgrades | Acquire | B, C | `give-up`, `exclusion`, `visibility`, `upgrade` |
//! | B | `fetch_sub` that ends a write, or downgrades it | Release | A | `give-up`, `exclusion`, `visibility`, `downgrade` |
//! | C | `fetch_sub` that ends a read | Release | A | `exclusion-read-write` (a writer after a reader) |
//!
//! Every change of the word is a read-modify-write, so B and C head release sequences that no other
//! operation breaks: a writer that takes the word after two readers synchronises with both.
//! All else is Relaxed, and says why. That each of A, B, C and each wake is needed is a test: `verify/tests/mutants.rs`
//! weakens or drops one at a time.
//!
//! # Models
//! In `verify/`, rows `rw-word/…` for what only this face shows, and all rows of the locks made of words.
//!
//! | pair of operations | properties |
//! |---|---|
//! | lock, unlock; lock, lock | `exclusion`, `exclusion-read-write`, `wakeup`, `exclusion-3`, `last-reader-wakes`, `queued-readers-share` |
//! | try, any | `visibility`, `readers-share`, `try-leaves-no-trace` |
//! | deadline, lock | `give-up`, `give-up-reader`, `give-up-writer` |
//! | downgrade, lock; upgrade, lock | `downgrade`, `upgrade` |
//! | overtaking | `bounded-overtaking` |
//! | read, read with a full count | `full-count` |
//!
//! That the queue is first come, first served behind its head is beyond what ends unbounded with two threads: it is tested
//! on real threads (`tests/rw_word.rs`), and for the queue alone in `sync/tests/wait.rs`.
//!
//! # Not promised
//! Recursion: a reader that reads again can wait behind a writer that waits for it.
//!
//! [SRL]: https://doi.org/10.1109/ACCESS.2021.3054905

use std::time::Instant;

use spanlock_sync::atomic::{AtomicU32, Ordering::*, Zeroed};
use spanlock_sync::hint::{Backoff, scaled};
use spanlock_sync::wait::WaitQueue;
use spanlock_sync::{Parker, Wakeup};

use crate::raw::Access;

const WRITER: u32 = 1 << 31;
const QUEUED: u32 = 1 << 30;
const ONE_PASS: u32 = 1 << 24;
const PASSES: u32 = QUEUED - ONE_PASS;
const UPGRADER: u32 = 1 << 23;
const READERS: u32 = MAX_READERS;

/// How many readers may hold a word at once: 2²³ − 1, and 3 under a checker. One more waits.
pub const MAX_READERS: u32 = scaled(UPGRADER - 1, 3);

/// How many arrivals may take the word past the head of its queue: 32, and 1 under a checker.
pub const MAX_PASSES: u32 = scaled(32, 1);

const _: () = assert!(MAX_PASSES * ONE_PASS <= PASSES);

/// A reader-writer lock in 32 bits: what the whole-range locks and the segment locks are made of.
///
/// The queue is given to each call, because a lock of many words has one [`WaitQueue`] for all. It must be
/// the same one for all calls on a word.
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

    /// Takes the word; blocks until no conflicting hold is left. Ordering: Acquire.
    #[inline]
    pub fn lock(&self, access: Access, queue: &WaitQueue) {
        if !self.take_free(access) {
            let taken = self.lock_slow(access, queue, None);
            debug_assert!(taken, "a wait without deadline ends with the word taken");
        }
    }

    /// Takes the word if no conflicting hold stands in the way, and the door is not shut for a waiter.
    /// Ordering: Acquire on success.
    #[inline]
    pub fn try_lock(&self, access: Access) -> bool {
        self.take_free(access) || self.take_as_arrival(access)
    }

    /// As [`lock`](Self::lock), but gives up when `deadline` has passed: false, and no trace is left.
    #[inline]
    pub fn lock_until(&self, access: Access, queue: &WaitQueue, deadline: Instant) -> bool {
        self.take_free(access) || self.lock_slow(access, queue, Some(deadline))
    }

    /// Gives a hold back and wakes the head of the queue if that frees its way. Ordering: Release.
    ///
    /// # Safety
    /// The caller holds the word with `access`, and gives that hold up.
    #[inline]
    pub unsafe fn unlock(&self, access: Access, queue: &WaitQueue) {
        let freed = match access {
            Access::Write => {
                // Release [B→A]: what the writer did is seen by whoever takes the word next. (W2)
                self.0.fetch_sub(WRITER, Release) & QUEUED != 0
            }
            Access::Read => {
                // Release [C→A]: what the reader read, it read before the next writer writes. (W3)
                let before = self.0.fetch_sub(1, Release);
                // The head waits for the last reader, or, if it is a reader, for room in the count.
                before & QUEUED != 0 && matches!(before & READERS, 1 | READERS)
            }
            Access::Upgradable => {
                // Release [C→A]: as for any reader. The head may wait for this one in particular. (W3)
                self.0.fetch_sub(held(access), Release) & QUEUED != 0
            }
        };
        if freed {
            queue.wake_head(self.key());
        }
    }

    /// Turns a hold with `from` into one with `to`, which excludes less, and wakes the head of the queue, whom
    /// that may let in. Ordering: Release.
    ///
    /// # Safety
    /// The caller holds the word with `from`, which is [`Access::Write`], or [`Access::Upgradable`] with `to` being
    /// [`Access::Read`].
    #[inline]
    pub unsafe fn downgrade(&self, from: Access, to: Access, queue: &WaitQueue) {
        let less = held(from) - held(to);
        // Release [B→A]: what the writer did is seen by the readers that this lets in. (W1, W2)
        if self.0.fetch_sub(less, Release) & QUEUED != 0 {
            queue.wake_head(self.key());
        }
    }

    /// Turns a hold with `from` into an exclusive one if nobody else holds the word, before all who wait.
    /// Ordering: Acquire on success.
    ///
    /// # Safety
    /// The caller holds the word with `from`, [`Access::Read`] or [`Access::Upgradable`].
    #[inline]
    pub unsafe fn try_upgrade(&self, from: Access) -> bool {
        // Relaxed: a first guess; the compare-exchange decides.
        let mut word = self.0.load(Relaxed);
        while word & (WRITER | UPGRADER | READERS) == held(from) {
            let writer = word - held(from) + WRITER;
            // Acquire [A→C]: pairs with the releases of the other readers. Relaxed on failure: nothing is read
            // under it but the word itself. (W1)
            match self.0.compare_exchange_weak(word, writer, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Whether somebody stands in the word's queue. A snapshot, for statistics and models.
    pub fn has_waiters(&self) -> bool {
        // Relaxed: nothing follows from it.
        self.0.load(Relaxed) & QUEUED != 0
    }

    /// The address names the word's queue.
    fn key(&self) -> usize {
        self as *const Self as usize
    }

    /// The usual case in one step, without a look: nobody holds, nobody waits. (W1)
    #[inline]
    fn take_free(&self, access: Access) -> bool {
        // Acquire [A→B, C]: pairs with the releases of the holds before. Relaxed on failure: nothing
        // is read under it but the word itself.
        self.0
            .compare_exchange(0, held(access), Acquire, Relaxed)
            .is_ok()
    }

    /// Takes the word unless a conflicting hold or the shut door stands in the way, counting the pass if
    /// somebody is queued. (W1)
    fn take_as_arrival(&self, access: Access) -> bool {
        // Relaxed: a first guess; the compare-exchange decides.
        let mut word = self.0.load(Relaxed);
        while admits(word, access) && word & PASSES < MAX_PASSES * ONE_PASS {
            let pass = if word & QUEUED != 0 { ONE_PASS } else { 0 };
            // Acquire [A→B, C] as in `take_free`; Relaxed on failure, for the same reason.
            match self
                .0
                .compare_exchange_weak(word, word + held(access) + pass, Acquire, Relaxed)
            {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Takes the word unless a conflicting hold stands in the way, and opens the door again. (W1)
    ///
    /// For the head of the queue alone.
    fn take_as_head(&self, access: Access) -> bool {
        // Relaxed: a first guess; the compare-exchange decides.
        let mut word = self.0.load(Relaxed);
        while admits(word, access) {
            let taken = (word & !PASSES) + held(access);
            // Acquire [A→B, C] as in `take_free`; Relaxed on failure, for the same reason.
            match self.0.compare_exchange_weak(word, taken, Acquire, Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    #[cold]
    fn lock_slow(&self, access: Access, queue: &WaitQueue, deadline: Option<Instant>) -> bool {
        let mut spin = Backoff::new();
        loop {
            if self.take_as_arrival(access) {
                return true;
            }
            if !spin.round() {
                return self.wait(access, queue, deadline);
            }
        }
    }

    /// Joins the queue, and leaves it with the word taken, or empty-handed when `deadline` has passed.
    fn wait(&self, access: Access, queue: &WaitQueue, deadline: Option<Instant>) -> bool {
        Parker::with(|parker| {
            let set_bit = || {
                // Relaxed: the queue's lock orders it with other waiters, and the word is one (W-I4). (W4)
                self.0.fetch_or(QUEUED, Relaxed);
            };
            let clear_bit = || {
                // Relaxed: as above. A read-modify-write, so that it breaks no release sequence. (W5)
                self.0.fetch_and(!(QUEUED | PASSES), Relaxed);
            };
            let mut waiter = queue.join(self.key(), parker.waker(), set_bit);
            loop {
                if waiter.is_head() && self.take_as_head(access) {
                    // Behind a reader the next may be a reader too. Behind a writer all wait for its release.
                    waiter.leave(access != Access::Write, clear_bit);
                    return true;
                }
                if parker.park(deadline) == Wakeup::TimedOut {
                    // The next may be one whom only this waiter held up.
                    waiter.leave(true, clear_bit);
                    return false;
                }
            }
        })
    }
}

/// Takes every word, in the order given, waiting for one at a time. Ordering: Acquire.
///
/// Requests whose words are given in one global order never wait for each other in a circle.
#[inline]
pub fn lock_all<'a>(words: impl Iterator<Item = &'a RwWord>, access: Access, queue: &WaitQueue) {
    for word in words {
        word.lock(access, queue);
    }
}

/// Takes every word, or none: at the first that is not to be had, gives back those before it. Ordering:
/// Acquire on success.
#[inline]
pub fn try_lock_all<'a>(
    words: impl Iterator<Item = &'a RwWord> + Clone,
    access: Access,
    queue: &WaitQueue,
) -> bool {
    let Some(busy) = words.clone().position(|word| !word.try_lock(access)) else {
        return true;
    };
    for word in words.take(busy) {
        // SAFETY: the words before the busy one were taken just now, and are given up.
        unsafe { word.unlock(access, queue) }
    }
    false
}

/// Gives every word back and wakes whom that unblocks. Ordering: Release.
///
/// # Safety
/// The caller holds every word with `access`, and gives those holds up.
#[inline]
pub unsafe fn unlock_all<'a>(
    words: impl Iterator<Item = &'a RwWord>,
    access: Access,
    queue: &WaitQueue,
) {
    for word in words {
        // SAFETY: the caller's promise, word by word.
        unsafe { word.unlock(access, queue) }
    }
}

/// Turns holds of every word into holds that exclude less. Ordering: Release.
///
/// # Safety
/// As [`RwWord::downgrade`], for every word.
pub unsafe fn downgrade_all<'a>(
    words: impl Iterator<Item = &'a RwWord>,
    from: Access,
    to: Access,
    queue: &WaitQueue,
) {
    for word in words {
        // SAFETY: the caller's promise, word by word.
        unsafe { word.downgrade(from, to, queue) }
    }
}

/// Turns holds of every word into exclusive ones, or none. Ordering: Acquire on success.
///
/// # Safety
/// As [`RwWord::try_upgrade`], for every word.
pub unsafe fn try_upgrade_all<'a>(
    words: impl Iterator<Item = &'a RwWord> + Clone,
    from: Access,
    queue: &WaitQueue,
) -> bool {
    // SAFETY: the caller's promise, word by word.
    let shared = words
        .clone()
        .position(|word| !unsafe { word.try_upgrade(from) });
    let Some(shared) = shared else { return true };
    // SAFETY: the words before the shared one were upgraded just now.
    unsafe { downgrade_all(words.take(shared), Access::Write, from, queue) }
    false
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

/// Whether the holds in `word` leave room for one more: W-I1.
#[inline]
const fn admits(word: u32, access: Access) -> bool {
    match access {
        Access::Read => word & WRITER == 0 && word & READERS < READERS,
        Access::Upgradable => word & (WRITER | UPGRADER) == 0 && word & READERS < READERS,
        Access::Write => word & (WRITER | READERS) == 0,
    }
}
