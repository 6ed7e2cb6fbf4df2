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
//! with one counter per thread and no global phase.
//!
//! # Protocol
//!
//! | | a reader | | the thread that frees memory |
//! |---|---|---|---|
//! | 1 | [`enter`]: its thread's depth becomes 1 | 1 | unlinks the memory |
//! | 2 | (in `enter`) [`light`] barrier | 2 | (in [`synchronize`]) [`heavy`] barrier |
//! | 3 | walks | 3 | waits for each thread whose depth is not 0 |
//! | 4 | drops the [`ReadGuard`]: its depth becomes 0 | 4 | frees the memory |
//!
//! [`enter`]: Rcu::enter
//! [`synchronize`]: Rcu::synchronize
//! [`light`]: crate::barrier::light
//! [`heavy`]: crate::barrier::heavy
//!
//! From step 1 to step 4 the reader is in an **RCU read-side critical section**.
//!
//! # The counter of a thread
//!
//! ```text
//!   bits 63 … 32                              31            30 … 0
//!   ended: how many outermost sections        LEAVING       depth: how many guards
//!   have ended (wraps)                                      the thread has
//! ```
//!
//! A thread may have several guards, and drop them in any order. It is in a critical section until
//! it has dropped all of them. If a thread has forgotten so many guards that the depth reaches its
//! maximum, the depth stays there, so the section never ends. **LEAVING** says that the thread is
//! ending, and has lost the thread local that returns its counter for reuse. Then the end of the
//! section returns it.
//!
//! # Invariants
//! - **RCU-I1** A thread's depth is not 0 exactly while the thread is in a read-side critical
//!   section. Only that thread changes its counter. (In the child of a fork, the thread that forked
//!   also resets the counters of the threads that do not exist there.)
//! - **RCU-I2** When `synchronize` returns, no critical section can still reference memory that was
//!   unlinked before the call. Because of the two barriers, either `synchronize` saw the reader's
//!   depth above 0 and waited, or the reader sees that the memory is unlinked.
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
//!   before that stamp was stored. (Several threads may replace the stamp in turn. Each does so by
//!   a read-modify-write, so a stamp also publishes what was unlinked before earlier stamps.) If
//!   the memory is unlinked later, the `synchronize` that follows stores a new stamp. This critical
//!   section has loaded the old stamp. So, because of the two barriers, `synchronize` sees the
//!   reader's depth above 0. It waits for this critical section, as for any reader that may have
//!   found the memory.
//!
//! # Orderings
//!
//! | letter | where | ordering | pairs with | needed by the model |
//! |---|---|---|---|---|
//! | F | in `enter`, between the counter and the walk | light barrier | G | `rcu/grace` |
//! | G | in `synchronize`, before the counters | heavy barrier | F | `rcu/grace` |
//! | H | the store that drops a guard | Release | I | `rcu/grace` |
//! | I | the load of a counter in `synchronize` | Acquire | H, R | `rcu/grace` |
//! | R | the store that enters | Release | I | `rcu/recall` |
//! | P | the swap of the stamp in `synchronize` | Release | Q | `rcu/recall`, `rcu/recall-beside` |
//! | Q | the load of the stamp in `enter` | Acquire | P | `rcu/recall` |
//!
//! # Not guaranteed
//! `synchronize` may take long, because a reader may be preempted inside its critical section. A
//! thread in a critical section must not wait for another thread that may be in `synchronize`. So a
//! thread should never block inside a critical section. As shipped (built without a checker), this
//! rule covers the `synchronize` of every [`Rcu`], because all `Rcu`s share the counters.
//!
//! If the system refuses the heavy barrier, `synchronize` cannot know which threads are readers.
//! Then it waits for nobody and returns false, and the caller must keep the memory.
//!
//! If a guard is forgotten, its critical section never ends, and `synchronize` waits for ever.

use core::cell::Cell;
use core::marker::PhantomData;
use core::ptr::NonNull;

use crate::atomic::{AtomicU64, Ordering::*};
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

/// Protects what its thread found under it, until it is dropped. The thread's RCU read-side
/// critical section ends when the thread has dropped all of its guards, in any order. As shipped,
/// this includes the guards of other [`Rcu`]s, because all `Rcu`s share the thread's counter.
#[derive(Debug)]
#[must_use = "dropping the guard at once ends the critical section"]
pub struct ReadGuard<'a> {
    rcu: &'a Rcu,
    counter: &'a AtomicU64,
    stamp: u64,
    /// The guard is dropped in the thread that entered.
    not_send: PhantomData<*const ()>,
}

/// The bits of a counter that say how many guards its thread has.
pub(crate) const DEPTH: u64 = LEAVING - 1;

/// The bit of a counter that says that the end of the critical section returns it for reuse.
pub(crate) const LEAVING: u64 = 1 << 31;

