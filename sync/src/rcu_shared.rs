//! Read-copy-update (RCU) without thread-local storage. Without std, this is the module `rcu`.
//!
//! # How it works
//! All threads share two counters, as in Linux's sleepable read-copy-update (SRCU). A *phase* says
//! which of them a new reader raises. A critical section costs two read-modify-writes on a shared
//! cache line. Each [`Rcu`] has counters of its own.
//!
//! # Protocol
//!
//! | | a reader | | the thread that frees memory |
//! |---|---|---|---|
//! | 1 | [`enter`]: raises the counter of the phase | 1 | unlinks the memory |
//! | 2 | (in `enter`) [`light`] barrier | 2 | (in [`synchronize`]) [`heavy`] barrier |
//! | 3 | walks | 3 | waits until the counter of the other phase is 0 |
//! | | | 4 | changes the phase |
//! | | | 5 | waits until the counter of the old phase is 0 |
//! | 4 | drops the [`ReadGuard`]: lowers the counter that it raised | 6 | frees the memory |
//!
//! [`enter`]: Rcu::enter
//! [`synchronize`]: Rcu::synchronize
//! [`light`]: crate::barrier::light
//! [`heavy`]: crate::barrier::heavy
//!
//! # Invariants
//! - **SRCU-I1** A counter is the number of critical sections that began in its phase and have not
//!   ended.
//! - **SRCU-I2** When `synchronize` returns, no critical section can still reference memory that
//!   was unlinked before the call. Because of the two barriers, either the reader sees that the
//!   memory is unlinked, or the reader raised a counter before `synchronize` checked either
//!   counter. In the second case, each counter has been 0 at some moment since, so the reader has
//!   left.
//! - **SRCU-I3** Later critical sections do not delay `synchronize` for ever. New readers raise the
//!   counter of the current phase, while `synchronize` waits for the other counter. Only a reader
//!   that loaded the phase before it changed still raises that other counter.
//!
//! # Orderings
//!
//! | letter | where | ordering | pairs with | needed by the model |
//! |---|---|---|---|---|
//! | F | in `enter`, between the counter and the walk | light barrier | G | `a_walk` |
//! | G | in `synchronize`, before the counters | heavy barrier | F | `a_walk` |
//! | H | the decrement that drops a guard | Release | I | `a_walk` |
//! | I | the load of a counter in `synchronize` | Acquire | H | `a_walk` |
//!
//! The model is in `tests/checked/rcu_shared.rs`, and `no_memory_is_freed_under_a_reader` weakens
//! each of them in it.
//!
//! Not reached by models: those that `cargo verify` runs use the module for std, `rcu.rs`.

use core::marker::PhantomData;
use core::ptr::NonNull;

use crate::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use crate::{Mutex, barrier, hint};

/// A set of readers, for which a thread can wait before it frees memory.
#[derive(Debug)]
pub struct Rcu {
    /// Its lowest bit says which counter new readers raise.
    phase: AtomicUsize,
    /// Of 64 bits, so that forgotten guards cannot make a counter overflow.
    inside: [AtomicU64; 2],
    /// Held during `synchronize`. Without it, two threads that change the phase alternately could
    /// delay each other for long.
    synchronizing: Mutex<()>,
}

/// Protects what its thread found under it, until it is dropped. A thread may have several guards,
/// and drop them in any order.
#[derive(Debug)]
#[must_use = "dropping the guard at once ends the critical section"]
pub struct ReadGuard<'a> {
    counter: &'a AtomicU64,
    /// Not `Send`, as with std: the critical section ends in the thread that began it.
    not_send: PhantomData<*const ()>,
}

impl Rcu {
    /// Returns an `Rcu` without readers.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        Rcu {
            phase: AtomicUsize::new(0),
            inside: [AtomicU64::new(0), AtomicU64::new(0)],
            synchronizing: Mutex::new(()),
        }
    }

    /// Begins a read-side critical section.
    #[inline]
    pub fn enter(&self) -> ReadGuard<'_> {
        // Relaxed: SRCU-I2 holds whichever counter the reader raises.
        let counter = &self.inside[self.phase.load(Relaxed) & 1];
        // Relaxed: the barrier F orders this increment before the walk.
        counter.fetch_add(1, Relaxed);
        // Light [F→G].
        barrier::light();
        ReadGuard {
            counter,
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
    /// Never call it inside a critical section of this `Rcu`: it would wait for itself.
    #[must_use = "if false, the memory must not be freed"]
    pub fn synchronize(&self) -> bool {
        let _alone = self.synchronizing.lock();
        // Heavy [G→F].
        if !barrier::heavy() {
            return false;
        }
        // Relaxed: only the holder of the mutex changes the phase.
        let phase = self.phase.load(Relaxed);
        self.wait_for(phase.wrapping_add(1));
        // Relaxed: SRCU-I3 needs only that readers see the new phase eventually.
        self.phase.store(phase.wrapping_add(1), Relaxed);
        self.wait_for(phase);
        true
    }

    fn wait_for(&self, phase: usize) {
        // Acquire [I→H]: the critical sections happen before what follows `synchronize`.
        while self.inside[phase & 1].load(Acquire) != 0 {
            hint::pause();
        }
    }
}

impl ReadGuard<'_> {
    /// Returns `None`. (With std, returns the memory that this thread remembers for `key`.)
    #[inline]
    pub fn recall(&self, _key: u64) -> Option<NonNull<()>> {
        None
    }

    /// Remembers nothing. (With std, remembers the memory for later critical sections of this
    /// thread.)
    #[inline]
    pub fn remember(&self, _key: u64, _memory: NonNull<()>) {}
}

impl Drop for ReadGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release [H→I]: the critical section happens before the load that sees its end.
        self.counter.fetch_sub(1, Release);
    }
}
