//! What happens when the process forks.
//!
//! The child has only the thread that forked. So that no other thread has locked the table of
//! waiters or the registry of threads at that moment, the thread that forks locks both first.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

use super::{rcu, wait};

/// The thread that has locked the table and the registry because it forks, or 0.
static FORKING: AtomicUsize = AtomicUsize::new(0);

/// How many calls of `before` still lack their call of `in_parent` or `in_child`. Only the thread
/// that forks accesses it.
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// Registers the functions below, which the system then calls at each fork. To be called before a
/// thread locks the table or the registry.
///
/// If there is no memory for that, the next call tries again. Until one succeeds, a child must use
/// neither locks for which other threads wait nor trees.
pub(super) fn handle() {
    static HANDLED: AtomicBool = AtomicBool::new(false);
    // Acquire: reads from the store below. A fork that began before the functions were registered
    // is over then, so it does not find locked what this thread locks next.
    if !HANDLED.load(Acquire) {
        // The system's own lock, which it holds throughout a fork, makes this call wait for a fork
        // that has begun. The calling thread does not exist in the child, so it must not hold a
        // lock here, nor have claimed (as with a `Once`) to be the one that registers. Therefore,
        // several threads may register the functions.
        // SAFETY: the functions may be called at any fork. They stay for ever.
        let error = unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
        // Release: as above.
        HANDLED.store(error == 0, Release);
    }
}

/// Locks the table and the registry, so that no other thread has locked them when the process
/// forks. All threads that fork do so in the same order. Other threads hold one of these locks at a
/// time.
unsafe extern "C" fn before() {
    let thread = wait::thread();
    // Relaxed, all in this file from here: only this thread stores its own number, and it accesses
    // `CALLS` while it holds the locks.
    if FORKING.load(Relaxed) != thread {
        wait::fork::lock();
        rcu::fork::lock();
        FORKING.store(thread, Relaxed);
    }
    CALLS.fetch_add(1, Relaxed);
}

unsafe extern "C" fn in_parent() {
    if is_last() {
        rcu::fork::unlock();
        wait::fork::unlock();
    }
}

/// It neither allocates nor frees memory, because other threads may have been doing so when the
/// process forked.
unsafe extern "C" fn in_child() {
    if is_last() {
        rcu::fork::unlock_in_child();
        wait::fork::unlock_in_child();
    }
}

/// Returns whether the caller is to unlock what `before` locked.
fn is_last() -> bool {
    let is_last = CALLS.fetch_sub(1, Relaxed) == 1;
    if is_last {
        FORKING.store(0, Relaxed);
    }
    is_last
}
