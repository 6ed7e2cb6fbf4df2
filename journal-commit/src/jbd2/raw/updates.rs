//! Joining a transaction, and locking it for its commit.
//!
//! # The problem
//! Threads join the running transaction and leave it all the time. The commit locks the
//! transaction, so that no thread joins any more, and waits until the threads inside have left
//! (JBD2's `t_updates`). A thread that joins also reserves room (*credits*), so that the
//! transaction never outgrows its share of the log.
//!
//! # State
//!
//! ```text
//!   63     62                32 31                      0
//!  ┌──────┬───────────────────┬──────────────────────────┐
//!  │LOCKED│      UPDATES      │         CREDITS          │
//!  └──────┴───────────────────┴──────────────────────────┘
//! ```
//!
//! | field | meaning | raised by | lowered by |
//! |---|---|---|---|
//! | `LOCKED` | no thread may join any more | the journal's thread, once | never |
//! | `UPDATES` | threads inside | a joiner, if not `LOCKED` | the same thread, once |
//! | `CREDITS` | blocks used or reserved | a joiner, `extend` | a leaver, by its unused credits |
//!
//! # Invariants
//! - **U1** After `LOCKED` is set, `UPDATES` only falls: a join is a compare-exchange from a word
//!   without `LOCKED`.
//! - **U2** `CREDITS` never exceeds the limit.
//! - **U3** A thread that *drains* the transaction waits until no thread is inside. It then sees
//!   everything that these threads did.
//!
//! # Orderings
//!
//! | letter | where | ordering | pairs with | needed by the model |
//! |---|---|---|---|---|
//! | A | `leave` | Release | B | `journal-updates/drain` |
//! | B | the check in `lock_and_drain` | Acquire | A | `journal-updates/drain` |

use spanlock_sync::atomic::{AtomicU64, Ordering::*};
use spanlock_sync::injected_bug;

use super::signal::Signal;

const LOCKED: u64 = 1 << 63;
const UPDATE: u64 = 1 << 32;
const UPDATES: u64 = LOCKED - UPDATE;
const CREDITS: u64 = UPDATE - 1;

/// Why a thread could not join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The transaction is being committed.
    Locked,
    /// The transaction has no room for the requested credits.
    Full,
}

/// The threads inside a transaction, and its credits.
#[derive(Debug)]
pub struct Updates {
    word: AtomicU64,
    drained: Signal,
}

impl Default for Updates {
    fn default() -> Self {
        Updates::new()
    }
}

impl Updates {
    /// Creates the state of a transaction without threads.
    pub fn new() -> Self {
        Updates {
            word: AtomicU64::new(0),
            drained: Signal::new(),
        }
    }

    /// Joins the transaction, and reserves `credits` blocks. All threads together may reserve at
    /// most `limit` blocks.
    pub fn join(&self, credits: u32, limit: u32) -> Result<(), Refused> {
        // Relaxed: a joiner found the transaction under a mutex, which also makes the
        // transaction's data visible.
        let mut seen = self.word.load(Relaxed);
        loop {
            if seen & LOCKED != 0
                && !injected_bug!(
                    "late-join",
                    "a handle joins a transaction that is locked for its commit",
                    killed_by = "drain, drain-3"
                )
            {
                return Err(Refused::Locked);
            }
            if (seen & CREDITS) + u64::from(credits) > u64::from(limit) {
                return Err(Refused::Full);
            }
            let joined = seen + UPDATE + u64::from(credits);
            // Relaxed, both: as above.
            match self
                .word
                .compare_exchange_weak(seen, joined, Relaxed, Relaxed)
            {
                Ok(_) => return Ok(()),
                Err(now) => seen = now,
            }
        }
    }

    /// Reserves `credits` more blocks for a thread inside, up to `limit` for all threads together.
    /// Refused once the transaction is locked, as in JBD2: the commit is waiting for this thread.
    pub fn extend(&self, credits: u32, limit: u32) -> Result<(), Refused> {
        // Relaxed: this thread is inside, so it sees the transaction's data already.
        let mut seen = self.word.load(Relaxed);
        loop {
            if seen & LOCKED != 0 {
                return Err(Refused::Locked);
            }
            if (seen & CREDITS) + u64::from(credits) > u64::from(limit) {
                return Err(Refused::Full);
            }
            let extended = seen + u64::from(credits);
            // Relaxed, both: only the count changes (U2).
            match self
                .word
                .compare_exchange_weak(seen, extended, Relaxed, Relaxed)
            {
                Ok(_) => return Ok(()),
                Err(now) => seen = now,
            }
        }
    }

