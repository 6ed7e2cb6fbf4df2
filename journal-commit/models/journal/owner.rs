//! Which thread writes the commit block.

use std::sync::Arc;

use spanlock_journal_commit::jbd2::raw::owner::{CommitRight, Owner, Turn};
use spanlock_journal_commit::jbd2::raw::signal::Signal;
use spanlock_sync::atomic::{AtomicBool, Ordering::Relaxed};
use spanlock_verify::{Suite, note_as, perform};

use crate::threads::{Cells, at_once, crowd, program};

pub(crate) fn suite() -> Suite {
    Suite::new("journal-owner")
        .operations(["open", "own", "let-go", "finish", "await"])
        .no_pair(
            "open",
            "open",
            "only the thread that completes the last buffer opens the right, once: journal-tickets",
        )
        .program(program(
            "hand-on",
            ONE_OWNER,
            [&["await", "own", "finish"], &["open", "own", "let-go"]],
            || owned(&[take_over, open_and_die]),
        ))
        .program(program(
            "seal-each",
            ONE_OWNER,
            [
                &["open", "own", "finish", "await"],
                &["own", "finish", "await"],
            ],
            || owned(&[open_and_seal, seal]),
        ))
        .program(program(
            "let-go-each",
            ONE_OWNER,
            [&["open", "own", "let-go"], &["own", "let-go"]],
            || owned(&[open_and_die, die]),
        ))
        .program(program(
            "open",
            "the thread that wrote the last of the other blocks wakes the waiter, which then does \
             not stay asleep",
            [&["await", "own", "finish"], &["open"]],
            || owned(&[take_over, |_, scene| open(scene)]),
        ))
        .program(program(
            "give-up",
            "a waiter gives up when it is told to, and then does not own the right",
            [&["open"], &["await"]],
            give_up,
        ))
        .program(program(
            "hand-on-3",
            ONE_OWNER,
            [
                &["await", "own", "finish"],
                &["open", "own", "let-go"],
                &["own", "finish"],
            ],
            || owned(&[take_over, open_and_die, seal_at_once]),
        ))
        .program(program(
            "let-go-3",
            ONE_OWNER,
            [
                &["open", "own", "let-go"],
                &["own", "let-go"],
                &["own", "let-go"],
            ],
            || owned(&[open_and_die, die, die]),
        ))
        .program(crowd("crowd-4", ONE_OWNER, 4, || {
            owned(&[take_over, open_and_die, die, seal]);
        }))
}

const ONE_OWNER: &str = "one thread at a time has the right to write the commit block, and sees \
                         what earlier owners did; a thread that sees the commit done sees what its \
                         owner did; if an owner drops the right too early, another takes it";

struct Scene {
    right: CommitRight,
    /// Three counters: the last other block was written, the commit block was begun, the commit
    /// block was finished.
    blocks: Cells<3>,
}

fn owned(works: &[fn(usize, &Scene)]) {
    let scene = Arc::new(Scene {
        right: CommitRight::new(Arc::new(Signal::new())),
        blocks: Cells::new(),
    });
    at_once(&scene, works);
    match scene.right.wait(|| false) {
        // Every thread has dropped the right.
        Some(Turn::Yours(owner)) => finish(&scene, owner),
        Some(Turn::Done) => {}
        None => unreachable!("it does not give up"),
    }
    assert_eq!(scene.blocks.get(2), 1, "it was finished once");
    assert!(scene.right.try_own().is_none());
}

fn open(scene: &Scene) {
    scene.blocks.add(0, 1);
    scene.right.open();
    perform("open");
}

fn own(scene: &Scene) -> Option<Owner<'_>> {
    let owner = scene.right.try_own()?;
    perform("own");
    assert_eq!(scene.blocks.get(0), 1, "all other blocks are seen");
    Some(owner)
}

fn finish(scene: &Scene, owner: Owner<'_>) {
    scene.blocks.add(1, 1);
    scene.blocks.add(2, 1);
    owner.finish();
    perform("finish");
}

/// Takes the right, if it is free, and drops it with the commit block unfinished.
fn die(me: usize, scene: &Scene) {
    if let Some(owner) = own(scene) {
        scene.blocks.add(1, 1);
        note_as(me, "dies");
        drop(owner);
        perform("let-go");
    }
}

fn open_and_die(me: usize, scene: &Scene) {
    open(scene);
    die(me, scene);
}

/// Waits until the commit is over, or takes the right and finishes the commit.
fn take_over(me: usize, scene: &Scene) {
    let turn = scene.right.wait(|| false);
    perform("await");
    match turn {
        Some(Turn::Yours(owner)) => {
            perform("own");
            assert_eq!(scene.blocks.get(0), 1, "all other blocks are seen");
            note_as(me, "takes over");
            finish(scene, owner);
        }
        Some(Turn::Done) => {
            assert_eq!(scene.blocks.get(2), 1, "what its owner did is seen");
            note_as(me, "done");
        }
        None => unreachable!("it does not give up"),
    }
}

fn seal_at_once(me: usize, scene: &Scene) {
    if let Some(owner) = own(scene) {
        note_as(me, "seals");
        finish(scene, owner);
    }
}

fn seal(me: usize, scene: &Scene) {
    seal_at_once(me, scene);
    take_over(me, scene);
}

fn open_and_seal(me: usize, scene: &Scene) {
    open(scene);
    seal(me, scene);
}

/// Another thread tells the waiter to give up, through the same signal. The waiter may have become
/// the owner before.
fn give_up() {
    let changed = Arc::new(Signal::new());
    let over = AtomicBool::new(false);
    let scene = Arc::new((CommitRight::new(changed.clone()), changed, over));
    let tell = |_: usize, (right, changed, over): &(CommitRight, Arc<Signal>, AtomicBool)| {
        // Relaxed: the signal's own lock orders it.
        over.store(true, Relaxed);
        changed.wake_all();
        right.open();
        perform("open");
    };
    let wait = |me: usize, (right, _, over): &(CommitRight, Arc<Signal>, AtomicBool)| {
        // Relaxed: as above.
        let turn = right.wait(|| over.load(Relaxed));
        perform("await");
        note_as(me, if turn.is_none() { "gives up" } else { "owner" });
        drop(turn);
    };
    at_once(&scene, &[tell, wait]);
    assert!(scene.0.try_own().is_some(), "no thread owns it");
}
