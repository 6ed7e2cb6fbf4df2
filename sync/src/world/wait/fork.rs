//! What happens to the table when the process forks.
//!
//! The child has only the thread that forked. Nodes on the stacks of the other threads are still in
//! the queues, but the child may use that memory for new threads. So the child evicts them, and
//! calls no waker.
//!
//! It keeps the nodes of the thread that forked, with one exception. Where another thread's waiter
//! at the head was awake, the next waiter would become the head, and nobody would wake it. So it is
//! evicted, too, and blocks nobody: it must be polled again in the child, although it is not woken.

use core::cell::UnsafeCell;
use std::sync::Once;

use super::{BUCKETS, COUNTS, TABLE, thread};
use crate::MutexGuard;
use crate::atomic::Ordering::Relaxed;
use crate::wait::bucket::{Armed, Bucket};

/// The guards of all buckets while a thread forks.
struct Held(UnsafeCell<[Option<MutexGuard<'static, Bucket>>; BUCKETS]>);

// SAFETY: only the thread that has locked all buckets accesses it: the thread that forks, in the
// parent and in the child.
unsafe impl Sync for Held {}

static HELD: Held = Held(UnsafeCell::new([const { None }; BUCKETS]));

/// Registers the functions below, which the system then calls at each fork. (If there is no memory
/// for that, the child must not use locks for which other threads wait.)
pub(super) fn handle() {
    static HANDLED: Once = Once::new();
    HANDLED.call_once(|| {
        // SAFETY: the functions may be called at any fork. They stay for ever.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    });
}

/// Locks every bucket, so that no other thread has locked one when the process forks. All threads
/// that fork do so in the same order, and other threads lock one bucket at a time.
unsafe extern "C" fn before() {
    for (i, bucket) in TABLE.iter().enumerate() {
        let guard = bucket.0.lock();
        // SAFETY: two threads that fork lock the first bucket one after the other, and this one
        // keeps it locked. The reference ends at once.
        unsafe { (*HELD.0.get())[i] = Some(guard) };
    }
}

unsafe extern "C" fn in_parent() {
    for_each_bucket(|_, bucket| drop(bucket));
}

/// It neither allocates nor frees memory, because other threads may have been doing so when the
/// process forked.
unsafe extern "C" fn in_child() {
    for_each_bucket(|i, mut bucket| {
        // SAFETY: the bucket is locked. Every node that was alive before the fork still is, because
        // the child has run no other code yet.
        while let Some(removed) = unsafe { bucket.evict_one_of_others(thread()) } {
            // The counters of the lock's handle stay too high, which only sends threads here. (They
            // are never too low: an evicted waiter arms no queue that was not armed.)
            // Relaxed, all: the child has no other thread.
            COUNTS[i].waiters.fetch_sub(1, Relaxed);
            match removed.armed {
                Armed::Same => {}
                Armed::More => drop(COUNTS[i].armed.fetch_add(1, Relaxed)),
                Armed::Less => drop(COUNTS[i].armed.fetch_sub(1, Relaxed)),
            }
            // A waker is foreign code.
            core::mem::forget(removed.waker);
        }
    });
}

/// Calls `f` with the guards of all buckets, the last first.
fn for_each_bucket(mut f: impl FnMut(usize, MutexGuard<'static, Bucket>)) {
    for i in (0..BUCKETS).rev() {
        // SAFETY: this thread has locked all buckets in `before`, and unlocks the first one last.
        if let Some(guard) = unsafe { (*HELD.0.get())[i].take() } {
            f(i, guard);
        }
    }
}
