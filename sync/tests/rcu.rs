//! Sections, as shipped: who waits for them, and for whom.

#![cfg(not(any(spanlock_loom, spanlock_shuttle)))]

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::*};
use std::sync::mpsc;
use std::thread;

use spanlock_sync::rcu::Rcu;

#[test]
fn nobody_is_waited_for_who_is_in_no_section() {
    let rcu = Rcu::new();
    rcu.synchronize();
    drop(rcu.enter());
    rcu.synchronize();
}

#[test]
fn a_section_is_waited_for_to_its_outermost_end() {
    let rcu = &Rcu::new();
    let (entered, has_entered) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel();
    let ended = &AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(move || {
            let outer = rcu.enter();
            drop(rcu.enter());
            entered.send(()).unwrap();
            may_go_on.recv().unwrap();
            ended.store(true, SeqCst);
            drop(outer);
        });
        has_entered.recv().unwrap();
        let waits = scope.spawn(|| {
            rcu.synchronize();
            assert!(ended.load(SeqCst), "the section has not ended");
        });
        for _ in 0..100 {
            thread::yield_now();
        }
        go_on.send(()).unwrap();
        waits.join().unwrap();
    });
}

/// Only sections that were there before matter: a stream of later ones does not keep anybody waiting.
#[test]
fn later_sections_are_not_waited_for() {
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
            rcu.synchronize();
        }
        done.store(true, SeqCst);
    });
}

/// What is freed after the wait is read by nobody: readers walk to a box that a writer replaces and frees.
#[test]
fn what_was_unlinked_is_read_by_nobody_after_the_wait() {
    const GOOD: u64 = 0x600d_600d_600d_600d;
    let rcu = Rcu::new();
    let link = AtomicPtr::new(Box::into_raw(Box::new(AtomicU64::new(GOOD))));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(SeqCst) {
                    let section = rcu.enter();
                    // SAFETY: it is freed only after all sections have ended that could have loaded it.
                    let value = unsafe { &*link.load(Acquire) }.load(Relaxed);
                    assert_eq!(value, GOOD, "read after it was given up");
                    drop(section);
                }
            });
        }
        for _ in 0..2_000 {
            let new = Box::into_raw(Box::new(AtomicU64::new(GOOD)));
            let old = link.swap(new, AcqRel);
            rcu.synchronize();
            // SAFETY: unlinked, and every section that could have seen it has ended.
            let old = unsafe { Box::from_raw(old) };
            old.store(0, Relaxed);
        }
        done.store(true, SeqCst);
    });
    // SAFETY: the threads are gone.
    drop(unsafe { Box::from_raw(link.swap(ptr::null_mut(), SeqCst)) });
}

/// A thread's counter goes to another when it ends; threads that come and go leave nothing behind that is waited for.
#[test]
fn threads_come_and_go() {
    let rcu = Rcu::new();
    for _ in 0..200 {
        thread::scope(|scope| {
            scope.spawn(|| drop(rcu.enter()));
            scope.spawn(|| rcu.synchronize());
        });
    }
    rcu.synchronize();
}