    /// Leaves, and releases the `unused` credits.
    pub fn leave(&self, unused: u32) {
        let wakes_early = injected_bug!(
            "wake-before-change",
            "the drainer is woken before the handle leaves, not after",
            killed_by = "drain, drain-3"
        );
        if wakes_early {
            self.drained.wake_all();
        }
        let gone = UPDATE + u64::from(unused);
        // Release [A→B]: the commit sees everything done in the transaction (U3).
        let before = self.word.fetch_sub(gone, Release);
        if before & LOCKED != 0 && before & UPDATES == UPDATE && !wakes_early {
            self.drained.wake_all();
        }
    }

    /// Stops further joins, and blocks until all threads have left. Returns false if `give_up`
    /// returns true while threads are inside. A thread that makes `give_up` true must then
    /// [wake](Self::wake) the thread that drains.
    pub fn lock_and_drain(&self, give_up: impl Fn() -> bool) -> bool {
        // Relaxed: this operation publishes nothing. It and the joins are read-modify-writes of one
        // word, so each join either sees `LOCKED` or came before.
        self.word.fetch_or(LOCKED, Relaxed);
        self.drained.wait_until(|| {
            // Acquire [B→A]: U3. All leaves form one release sequence.
            let is_drained = self.word.load(Acquire) & UPDATES == 0;
            (is_drained || give_up()).then_some(is_drained)
        })
    }

    /// Makes the thread that drains check again whether to give up.
    pub fn wake(&self) {
        self.drained.wake_all();
    }
}

#[cfg(all(test, not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn credits_are_bounded_and_released() {
        let updates = Updates::new();
        updates.join(6, 10).unwrap();
        assert_eq!(updates.join(5, 10), Err(Refused::Full));
        updates.join(4, 10).unwrap();
        // Relaxed: only one thread runs.
        assert_eq!(updates.word.load(Relaxed) & UPDATES, 2 * UPDATE);
        updates.leave(3);
        updates.join(3, 10).unwrap();
        assert_eq!(updates.join(1, 10), Err(Refused::Full));
        assert_eq!(updates.extend(1, 10), Err(Refused::Full));
        updates.leave(2);
        updates.extend(2, 10).unwrap();
        assert_eq!(updates.extend(1, 10), Err(Refused::Full));
        updates.leave(0);
        updates.lock_and_drain(|| false);
        assert_eq!(updates.join(0, 10), Err(Refused::Locked));
        assert_eq!(updates.extend(0, 10), Err(Refused::Locked));
    }

    #[test]
    fn the_commit_waits_for_all_threads_inside() {
        for _ in 0..200 {
            let updates = Updates::new();
            let sum = spanlock_sync::cell::UnsafeCell::new([0_u32; 4]);
            struct Shared<'a>(&'a spanlock_sync::cell::UnsafeCell<[u32; 4]>);
            // SAFETY: each thread writes its own element while it is inside; all elements are read
            // once no thread is inside.
            unsafe impl Sync for Shared<'_> {}
            let shared = Shared(&sum);
            let (updates, shared) = (&updates, &shared);
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    scope.spawn(move || {
                        while updates.join(1, 1000).is_ok() {
                            // SAFETY: as above.
                            shared.0.with_mut(|all| unsafe { (*all)[thread] += 1 });
                            updates.leave(0);
                            if thread == 0 {
                                break;
                            }
                        }
                    });
                }
                updates.lock_and_drain(|| false);
                // SAFETY: no thread is inside, and none joins any more.
                let all: u32 = shared.0.with(|all| unsafe { (*all).iter().sum() });
                assert_eq!(u64::from(all), updates.word.load(Relaxed) & CREDITS);
            });
        }
    }
}
