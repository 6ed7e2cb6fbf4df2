//! Epoch-based reclamation: threads traverse a structure without a lock, and memory that was
//! unlinked from it is freed once no traversal can still reference it.
//!
//! # The problem
//! It is that of [`rcu`](crate::rcu), where memory is freed often. There, the thread that frees
//! memory waits for all readers and interrupts every core. Here, each reader pays for a fenced
//! store, about 7 ns, and freeing neither waits nor interrupts.
//!
//! As shipped, this module wraps crossbeam-epoch. Under a checker, a small implementation with the
//! same guarantees takes its place (`checked/epoch.rs`), so that the checker sees how threads
//! synchronize, and that no memory outlives its execution.
//!
//! # Protocol
//!
//! | | a walker | | the thread that frees memory |
//! |---|---|---|---|
//! | 1 | [`pin`]: announces itself, and fences | 1 | unlinks the memory, by any store |
//! | 2 | walks | 2 | [`defer_free`] fences, and notes the threads that are pinned |
//! | 3 | drops the [`Guard`] | 3 | *later*, once these threads have done so: frees the memory |
//!
//! [`pin`]: Collector::pin
//! [`defer_free`]: Guard::defer_free
//!
//! # Invariants
//! - **EP-I1** A thread is pinned from the first of its guards until it has dropped all of them.
//! - **EP-I2** Memory that a pinned thread has found linked since it was pinned is not freed before
//!   the thread has dropped all of its guards. Because of the two fences, either the thread that
//!   frees the memory sees that the walker is pinned, or the walker sees that the memory is
//!   unlinked.
//! - **EP-I3** What a pinned thread does happens before any free that had to wait for that thread.
//!   What a thread did before it called `defer_free` happens before that free.
//!
//! # Not guaranteed
//! *When* memory is freed. As shipped, a thread keeps up to 64 deferred frees to itself until it
//! [flushes](Guard::flush); a later `pin` or `flush` of any thread then frees them, possibly after
//! the [`Collector`] was dropped. A guard that is kept for long, or forgotten, delays every free of
//! the process.

use alloc::boxed::Box;
use core::fmt;

use crate::world::epoch as world;

/// The owner of a structure whose memory is freed by epochs.
///
/// As shipped, all collectors share the epochs of the process, and a collector takes no memory.
/// Under a checker, each has epochs of its own, and dropping it frees what is left.
#[derive(Default)]
pub struct Collector(world::Collector);

impl Collector {
    /// Returns a collector without pinned threads.
    pub fn new() -> Self {
        Collector(world::Collector::new())
    }

    /// Pins the calling thread until the guard is dropped. Never blocks. A thread may have several
    /// guards and drop them in any order.
    ///
    /// Now and then, a call frees memory whose free was [deferred](Guard::defer_free).
    #[inline]
    pub fn pin(&self) -> Guard<'_> {
        Guard(self.0.pin())
    }
}

/// Keeps its thread pinned. What the thread finds linked meanwhile stays allocated (EP-I2).
#[must_use = "dropping the guard at once unpins the thread"]
pub struct Guard<'a>(world::Guard<'a>);

impl Guard<'_> {
    /// Frees memory once every thread that is pinned now, the calling thread included, has dropped
    /// its guards. Never blocks.
    ///
    /// # Safety
    /// - The memory comes from [`owned`], by way of `Box::into_raw`.
    /// - The memory is unlinked: a thread that is pinned after this call cannot find it. A thread
    ///   that is not pinned does not use it any more.
    /// - Nothing else frees it.
    /// - Threads that found it use it only while they are pinned by this collector.
    #[inline]
    pub unsafe fn defer_free<T: Send + 'static>(&self, memory: *mut T) {
        // SAFETY: the caller promises the same.
        unsafe { self.0.defer_free(memory) }
    }

    /// Makes the frees that this thread has deferred available to all threads, and frees memory
    /// whose time has come.
    #[inline]
    pub fn flush(&self) {
        self.0.flush();
    }
}

/// Returns memory that [`Guard::defer_free`] or [`free`] will free.
///
/// Under a checker, using one of its atomics after the free fails the model. Under the explorer and
/// loom, it also fails if an earlier use does not happen before the free.
#[inline]
pub fn owned<T>(memory: Box<T>) -> Box<T> {
    world::owned(memory)
}

/// Frees memory from [`owned`] that no other thread can reference, at once.
#[inline]
pub fn free<T>(memory: Box<T>) {
    world::free(memory);
}

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collector").finish_non_exhaustive()
    }
}

impl fmt::Debug for Guard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").finish_non_exhaustive()
    }
}
