//! Threads and their numbers, as shipped.

#![cfg(all(
    feature = "std",
    not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))
))]

use std::collections::BTreeSet;
use std::sync::{Arc, Barrier};

use spanlock_sync::thread;

#[test]
fn living_threads_have_different_numbers() {
    let all_live = Arc::new(Barrier::new(33));
    let threads: Vec<_> = (0..32)
        .map(|_| {
            let all_live = all_live.clone();
            thread::spawn(move || {
                let index = thread::index();
                all_live.wait();
                assert_eq!(thread::index(), index, "the number changed");
                index
            })
        })
        .collect();
    let mine = thread::index();
    all_live.wait();
    let mut numbers: BTreeSet<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
    numbers.insert(mine);
    assert_eq!(numbers.len(), 33);
}

#[test]
fn a_thread_returns_its_value() {
    thread::yield_now();
    assert_eq!(thread::spawn(|| 7).join().unwrap(), 7);
    let panicked = thread::spawn(|| std::panic::resume_unwind(Box::new(8))).join();
    assert!(panicked.is_err());
}

#[test]
fn every_thread_has_an_identity() {
    let mine = thread::id();
    assert_eq!(thread::id(), mine);
    let other = thread::spawn(thread::id).join().unwrap();
    assert_ne!(other, mine);
}
