//! Faults are injected when they are planned, and only then.

use std::time::Instant;

use crate::model::Model;
use spanlock_sync::atomic::{AtomicU32, Ordering::*};
use spanlock_sync::{Park, Parker, Wakeup};

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
        "faults::a_weak_exchange_fails_by_plan",
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
    let model = Model::new("faults::faults_add_up", file!(), a_loop_of_weak_exchanges);
    // The explorer may run an execution again.
    let in_each = |settings| {
        let outcome = model.must_pass(settings);
        outcome.injected / outcome.executions
    };
    assert_eq!(in_each("weak-cas@0.0"), 1);
    assert_eq!(in_each("weak-cas@0.0 weak-cas@0.1"), 2);
    // The second occasion is not reached, because the first exchange succeeds. A strong exchange is
    // no occasion.
    assert_eq!(in_each("weak-cas@0.1"), 0);
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
    let model = Model::new("faults::a_deadline_passes_by_plan", file!(), sleeps);
    // No clock runs, so a deadline of now does not pass by itself.
    assert_eq!(model.must_pass("").injected, 0);
    let failed = model.must_fail("time-out@0.0");
    assert!(failed.text.contains("TimedOut"), "{}", failed.text);
    // The second sleep has no deadline.
    assert_eq!(model.must_pass("time-out@0.1").injected, 0);
}

#[test]
fn a_sleep_ends_spuriously_by_plan() {
    let model = Model::new("faults::a_sleep_ends_spuriously_by_plan", file!(), sleeps);
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
        "faults::a_sleep_for_ever_is_a_failure",
        file!(),
        a_sleep_without_a_wake,
    );
    model.must_fail("");
    assert!(model.must_pass("spurious-wake@0.0").injected > 0);
}
