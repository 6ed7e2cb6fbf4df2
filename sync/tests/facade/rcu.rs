//! RCU, as shipped: which critical sections `synchronize` waits for, and what a thread remembers.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::*};
use std::sync::mpsc;
use std::thread;

use spanlock_sync::rcu::Rcu;

#[test]
fn synchronize_returns_at_once_without_readers() {
    let rcu = Rcu::new();
    assert!(rcu.synchronize());
    drop(rcu.enter());
    assert!(rcu.synchronize());
}

/// Enters twice, drops one of the guards, and has another thread synchronize.
fn waits_for_the_other_guard(first: usize) {
    let rcu = &Rcu::new();
    let (entered, has_entered) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel();
    let ended = &AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut guards = vec![rcu.enter(), rcu.enter()];
            drop(guards.remove(first));
            entered.send(()).unwrap();
            may_go_on.recv().unwrap();
            ended.store(true, SeqCst);
            drop(guards);
        });
        has_entered.recv().unwrap();
        let waits = scope.spawn(|| {
            assert!(rcu.synchronize());
            assert!(ended.load(SeqCst), "the critical section has not ended");
        });
        for _ in 0..100 {
            thread::yield_now();
        }
        go_on.send(()).unwrap();
        waits.join().unwrap();
    });
}

#[test]
fn synchronize_waits_for_the_outer_guard() {
    waits_for_the_other_guard(1);
}

#[test]
fn synchronize_waits_for_the_inner_guard() {
    waits_for_the_other_guard(0);
}

/// A stream of later critical sections does not delay `synchronize` for ever.
#[test]
fn synchronize_does_not_wait_for_later_readers() {
    let rcu = Rcu::new();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(SeqCst) {
                    drop(rcu.enter());
                }
            });
        }
        for _ in 0..200 {
            assert!(rcu.synchronize());
        }
        done.store(true, SeqCst);
    });
}

/// Readers follow a link to a box that a writer replaces and frees.
#[test]
fn no_reader_reads_memory_that_was_freed_after_synchronize() {
    const GOOD: u64 = 0x600d_600d_600d_600d;
    let rcu = Rcu::new();
    let link = AtomicPtr::new(Box::into_raw(Box::new(AtomicU64::new(GOOD))));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(SeqCst) {
                    let guard = rcu.enter();
                    // SAFETY: the box is freed only after `synchronize` has waited for this
                    // reader.
                    let value = unsafe { &*link.load(Acquire) }.load(Relaxed);
                    assert_eq!(value, GOOD, "read after it was freed");
                    drop(guard);
                }
            });
        }
        for _ in 0..2_000 {
            let new = Box::into_raw(Box::new(AtomicU64::new(GOOD)));
            let old = link.swap(new, AcqRel);
            assert!(rcu.synchronize());
            // SAFETY: unlinked, and every critical section that could have found it has ended.
            let old = unsafe { Box::from_raw(old) };
            old.store(0, Relaxed);
        }
        done.store(true, SeqCst);
    });
    // SAFETY: the threads have ended.
    drop(unsafe { Box::from_raw(link.swap(ptr::null_mut(), SeqCst)) });
}

/// When a thread ends, another thread takes over its counter. `synchronize` does not wait for a
/// thread that has ended.
#[test]
fn threads_come_and_go() {
    let rcu = Rcu::new();
    for _ in 0..200 {
        thread::scope(|scope| {
            scope.spawn(|| drop(rcu.enter()));
            scope.spawn(|| assert!(rcu.synchronize()));
        });
    }
    assert!(rcu.synchronize());
}

/// A thread recalls an entry until the next `synchronize`, and for the same `Rcu` only.
#[cfg(feature = "std")]
#[test]
fn memory_is_recalled_until_the_next_synchronize() {
    let (rcu, other) = (Rcu::new(), Rcu::new());
    let memory = ptr::NonNull::from(&rcu).cast();
    rcu.enter().remember(7, memory);
    assert_eq!(rcu.enter().recall(7), Some(memory));
    assert_eq!(rcu.enter().recall(8), None);
    assert_eq!(other.enter().recall(7), None);
    thread::scope(|scope| {
        scope.spawn(|| assert_eq!(rcu.enter().recall(7), None, "another thread"));
    });
    assert!(rcu.synchronize());
    assert_eq!(rcu.enter().recall(7), None);

    // A thread remembers a few keys only.
    (0..1000).for_each(|key| rcu.enter().remember(key, memory));
    let known = (0..1000).filter(|&key| rcu.enter().recall(key).is_some());
    assert_eq!(known.count(), 16);
}
