//! Every implementation of `Park` keeps one wake, and its waker ends the sleep of another thread.

#![cfg(not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle)))]

use std::sync::mpsc;
use std::thread;

use spanlock_sync::{DefaultPark, Park, Spin};

fn a_wake_is_kept_once<P: Park>() {
    P::with(|place| {
        while place.try_park() {}
        place.waker().wake_by_ref();
        place.waker().wake_by_ref();
        assert!(place.try_park());
        assert!(!place.try_park());
        place.waker().wake_by_ref();
        place.park();
        assert!(!place.try_park());
    });
}

fn another_thread_wakes<P: Park>() {
    for _ in 0..200 {
        let (send, receive) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(move || {
                P::with(|place| {
                    while place.try_park() {}
                    send.send(place.waker().clone()).unwrap();
                    place.park();
                });
            });
            receive.recv().unwrap().wake();
        });
    }
}

/// A waker may outlive the wait, and its thread.
fn a_waker_outlives_the_wait<P: Park>() {
    let waker = thread::spawn(|| P::with(|place| place.waker().clone()));
    waker.join().unwrap().wake();
}

fn all<P: Park>() {
    a_wake_is_kept_once::<P>();
    another_thread_wakes::<P>();
    a_waker_outlives_the_wait::<P>();
}

#[test]
fn spin_keeps_the_contract() {
    all::<Spin>();
}

#[test]
fn the_default_keeps_the_contract() {
    all::<DefaultPark>();
}
