//! The right to write the commit block.
//!
//! # The problem
//! Only one thread may write the commit block, after all other blocks have been written. Cui's
//! thesis (see [`raw`](super)) gives the right to do so to the first thread that arrives. The
//! thesis does not say what happens if no thread arrives, or if that thread dies.
//!
//! Here the thread that completes the last block takes the right, because it can continue without
//! waiting. The thread that has the right is the *owner*. If an owner drops the right before it has
//! finished, the next thread that tries takes over. The journal's thread waits until the commit is
//! over, and takes over if no other thread does.
//!
//! # State
//!
//! ```text
//!            open                try_own               finish
//!  CLOSED ───────────► FREE ─────────────────► OWNED ─────────► DONE
//!                        ▲                       │
//!                        └───────────────────────┘ dropped before `finish`
//! ```
//!
//! | state | meaning | left by |
//! |---|---|---|
//! | `CLOSED` | other blocks are being written | the thread that completed the last block |
//! | `FREE` | the commit block may be written | the first thread that takes the right |
//! | `OWNED` | one thread writes the commit block | that thread |
//! | `DONE` | the commit is over | no thread |
//!
//! # Invariants
//! - **O1** At most one thread is the owner: `FREE` becomes `OWNED` by compare-exchange.
//! - **O2** The owner sees everything done before `open`, and everything done by earlier owners.
//! - **O3** A thread that sees `DONE` sees everything the owner did.
//! - **O4** Dropping an ownership frees the right and wakes the waiters.
//!
//! An owner whose write fails or panics also drops the right. By then the write has poisoned the
//! journal, so the next owner finds the failure and writes nothing.
//!
//! # Orderings
//!
//! | letter | where | ordering | pairs with | needed by the model |
//! |---|---|---|---|---|
//! | A | `open`, the drop | Release | B | `journal-owner/hand-on` |
//! | B | `try_own` | Acquire | A | `journal-owner/hand-on` |
//! | C | `finish` | Release | D | `journal-owner/seal-each` |
//! | D | the waiter's check | Acquire | C | `journal-owner/seal-each` |

use std::sync::Arc;

use spanlock_sync::atomic::{AtomicU32, Ordering::*};
use spanlock_sync::injected_bug;

use super::signal::Signal;

const CLOSED: u32 = 0;
const FREE: u32 = 1;
const OWNED: u32 = 2;
const DONE: u32 = 3;

/// The right to write one transaction's commit block.
#[derive(Debug)]
pub struct CommitRight {
    state: AtomicU32,
    /// A signal that the journal also wakes when the medium fails.
    changed: Arc<Signal>,
}

/// How a wait ended.
#[derive(Debug)]
pub enum Turn<'a> {
    /// The commit is over.
    Done,
    /// The right was free, and now belongs to the caller.
    Yours(Owner<'a>),
}

impl CommitRight {
    /// Creates the right while other blocks are still being written. Waiters sleep at the signal
    /// `changed`. A thread that makes their `give_up` true must then wake this signal.
    pub fn new(changed: Arc<Signal>) -> Self {
        CommitRight {
            state: AtomicU32::new(CLOSED),
            changed,
        }
    }

    /// Frees the right, after all other blocks have been written. Called once.
    pub fn open(&self) {
        // Release [A→B]: O2. A plain store suffices: no other thread changes the word before.
        self.state.store(FREE, Release);
        self.changed.wake_all();
    }

    /// Takes the right, if it is free.
    pub fn try_own(&self) -> Option<Owner<'_>> {
        // Acquire [B→A]: O2. Relaxed on failure: the caller then does nothing.
        (self.state)
            .compare_exchange(FREE, OWNED, Acquire, Relaxed)
            .ok()
            .map(|_| Owner { right: self })
    }

    /// Blocks until the commit is over, the right is free for the caller to take, or `give_up`
    /// returns true.
    pub fn wait(&self, give_up: impl Fn() -> bool) -> Option<Turn<'_>> {
        self.changed.wait_until(|| {
            // Acquire [D→C]: O3.
            if self.state.load(Acquire) == DONE {
                return Some(Some(Turn::Done));
            }
            if let Some(owner) = self.try_own() {
                return Some(Some(Turn::Yours(owner)));
            }
            give_up().then_some(None)
        })
    }
}

/// The one thread that writes the commit block.
#[derive(Debug)]
#[must_use = "dropping it frees the right for another thread"]
pub struct Owner<'a> {
    right: &'a CommitRight,
}

impl Owner<'_> {
    /// Ends the commit, after the commit block has been written.
    pub fn finish(self) {
        let wakes_early = injected_bug!(
            "wake-before-change",
            "the waiters are woken before the commit is marked done, not after",
            killed_by = "seal-each"
        );
        if wakes_early {
            self.right.changed.wake_all();
        }
        // Release [C→D]: O3.
        self.right.state.store(DONE, Release);
        if !wakes_early {
            self.right.changed.wake_all();
        }
        core::mem::forget(self);
    }
}

impl Drop for Owner<'_> {
    fn drop(&mut self) {
        if injected_bug!(
            "right-dies-with-owner",
            "an owner that leaves the commit block unwritten keeps the right to write it",
            killed_by = "hand-on, let-go-each"
        ) {
            return;
        }
        // Release [A→B]: O2, O4.
        self.right.state.store(FREE, Release);
        self.right.changed.wake_all();
    }
}

#[cfg(all(test, not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_right_passes_to_the_next_owner() {
        let right = CommitRight::new(Arc::new(Signal::new()));
        assert!(right.try_own().is_none(), "blocks are still being written");
        assert!(right.wait(|| true).is_none());
        right.open();
        let owner = right.try_own().unwrap();
        assert!(right.try_own().is_none());
        drop(owner); // The owner died.
        let Some(Turn::Yours(owner)) = right.wait(|| false) else {
            panic!("the right is not free");
        };
        owner.finish();
        assert!(matches!(right.wait(|| false), Some(Turn::Done)));
        assert!(right.try_own().is_none());
    }

    #[test]
    fn a_waiter_takes_over_when_the_owner_dies() {
        for _ in 0..100 {
            let right = &CommitRight::new(Arc::new(Signal::new()));
            std::thread::scope(|scope| {
                let waiter = scope.spawn(|| match right.wait(|| false) {
                    Some(Turn::Yours(owner)) => owner.finish(),
                    Some(Turn::Done) => {}
                    None => unreachable!("`give_up` returns false"),
                });
                right.open();
                if let Some(owner) = right.try_own() {
                    drop(owner);
                }
                waiter.join().unwrap();
            });
            assert!(matches!(right.wait(|| false), Some(Turn::Done)));
        }
    }
}
