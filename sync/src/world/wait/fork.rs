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

/// Locks every bucket.
pub(in crate::world) fn lock() {
    for (i, bucket) in TABLE.iter().enumerate() {
        let guard = bucket.0.lock();
        // SAFETY: two threads that fork lock the first bucket one after the other, and this one
        // keeps it locked. The reference ends at once.
        unsafe { (*HELD.0.get())[i] = Some(guard) };
    }
}

/// Unlocks what this thread has locked with `lock`.
pub(in crate::world) fn unlock() {
    for_each_bucket(|_, bucket| drop(bucket));
}

/// Evicts the waiters of the threads that do not exist in the child, and unlocks what this thread
/// has locked with `lock`.
pub(in crate::world) fn unlock_in_child() {
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
        // SAFETY: this thread has locked all buckets in `lock`, and unlocks the first one last.
        if let Some(guard) = unsafe { (*HELD.0.get())[i].take() } {
            f(i, guard);
        }
    }
}