/// One critical section that has ended.
pub(crate) const ENDED: u64 = 1 << 32;

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

    /// Enters a read-side critical section of the calling thread.
    #[inline]
    pub fn enter(&self) -> ReadGuard<'_> {
        let counter = self.counters.mine();
        // Relaxed: only this thread changes it.
        let count = counter.load(Relaxed);
        if count & (LEAVING | DEPTH) == 0 {
            set_entered(counter, count.wrapping_add(1));
            // Light [F→G].
            barrier::light();
        } else {
            enter_again(counter, count);
        }
        ReadGuard {
            rcu: self,
            counter,
            // Acquire [Q→P]: a walk under this guard finds no memory that was unlinked before the
            // stamp was made.
            stamp: self.stamp.load(Acquire),
            not_send: PhantomData,
        }
    }

    /// Waits until no critical section can still reference memory that was unlinked before this
    /// call.
    ///
    /// Returns false, without waiting, if the system
    /// [refuses](crate::barrier#when-the-system-refuses) the heavy barrier to the calling thread.
    /// Then critical sections may still reference the memory.
    ///
    /// Never call it inside a critical section: it would wait for itself. As shipped, this includes
    /// critical sections of other `Rcu`s.
    ///
    /// Several threads may call it at the same time. Each call covers the memory that its own
    /// thread has unlinked, and all memory whose unlinking happens before the call.
    #[must_use = "if false, the memory must not be freed"]
    pub fn synchronize(&self) -> bool {
        self.replace_stamp(world::new_stamp());
        // Heavy [G→F].
        if !barrier::heavy()
            && !injected_bug!(
                "refused-barrier-ignored",
                "synchronize goes on although the system has refused its heavy barrier",
                killed_by = "rcu/refused-barrier, srl-tree/reclamation-in-doubt"
            )
        {
            return false;
        }
        if injected_bug!(
            "node-freed-too-early",
            "synchronize returns without waiting for the read-side critical sections",
            killed_by = "reclamation, grace, recall"
        ) {
            return true;
        }
        self.counters.for_each(|counter| {
            // Acquire [I→H, R], both loads: the critical section happens before what follows
            // `synchronize`.
            let before = counter.load(Acquire);
            let is_same = |now: u64| now & DEPTH != 0 && now / ENDED == before / ENDED;
            while before & DEPTH != 0 && is_same(counter.load(Acquire)) {
                thread::yield_now();
            }
        });
        true
    }

    /// Replaces the stamp by a read-modify-write. It continues the release sequences of the stamps
    /// before it, so a reader that sees this stamp also sees what was unlinked before those.
    fn replace_stamp(&self, stamp: u64) {
        // Release [P→Q]: a reader that sees the new stamp, or a later one, sees that the memory is
        // unlinked.
        if !injected_bug!(
            "stamp-stored",
            "synchronize replaces the stamp by a store, not by a read-modify-write",
            killed_by = "rcu/recall-beside"
        ) {
            self.stamp.swap(stamp, Release);
        } else {
            // Release: strong enough; the injected bug is that a store begins a new sequence.
            self.stamp.store(stamp, Release);
        }
    }
}

/// Sets the counter of the calling thread, which enters.
#[inline]
fn set_entered(counter: &AtomicU64, count: u64) {
    // Release [R→I]: `synchronize` may read this store instead of the store that ended the previous
    // critical section. (The barrier F orders the store of depth 1 before the walk.)
    counter.store(count, Release);
}

/// Sets the counter of the calling thread, which drops a guard.
#[inline]
fn set_left(counter: &AtomicU64, count: u64) {
    // Release [H→I]: all that the thread did before this store happens before the load that sees
    // it. That includes earlier critical sections, and this one if the store ends it.
    counter.store(count, Release);
}

/// Enters if the thread has other guards, or is ending.
#[cold]
fn enter_again(counter: &AtomicU64, count: u64) {
    if count & DEPTH == DEPTH {
        // So many guards were forgotten that the section never ends.
        return;
    }
    set_entered(counter, count + 1);
    if count & DEPTH == 0 {
        // Light [F→G].
        barrier::light();
    }
}

/// Drops a guard if the thread has other guards, or is ending.
#[cold]
fn leave_again(counter: &AtomicU64) {
    // Relaxed: only this thread changes it.
    let count = counter.load(Relaxed);
    let ends = count & DEPTH == 1
        || injected_bug!(
            "nested-guards-not-counted",
            "the first guard that a thread drops ends its critical section",
            killed_by = "rcu/nested"
        );
    if count & DEPTH == DEPTH {
        return;
    }
    if !ends {
        set_left(counter, count - 1);
        return;
    }
    set_left(counter, (count & !(LEAVING | DEPTH)).wrapping_add(ENDED));
    if count & LEAVING != 0 {
        world::retire();
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
        // Relaxed: only this thread changes it.
        let count = self.counter.load(Relaxed);
        if count & (LEAVING | DEPTH) == 1 {
            set_left(self.counter, count.wrapping_add(ENDED - 1));
        } else {
            leave_again(self.counter);
        }
    }
}
