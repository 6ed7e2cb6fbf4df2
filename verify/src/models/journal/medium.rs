//! Poisoning: nothing is acknowledged after a failure of the medium, nor beside one.

use std::sync::Arc;

use spanlock_journal_commit::jbd2::raw::medium::Medium;
use spanlock_journal_commit::jbd2::raw::signal::Signal;
use spanlock_sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::{at_once, crowd, program};
use crate::pairs::Operation as Op;
use crate::program::Program;
use crate::trace::{note, perform};

const NAME: &str = "journal-medium";

pub(super) fn programs() -> Vec<Program> {
    let beside = "who has flushed acknowledges only if nothing failed before or beside that flush";
    let flush: &[Op] = &[Op::Begin, Op::End, Op::Settle];
    vec![
        program(
            NAME,
            "beside-a-failure",
            beside,
            [flush, &[Op::Begin, Op::End]],
            || poisoned(&[acknowledge, lose]),
        ),
        program(
            NAME,
            "beside-a-death",
            "who dies in an operation has failed",
            [flush, &[Op::Begin, Op::End]],
            || poisoned(&[acknowledge, die]),
        ),
        program(
            NAME,
            "settle-each",
            "two who flush wait for each other's operations, not in a circle, and both acknowledge",
            [flush, flush],
            || {
                let scene = scene();
                let acknowledged = at_once(&scene, &[acknowledge, acknowledge]);
                assert_eq!(acknowledged, [true; 2]);
            },
        ),
        program(
            NAME,
            "fail",
            "what fails for another reason than an operation fails all, and nothing is acknowledged after it",
            [&[Op::Fail], flush],
            || poisoned(&[fail, acknowledge]),
        ),
        program(
            NAME,
            "fail-each",
            "of two failures the first stays",
            [&[Op::Fail], &[Op::Fail]],
            fail_each,
        ),
        program(
            NAME,
            "told",
            "who sleeps for what will not come any more is woken by the failure",
            [&[Op::Begin, Op::End], &[]],
            || poisoned(&[lose, wait_for_ever]),
        ),
        program(
            NAME,
            "beside-a-failure-3",
            beside,
            [flush, &[Op::Begin, Op::End], &[Op::Begin, Op::End]],
            || poisoned(&[acknowledge, lose, write]),
        ),
        program(
            NAME,
            "fail-3",
            beside,
            [&[Op::Fail], flush, &[Op::Begin, Op::End]],
            || poisoned(&[fail, acknowledge, write]),
        ),
        crowd(NAME, "crowd-4", beside, 4, || {
            poisoned(&[lose, acknowledge, acknowledge, wait_for_ever]);
        }),
    ]
}

struct Scene {
    medium: Medium<&'static str>,
    alarm: Arc<Signal>,
    /// What was written and not flushed is gone.
    lost: AtomicBool,
}

fn scene() -> Arc<Scene> {
    let alarm = Arc::new(Signal::new());
    Arc::new(Scene {
        medium: Medium::new("died", vec![alarm.clone()]),
        alarm,
        lost: AtomicBool::new(false),
    })
}

/// One of them fails: so do all, afterwards.
fn poisoned(works: &[fn(usize, &Scene) -> bool]) {
    let scene = scene();
    at_once(&scene, works);
    assert!(scene.medium.settle().is_err());
    assert!(scene.medium.begin().is_err());
}

/// Flushes, and acknowledges if it may.
fn acknowledge(me: usize, scene: &Scene) -> bool {
    let Ok(flush) = scene.medium.begin() else {
        note(me, "too late");
        return false;
    };
    perform(Op::Begin);
    // Relaxed: what is lost by then, whoever is told of it.
    let is_durable = !scene.lost.load(Relaxed);
    let ended = flush.end(Ok(()));
    perform(Op::End);
    let acknowledged = ended.and_then(|()| scene.medium.settle()).is_ok();
    perform(Op::Settle);
    assert!(is_durable || !acknowledged, "what is acknowledged was lost");
    note(
        me,
        if acknowledged {
            "acknowledged"
        } else {
            "failed"
        },
    );
    acknowledged
}

/// An operation that fails, and loses what was not flushed.
fn lose(me: usize, scene: &Scene) -> bool {
    if let Ok(operation) = scene.medium.begin() {
        perform(Op::Begin);
        scene.lost.store(true, Relaxed);
        let ended = operation.end(Err("lost"));
        perform(Op::End);
        note(me, format!("{ended:?}"));
    }
    false
}

fn die(_: usize, scene: &Scene) -> bool {
    if let Ok(operation) = scene.medium.begin() {
        perform(Op::Begin);
        scene.lost.store(true, Relaxed);
        drop(operation);
        perform(Op::End);
    }
    false
}

/// An operation that ends well.
fn write(_: usize, scene: &Scene) -> bool {
    if scene.medium.begin().is_ok_and(|it| it.end(Ok(())).is_ok()) {
        perform(Op::Begin);
        perform(Op::End);
    }
    false
}

fn fail(_: usize, scene: &Scene) -> bool {
    scene.medium.fail("a handle was dropped");
    perform(Op::Fail);
    false
}

/// Sleeps at a signal of the journal's, for nothing that comes.
fn wait_for_ever(_: usize, scene: &Scene) -> bool {
    let failed = || scene.medium.check().is_err().then_some(());
    scene.alarm.wait_until(failed);
    false
}

fn fail_each() {
    let scene = scene();
    let fail = |me: usize, scene: &Scene| {
        scene.medium.fail(["one", "other"][me]);
        perform(Op::Fail);
        let failure = scene.medium.check().expect_err("it has failed");
        note(me, failure);
        failure
    };
    let failures = at_once(&scene, &[fail, fail]);
    assert_eq!(failures[0], failures[1]);
}
