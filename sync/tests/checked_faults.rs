//! Faults are injected when they are planned, and only then.

#![cfg(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))]

mod checked;

use std::sync::Arc;
use std::time::Instant;

use checked::Model;
use spanlock_sync::atomic::{AtomicU32, Ordering::*};
use spanlock_sync::{Park, Parker, Wakeup, thread};

fn three_weak_exchanges() {
    let word = AtomicU32::new(0);
    for now in 0..3 {
        let result = word.compare_exchange_weak(now, now + 1, Relaxed, Relaxed);
        assert_eq!(result, Ok(now));
    }
}

#[test]
fn a_weak_exchange_fails_by_plan() {
    let model = Model::new(
        "a_weak_exchange_fails_by_plan",
        file!(),
        three_weak_exchanges,
    );
    assert_eq!(model.must_pass("").injected, 0);
    for nth in 0..3 {
        let failed = model.must_fail(&format!("weak-cas@0.{nth}"));
        // The failed exchange returns the value that was expected.
        assert!(
            failed.text.contains(&format!("Err({nth})")),
            "{}",
            failed.text
        );
    }
    // A plan that no execution reaches proves nothing. The count shows that it was not reached.
    assert_eq!(model.must_pass("weak-cas@0.3").injected, 0);
    assert_eq!(
        model.must_pass("spurious-wake@0.0 time-out@0.0").injected,
        0
    );
}

fn a_loop_of_weak_exchanges() {
    let word = AtomicU32::new(0);
    let mut now = 0;
    while let Err(found) = word.compare_exchange_weak(now, 1, Relaxed, Relaxed) {
        now = found;
    }
    assert_eq!(word.compare_exchange(1, 2, Relaxed, Relaxed), Ok(1));
}

#[test]
fn faults_add_up() {
    let model = Model::new("faults_add_up", file!(), a_loop_of_weak_exchanges);
    assert_eq!(model.must_pass("weak-cas@0.0").injected, 1);
    assert_eq!(model.must_pass("weak-cas@0.0 weak-cas@0.1").injected, 2);
    // The second occasion is not reached, because the first exchange succeeds. A strong exchange is
    // no occasion.
    assert_eq!(model.must_pass("weak-cas@0.1").injected, 0);
}

fn two_threads_with_weak_exchanges() {
    let word = Arc::new(AtomicU32::new(0));
    let add_one = |word: &AtomicU32| {
        let mut now = 0;
        while let Err(found) = word.compare_exchange_weak(now, now + 1, Relaxed, Relaxed) {
            now = found;
        }
    };
    let others = word.clone();
    let other = thread::spawn(move || add_one(&others));
    add_one(&word);
    other.join().unwrap();
    assert_eq!(word.load(Relaxed), 2);
}

/// Each thread has occasions (points at which a fault is possible) of its own, and a fault leads to
/// new occasions.
#[test]
fn occasions_are_those_of_executions_with_the_whole_plan() {
    let model = Model::new(
        "occasions_are_those_of_executions_with_the_whole_plan",
        file!(),
        two_threads_with_weak_exchanges,
    );
    let found = |settings| model.must_pass(settings).occasions.join(" ");
    // The thread that comes second finds another value, and tries again.
    let without = "weak-cas@0.0 weak-cas@0.1 weak-cas@1.0 weak-cas@1.1";
    assert_eq!(found(""), without);
    assert_eq!(
        found("weak-cas@1.1"),
        "weak-cas@0.0 weak-cas@1.0 weak-cas@1.1 weak-cas@1.2"
    );
    assert_eq!(found("weak-cas@0.2"), "");
}

fn sleeps() {
    Parker::with(|parker| {
        parker.waker().wake_by_ref();
        assert_eq!(parker.park_until(Some(Instant::now())), Wakeup::Woken);
        // The first sleep has consumed its wake, unless it ended spuriously.
        parker.waker().wake_by_ref();
        assert_eq!(parker.park_until(None), Wakeup::Woken);
    });
}

#[test]
fn a_deadline_passes_by_plan() {
    let model = Model::new("a_deadline_passes_by_plan", file!(), sleeps);
    // No clock runs, so a deadline of now does not pass by itself.
    assert_eq!(model.must_pass("").injected, 0);
    let failed = model.must_fail("time-out@0.0");
    assert!(failed.text.contains("TimedOut"), "{}", failed.text);
    // The second sleep has no deadline.
    assert_eq!(model.must_pass("time-out@0.1").injected, 0);
}

#[test]
fn a_sleep_ends_spuriously_by_plan() {
    let model = Model::new("a_sleep_ends_spuriously_by_plan", file!(), sleeps);
    for nth in 0..2 {
        assert!(model.must_pass(&format!("spurious-wake@0.{nth}")).injected > 0);
    }
    assert_eq!(model.must_pass("spurious-wake@0.2").injected, 0);
}

fn a_sleep_without_a_wake() {
    Parker::with(|parker| parker.park_until(None));
}

#[test]
fn a_sleep_for_ever_is_a_failure() {
    let model = Model::new(
        "a_sleep_for_ever_is_a_failure",
        file!(),
        a_sleep_without_a_wake,
    );
    model.must_fail("");
    assert!(model.must_pass("spurious-wake@0.0").injected > 0);
}
