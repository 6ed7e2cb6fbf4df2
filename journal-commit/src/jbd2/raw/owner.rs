//! Who writes the commit block.
//!
//! # The problem
//! Exactly one thread may write it, after all other blocks are written. Cui's thesis (see [`raw`](super)) gives it to the first thread that arrives, and leaves open what happens if none
//! does, or if that one dies. Here it goes to whoever completes the last block, for it need not wait; and if it lets go without having finished, the next that
//! looks takes it over. The journal's thread looks last, and stays until it is done.
//!
//! # State
//!
//! ```text
//!            open                try_own               finish
//!  CLOSED ───────────► FREE ─────────────────► OWNED ─────────► DONE
//!                        ▲                       │
//!                        └───────────────────────┘ dropped before it began
//! ```
//!
//! | state | meaning | left by |
//! |---|---|---|
//! | `CLOSED` | other blocks are on their way | who completed the last one |
//! | `FREE` | may be written | whoever is first |
//! | `OWNED` | one thread writes it | that thread |
//! | `DONE` | the commit is over | nobody |
//!
//! # Invariants
//! - **O1** At most one thread is owner: `FREE` becomes `OWNED` by compare-exchange.
//! - **O2** The owner sees all that was done before `open`, and by owners before it.
//! - **O3** Who sees `DONE` sees what the owner did.
//! - **O4** An ownership that is dropped is free again, and who waits is woken.
//!
//! An owner that fails *while* it writes lets go as well; it has poisoned the journal before, so who takes over finds that first.
//!
//! # Orderings
//!
//! | letter | where | ordering | pairs with | needed by the model |
//! |---|---|---|---|---|
//! | A | `open`, the drop | Release | B | `journal-owner/hand-on` |
//! | B | `try_own` | Acquire | A | `journal-owner/hand-on` |
//! | C | `finish` | Release | D | `journal-owner/seal-each` |
//! | D | the waiter's look | Acquire | C | `journal-owner/seal-each` |

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
    /// The journal's own, so that a failure wakes who waits here too.
    changed: Arc<Signal>,
}

/// What a waiter is waiting for.
#[derive(Debug)]
pub enum Turn<'a> {
    /// It is over.
    Done,
    /// Nobody else does it.
    Yours(Owner<'a>),
}

impl CommitRight {
    /// Other blocks are on their way. `changed` is where who waits sleeps: who makes it give up wakes it there.
    pub fn new(changed: Arc<Signal>) -> Self {
        CommitRight {
            state: AtomicU32::new(CLOSED),
            changed,
        }
    }

    /// All other blocks are written. Called once.
    pub fn open(&self) {
        // Release [A→B]: O2. A store: until now nobody else changes the word.
        self.state.store(FREE, Release);
        self.changed.wake_all();
    }

    /// Takes the right, if it is free.
    pub fn try_own(&self) -> Option<Owner<'_>> {
        // Acquire [A→B]: O2. Relaxed on failure: nothing is done then.
        (self.state)
            .compare_exchange(FREE, OWNED, Acquire, Relaxed)
            .ok()
            .map(|_| Owner { right: self })
    }

    /// Sleeps until it is done, or free for the caller to take, or `give_up` says so.
    pub fn wait(&self, give_up: impl Fn() -> bool) -> Option<Turn<'_>> {
        self.changed.wait_until(|| {
            // Acquire [C→D]: O3.
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
#[must_use = "dropping it gives the right away"]
pub struct Owner<'a> {
    right: &'a CommitRight,
}

impl Owner<'_> {
    /// It is written, and the commit is over.
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

#[cfg(all(test, not(any(spanlock_loom, spanlock_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn one_owner_and_its_heirs() {
        let right = CommitRight::new(Arc::new(Signal::new()));
        assert!(right.try_own().is_none(), "blocks are on their way");
        assert!(right.wait(|| true).is_none());
        right.open();
        let owner = right.try_own().unwrap();
        assert!(right.try_own().is_none());
        drop(owner); // It died.
        let Some(Turn::Yours(owner)) = right.wait(|| false) else {
            panic!("nobody took over");
        };
        owner.finish();
        assert!(matches!(right.wait(|| false), Some(Turn::Done)));
        assert!(right.try_own().is_none());
    }

    #[test]
    fn who_waits_takes_over_from_who_dies() {
        for _ in 0..100 {
            let right = &CommitRight::new(Arc::new(Signal::new()));
            std::thread::scope(|scope| {
                let waiter = scope.spawn(|| match right.wait(|| false) {
                    Some(Turn::Yours(owner)) => owner.finish(),
                    Some(Turn::Done) => {}
                    None => unreachable!("it does not give up"),
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
