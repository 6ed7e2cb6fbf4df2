//! Poisoning: nothing is acknowledged during or after a failure of the medium.

use std::sync::Arc;

use spanlock_journal_commit::jbd2::raw::medium::Operations;
use spanlock_journal_commit::jbd2::raw::signal::Signal;
use spanlock_sync::atomic::{AtomicBool, Ordering::Relaxed};
use spanlock_verify::{Suite, note_as, perform};

use crate::threads::{at_once, crowd, program};

pub(crate) fn suite() -> Suite {
    let flush: &[&str] = &["begin", "end", "settle"];
    let operation: &[&str] = &["begin", "end"];
    Suite::new("journal-medium")
        .operations(["begin", "end", "settle", "fail"])
        .program(program(
            "beside-a-failure",
            BESIDE,
            [flush, operation],
            || poisoned(&[acknowledge, lose]),
        ))
        .program(program(
            "beside-a-death",
            "an operation whose thread dies counts as failed",
            [flush, operation],
            || poisoned(&[acknowledge, die]),
        ))
        .program(program(
            "settle-each",
            "two threads that flush wait for each other's operations without a deadlock, and both \
             acknowledge",
            [flush, flush],
            || {
                let scene = scene();
                let acknowledged = at_once(&scene, &[acknowledge, acknowledge]);
                assert_eq!(acknowledged, [true; 2]);
            },
        ))
        .program(program(
            "fail",
            "a failure that belongs to no operation reaches every thread, and nothing is \
             acknowledged after it",
            [&["fail"], flush],
            || poisoned(&[fail, acknowledge]),
        ))
        .program(program(
            "fail-each",
            "a second failure does not replace the first",
            [&["fail"], &["fail"]],
            fail_each,
        ))
        .program(program(
            "told",
            "a failure wakes a thread that sleeps for an event that no longer comes",
            [operation, &[]],
            || poisoned(&[lose, wait_for_ever]),
        ))
        .program(program(
            "beside-a-failure-3",
            BESIDE,
            [flush, operation, operation],
            || poisoned(&[acknowledge, lose, write]),
        ))
        .program(program(
            "fail-3",
            BESIDE,
            [&["fail"], flush, operation],
            || {
                poisoned(&[fail, acknowledge, write]);
            },
        ))
        .program(crowd("crowd-4", BESIDE, 4, || {
            poisoned(&[lose, acknowledge, acknowledge, wait_for_ever]);
        }))
}

const BESIDE: &str =
    "a thread that flushed acknowledges only if nothing failed before or during that flush";

struct Scene {
    medium: Operations<&'static str>,
    alarm: Arc<Signal>,
    /// Whether unflushed writes have been lost.
    lost: AtomicBool,
}

fn scene() -> Arc<Scene> {
    let alarm = Arc::new(Signal::new());
    Arc::new(Scene {
        medium: Operations::new("died", vec![alarm.clone()]),
        alarm,
        lost: AtomicBool::new(false),
    })
}

/// Runs `works`, one of which causes a failure. Checks that every later operation fails.
fn poisoned(works: &[fn(usize, &Scene) -> bool]) {
    let scene = scene();
    at_once(&scene, works);
    assert!(scene.medium.settle().is_err());
    assert!(scene.medium.begin().is_err());
}

/// Flushes, and acknowledges if the medium has not failed.
fn acknowledge(me: usize, scene: &Scene) -> bool {
    let Ok(flush) = scene.medium.begin() else {
        note_as(me, "too late");
        return false;
    };
    perform("begin");
    // Relaxed: the check is about the loss itself, whether or not a thread knows of it.
    let is_durable = !scene.lost.load(Relaxed);
    let ended = flush.end(Ok(()));
    perform("end");
    let acknowledged = ended.and_then(|()| scene.medium.settle()).is_ok();
    perform("settle");
    assert!(is_durable || !acknowledged, "lost data was acknowledged");
    let outcome = if acknowledged {
        "acknowledged"
    } else {
        "failed"
    };
    note_as(me, outcome);
    acknowledged
}

/// Performs an operation that fails and loses all unflushed writes.
fn lose(me: usize, scene: &Scene) -> bool {
    if let Ok(operation) = scene.medium.begin() {
        perform("begin");
        // Relaxed: as in `acknowledge`.
        scene.lost.store(true, Relaxed);
        let ended = operation.end(Err("lost"));
        perform("end");
        note_as(me, format!("{ended:?}"));
    }
    false
}

fn die(_: usize, scene: &Scene) -> bool {
    if let Ok(operation) = scene.medium.begin() {
        perform("begin");
        // Relaxed: as in `acknowledge`.
        scene.lost.store(true, Relaxed);
        drop(operation);
        perform("end");
    }
    false
}

/// Performs an operation that succeeds.
fn write(_: usize, scene: &Scene) -> bool {
    if scene.medium.begin().is_ok_and(|it| it.end(Ok(())).is_ok()) {
        perform("begin");
        perform("end");
    }
    false
}

fn fail(_: usize, scene: &Scene) -> bool {
    scene.medium.fail("a handle was dropped");
    perform("fail");
    false
}

/// Sleeps at one of the journal's signals until the medium fails.
fn wait_for_ever(_: usize, scene: &Scene) -> bool {
    let failed = || scene.medium.check().is_err().then_some(());
    scene.alarm.wait_until(failed);
    false
}

fn fail_each() {
    let scene = scene();
    let fail = |me: usize, scene: &Scene| {
        scene.medium.fail(["one", "other"][me]);
        perform("fail");
        let failure = scene.medium.check().expect_err("it has failed");
        note_as(me, failure);
        failure
    };
    let failures = at_once(&scene, &[fail, fail]);
    assert_eq!(failures[0], failures[1]);
}
