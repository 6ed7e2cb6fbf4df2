//! Read-copy-update (RCU): readers take no lock, and a thread waits for them before it frees
//! memory.
//!
//! # The problem
//! A *walk* is a lock-free traversal of a tree. A node must not be freed while a walk may still
//! reference it. The usual remedy is epoch-based reclamation, as in crossbeam-epoch: each walk
//! announces its epoch by a fenced store. That store costs 4 ns, while the lock at the end of the
//! walk costs only 2.4 ns. If memory is freed rarely, the thread that frees it should bear the
//! cost. So here a reader announces itself by a plain store, and the [asymmetric
//! barrier](crate::barrier) ensures that the freeing thread sees every announcement. This is the
//! user-space RCU of Desnoyers et al. (DOI 10.1109/TPDS.2011.159, the variant with `membarrier`),
//! with one counter per thread and no phases.
//!
//! # Protocol
//!
//! | | a reader | | the thread that frees memory |
//! |---|---|---|---|
//! | 1 | [`enter`]: its thread's counter becomes odd | 1 | unlinks the memory |
//! | 2 | (in `enter`) [`light`] barrier | 2 | (in [`synchronize`]) [`heavy`] barrier |
//! | 3 | walks | 3 | waits for each odd counter to change |
//! | 4 | drops the [`ReadGuard`]: its counter becomes even | 4 | frees the memory |
//!
//! [`enter`]: Rcu::enter
//! [`synchronize`]: Rcu::synchronize
//! [`light`]: crate::barrier::light
//! [`heavy`]: crate::barrier::heavy
//!
//! From step 1 to step 4 the reader is in an **RCU read-side critical section**.
//!
//! # Invariants
//! - **RCU-I1** A thread's counter is odd exactly while the thread is in a read-side critical
//!   section. Only that thread changes it.
//! - **RCU-I2** When `synchronize` returns, no critical section can still reference memory that was
//!   unlinked before the call. Because of the two barriers, either `synchronize` saw the reader's
//!   counter odd and waited, or the reader sees that the memory is unlinked.
//!
//! # Remembering
//! A walk is slow, because each of its steps is a dependent load. So a thread can
//! [`remember`](ReadGuard::remember) the memory that a walk found, and
//! [`recall`](ReadGuard::recall) it in a later critical section, until the next `synchronize`. Each
//! [`Rcu`] has a *stamp*: a number that no other `Rcu` has, and that `synchronize` replaces. A
//! thread stores the stamp with the memory that it remembers. A later critical section may recall
//! the memory only if it has read the same stamp.
//!
//! - **RCU-I3** Recalled memory is as safe to use as memory found by a walk in this critical
//!   section. A critical section remembered it under the same stamp, so the memory was not unlinked
//!   before that stamp was made. If the memory is unlinked later, the `synchronize` that follows
//!   stores a new stamp. This critical section has loaded the old stamp. So, because of the two
//!   barriers, `synchronize` sees the reader's counter odd. It waits for this critical section, as
//!   for any reader that may have found the memory.
//!
//! # Orderings
//!
//! | letter | where | ordering | pairs with | needed by the model |
//! |---|---|---|---|---|
//! | F | in `enter`, between the counter and the walk | light barrier | G | `rcu/grace` |
//! | G | in `synchronize`, before the counters | heavy barrier | F | `rcu/grace` |
//! | H | the store that ends a critical section | Release | I | `rcu/grace` |
//! | I | the load of a counter in `synchronize` | Acquire | H, R | `rcu/grace` |
//! | R | the store that begins the next critical section | Release | I | `rcu/recall` |
//! | P | the store of a new stamp in `synchronize` | Release | Q | `rcu/recall` |
//! | Q | the load of the stamp in `enter` | Acquire | P | `rcu/recall` |
//!
//! # Not guaranteed
//! `synchronize` may take long, because a reader may be preempted inside its critical section. A
//! thread in a critical section must not wait for another thread that may be in `synchronize`. So a
//! thread should never block inside a critical section. As shipped (built without a checker), this
//! rule covers the `synchronize` of every [`Rcu`], because all `Rcu`s share the counters.

use core::cell::Cell;
use core::marker::PhantomData;
use core::ptr::NonNull;

use crate::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use crate::world::rcu as world;
use crate::{barrier, injected_bug, thread};

