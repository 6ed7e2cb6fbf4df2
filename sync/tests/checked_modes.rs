//! The mode `RmwLoad` restores executions that loom misses when loads run as written, but loses
//! other executions.

#![cfg(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))]

mod checked;

use checked::Model;
use spanlock_sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering::*};
use spanlock_sync::{Arc, thread};

/// Main loads; the other thread loads, then stores. The model fails in an execution in which main
/// sees the store, and a complete search has such an execution.
fn a_load_before_the_store() {
    let word = Arc::new(AtomicU32::new(0));
    let other = word.clone();
    let thread = thread::spawn(move || {
        other.load(SeqCst);
        other.store(1, SeqCst);
    });
    let seen = word.load(SeqCst);
    thread.join().unwrap();
    assert_eq!(seen, 0, "main saw the store");
}

/// Two threads count in compare-exchange loops. The model fails in an execution in which main sees
/// 1.
fn two_loops_of_exchanges() {
    let word = Arc::new(AtomicU32::new(0));
    let threads = [0; 2].map(|_| {
        let word = word.clone();
        thread::spawn(move || {
            let mut now = word.load(SeqCst);
            while let Err(found) = word.compare_exchange(now, now + 1, SeqCst, SeqCst) {
                now = found;
            }
        })
    });
    let seen = word.load(SeqCst);
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    assert_ne!(seen, 1, "main saw the first of two increments");
}

#[test]
fn rmw_loads_restore_what_loom_misses() {
    let model = Model::new(
        "rmw_loads_restore_what_loom_misses",
        file!(),
        a_load_before_the_store,
    );
    // This is tokio-rs/loom #166 and #392. Once loom fails here, the mode `RmwLoad` can be deleted.
    if cfg!(spanlock_loom) {
        model.must_pass("");
    } else {
        model.must_fail("");
    }
    model.must_fail("rmw-load");
}

#[test]
fn rmw_loads_restore_racing_exchanges() {
    let model = Model::new(
        "rmw_loads_restore_racing_exchanges",
        file!(),
        two_loops_of_exchanges,
    );
    if cfg!(spanlock_loom) {
        model.must_pass("");
    } else {
        model.must_fail("");
    }
    model.must_fail("rmw-load");
}

/// The model fails in an execution in which a load returns a stale value.
fn a_stale_read() {
    let words = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
    let other = words.clone();
    let thread = thread::spawn(move || {
        other[0].store(1, Relaxed);
        other[1].store(1, Relaxed);
    });
    let second = words[1].load(Relaxed);
    let first = words[0].load(Relaxed);
    thread.join().unwrap();
    assert!(
        second <= first,
        "main saw the second store without the first"
    );
}

#[test]
fn rmw_loads_lose_stale_reads() {
    let model = Model::new("rmw_loads_lose_stale_reads", file!(), a_stale_read);
    if cfg!(spanlock_shuttle) {
        model.must_pass("");
    } else {
        model.must_fail("");
    }
    model.must_pass("rmw-load");
}

fn loads_change_nothing() {
    let (number, truth) = (AtomicU32::new(7), AtomicBool::new(true));
    assert_eq!((number.load(Relaxed), number.load(Acquire)), (7, 7));
    assert!(truth.load(Relaxed) && truth.load(Acquire));
    let mut target = 8;
    for pointer in [std::ptr::null_mut(), &raw mut target] {
        let atomic = AtomicPtr::new(pointer);
        assert_eq!(
            (atomic.load(Acquire), atomic.load(Acquire)),
            (pointer, pointer)
        );
    }
}

#[test]
fn rmw_loads_change_nothing() {
    let model = Model::new("rmw_loads_change_nothing", file!(), loads_change_nothing);
    model.must_pass("");
    model.must_pass("rmw-load");
}
