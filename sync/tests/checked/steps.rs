//! A bound on the steps between two finished operations detects a model that makes no progress.

#![cfg(spanlock_shuttle)]

use std::sync::Arc;

use crate::model::Model;
use spanlock_sync::atomic::{AtomicU32, Ordering::*};
use spanlock_sync::{Park, Parker, check, thread};

/// More steps than one of the operations below takes, and fewer than all of them.
const BOUND: &str = "steps:40";

const TOLD: &str = "exceeded max_steps bound 40";

fn operations(each: impl Fn()) {
    let word = AtomicU32::new(0);
    for _ in 0..20 {
        for _ in 0..5 {
            word.fetch_add(1, Relaxed);
        }
        each();
    }
    assert_eq!(word.load(Relaxed), 100);
}

fn many_that_finish() {
    operations(check::finished);
    assert!((5..40).contains(&check::longest()), "{}", check::longest());
}

fn one_that_is_long() {
    operations(|| {});
}

#[test]
fn steps_count_from_the_last_finished_operation() {
    let name = "steps::steps_count_from_the_last_finished_operation";
    let model = Model::new(name, file!(), many_that_finish);
    model.must_pass(BOUND);
}

#[test]
fn an_operation_that_takes_too_long_fails() {
    let name = "steps::an_operation_that_takes_too_long_fails";
    let model = Model::new(name, file!(), one_that_is_long);
    model.must_pass("");
    let failed = model.must_fail(BOUND);
    assert!(failed.text.contains(TOLD), "{}", failed.text);
}

/// Another thread sets the word, and main calls `wait` to wait for that.
fn wait_for_another(wait: impl Fn(&AtomicU32, &Parker)) {
    let word = Arc::new(AtomicU32::new(0));
    Parker::with(|parker| {
        let (raised, waker) = (word.clone(), parker.waker().clone());
        let other = thread::spawn(move || {
            raised.store(1, Release);
            waker.wake();
            check::finished();
        });
        wait(&word, parker);
        check::finished();
        other.join().unwrap();
    });
}

fn spins() {
    wait_for_another(|word, _| while word.load(Acquire) == 0 {});
}

fn sleeps() {
    wait_for_another(|word, parker| {
        while word.load(Acquire) == 0 {
            parker.park();
        }
    });
}

#[test]
fn a_thread_that_spins_for_ever_fails() {
    let model = Model::new("steps::a_thread_that_spins_for_ever_fails", file!(), spins);
    let failed = model.must_fail(BOUND);
    assert!(failed.text.contains(TOLD), "{}", failed.text);
}

#[test]
fn a_sleeping_thread_takes_no_steps() {
    let model = Model::new("steps::a_sleeping_thread_takes_no_steps", file!(), sleeps);
    model.must_pass(BOUND);
}