/// A set of readers, for which a thread can wait before it frees memory.
///
/// As shipped, all `Rcu`s share one counter per thread of the process. Under a checker, each `Rcu`
/// has counters of its own.
#[derive(Debug)]
pub struct Rcu {
    counters: world::Counters,
    stamp: AtomicU64,
}

/// An RCU read-side critical section, which ends when this guard is dropped. Critical sections may
/// be nested: then they all end when the outermost guard is dropped. As shipped, the outermost
/// guard may belong to another [`Rcu`], because all `Rcu`s share the thread's counter.
///
/// Never keep a guard in a thread local. When a thread ends, it returns its counter for reuse. If
/// the guard were dropped after that, it could change the counter of another thread (RCU-I1).
#[derive(Debug)]
#[must_use = "dropping the guard at once ends the critical section"]
pub struct ReadGuard<'a> {
    rcu: &'a Rcu,
    /// None in a nested critical section.
    counter: Option<&'a AtomicUsize>,
    stamp: u64,
    /// The critical section ends in the thread that began it.
    not_send: PhantomData<*const ()>,
}

/// An entry that a thread remembers: the stamp, the key, the memory.
pub(crate) type Memory = Cell<(u64, u64, Option<NonNull<()>>)>;

impl Rcu {
    /// Returns an `Rcu` without readers.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Rcu {
            counters: world::Counters::new(),
            stamp: AtomicU64::new(world::new_stamp()),
        }
    }

    /// Begins a read-side critical section of the calling thread.
    #[inline]
    pub fn enter(&self) -> ReadGuard<'_> {
        let counter = self.counters.mine();
        // Relaxed: only this thread changes it.
        let count = counter.load(Relaxed);
        let outermost = count & 1 == 0;
        if outermost {
            // Release [R→I]: `synchronize` may read this store instead of the store that ended the
            // previous critical section. (The barrier F orders this store before the walk.)
            counter.store(count.wrapping_add(1), Release);
            // Light [F→G].
            barrier::light();
        }
        ReadGuard {
            rcu: self,
            counter: outermost.then_some(counter),
            // Acquire [Q→P]: a walk under this guard finds no memory that was unlinked before the
            // stamp was made.
            stamp: self.stamp.load(Acquire),
            not_send: PhantomData,
        }
    }

    /// Waits until no critical section can still reference memory that was unlinked before this
    /// call.
    ///
    /// Never call it inside a critical section: it would wait for itself. As shipped, this includes
    /// critical sections of other `Rcu`s.
    pub fn synchronize(&self) {
        // Release [P→Q]: a reader that sees the new stamp sees that the memory is unlinked.
        self.stamp.store(world::new_stamp(), Release);
        // Heavy [G→F].
        barrier::heavy();
        if injected_bug!(
            "node-freed-too-early",
            "synchronize returns without waiting for the read-side critical sections",
            killed_by = "reclamation, grace, recall"
        ) {
            return;
        }
        self.counters.for_each(|counter| {
            // Acquire [I→H, R], both loads: the critical section happens before what follows
            // `synchronize`.
            let before = counter.load(Acquire);
            while before & 1 == 1 && counter.load(Acquire) == before {
                thread::yield_now();
            }
        });
    }
}

impl ReadGuard<'_> {
    /// Returns the memory that this thread [remembers](Self::remember) for `key`. The memory may be
    /// used as if a walk in this critical section had found it.
    ///
    /// Returns `None` if the thread has no entry for `key`, or if `synchronize` has replaced the
    /// stamp since.
    #[inline]
    pub fn recall(&self, key: u64) -> Option<NonNull<()>> {
        let known = self.rcu.counters.memory(key);
        let (stamp, of, memory) = known.get();
        if (stamp, of) == (self.stamp, key) {
            memory
        } else {
            None
        }
    }

    /// Remembers memory for later critical sections of this thread. The caller must have found the
    /// memory linked, allocated it, or recalled it under this guard. Memory from an outer critical
    /// section does not qualify: it may have been unlinked before the stamp of this guard was made.
    /// As shipped, a thread remembers only a few entries, which all `Rcu`s share.
    #[inline]
    pub fn remember(&self, key: u64, memory: NonNull<()>) {
        let known = self.rcu.counters.memory(key);
        known.set((self.stamp, key, Some(memory)));
    }
}

impl Drop for ReadGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(counter) = self.counter {
            // Relaxed: only this thread changes it.
            let count = counter.load(Relaxed);
            // Release [H→I]: the critical section happens before the load that sees its end.
            counter.store(count.wrapping_add(1), Release);
        }
    }
}
