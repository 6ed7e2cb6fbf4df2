//! The facade under a checker: the numbers of threads, cells, mutexes, and scaled bounds.

use crate::model::Model;
use spanlock_sync::atomic::{AtomicU32, Ordering::Relaxed, zeroed_slice};
use spanlock_sync::cell::UnsafeCell;
use spanlock_sync::hint::{Backoff, scaled};
use spanlock_sync::{Arc, Condvar, Mutex, thread};

fn numbered() {
    assert_eq!(thread::index(), 0);
    let threads = [1, 2].map(|expected| {
        thread::spawn(move || {
            thread::yield_now();
            assert_eq!(thread::index(), expected);
        })
    });
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}

#[test]
fn threads_are_numbered_from_main_on() {
    let model = Model::new(
        "world::threads_are_numbered_from_main_on",
        file!(),
        numbered,
    );
    // The numbers begin anew in each execution.
    assert!(model.must_pass("").executions > 1);
}

struct Racy(UnsafeCell<u32>);

// SAFETY: none. The race is deliberate, and the checker has to find it.
unsafe impl Sync for Racy {}
// SAFETY: it is a number.
unsafe impl Send for Racy {}

fn a_race() {
    let cell = Arc::new(Racy(UnsafeCell::new(0)));
    let other = cell.clone();
    // SAFETY: none. Nothing orders this write and the read below.
    let thread = thread::spawn(move || other.0.with_mut(|value| unsafe { *value = 1 }));
    // SAFETY: none, as above.
    cell.0.with(|value| unsafe { *value });
    thread.join().unwrap();
}

#[test]
fn races_on_cells_are_detected_except_under_shuttle() {
    let model = Model::new(
        "world::races_on_cells_are_detected_except_under_shuttle",
        file!(),
        a_race,
    );
    if cfg!(spanlock_shuttle) {
        model.must_pass("");
    } else {
        model.must_fail("");
    }
}

fn a_turn() {
    let shared = Arc::new((Mutex::new(0), Condvar::new()));
    let other = shared.clone();
    let thread = thread::spawn(move || {
        *other.0.lock() += 1;
        other.1.notify_one();
    });
    let mut value = shared.0.lock();
    while *value == 0 {
        value = shared.1.wait(value);
    }
    drop(value);
    thread.join().unwrap();
    assert_eq!(*shared.0.lock(), 1);
}

#[test]
fn the_checker_schedules_mutexes_and_condition_variables() {
    let model = Model::new(
        "world::the_checker_schedules_mutexes_and_condition_variables",
        file!(),
        a_turn,
    );
    assert!(model.must_pass("").executions > 1);
}

fn small_things() {
    assert_eq!(scaled(32, 1), 1);
    assert!(
        !Backoff::new().round(),
        "there are no rounds under a checker"
    );
    let words = zeroed_slice::<AtomicU32>(3).unwrap();
    assert!(words.iter().all(|word| word.swap(1, Relaxed) == 0));
}

#[test]
fn bounds_are_scaled_and_nothing_spins() {
    let model = Model::new(
        "world::bounds_are_scaled_and_nothing_spins",
        file!(),
        small_things,
    );
    // The explorer runs an execution again, to see that it repeats.
    let runs = if cfg!(spanlock_explorer) { 2 } else { 1 };
    assert_eq!(model.must_pass("").executions, runs);
}
