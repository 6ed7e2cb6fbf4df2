//! Who writes the commit block.

use std::sync::Arc;

use spanlock_journal_commit::jbd2::raw::owner::{CommitRight, Owner, Turn};
use spanlock_journal_commit::jbd2::raw::signal::Signal;
use spanlock_sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::{Cells, at_once, crowd, program};
use crate::pairs::Operation as Op;
use crate::program::Program;
use crate::trace::{note, perform};

const NAME: &str = "journal-owner";

pub(super) fn programs() -> Vec<Program> {
    let one = "one thread at a time has the right to write the commit block, and sees what those before it did; who sees it done sees that; if one leaves it, another takes it";
    vec![
        program(
            NAME,
            "hand-on",
            one,
            [
                &[Op::Await, Op::Own, Op::Finish],
                &[Op::Open, Op::Own, Op::LetGo],
            ],
            || owned(&[take_over, open_and_die]),
        ),
        program(
            NAME,
            "seal-each",
            one,
            [
                &[Op::Open, Op::Own, Op::Finish, Op::Await],
                &[Op::Own, Op::Finish, Op::Await],
            ],
            || owned(&[open_and_seal, seal]),
        ),
        program(
            NAME,
            "let-go-each",
            one,
            [&[Op::Open, Op::Own, Op::LetGo], &[Op::Own, Op::LetGo]],
            || owned(&[open_and_die, die]),
        ),
        program(
            NAME,
            "open",
            "who waits is woken when all other blocks are written, by one who leaves then",
            [&[Op::Await, Op::Own, Op::Finish], &[Op::Open]],
            || owned(&[take_over, |_, scene| open(scene)]),
        ),
        program(
            NAME,
            "give-up",
            "who waits gives up when it is told to, and then nobody owns",
            [&[Op::Open], &[Op::Await]],
            give_up,
        ),
        program(
            NAME,
            "hand-on-3",
            one,
            [
                &[Op::Await, Op::Own, Op::Finish],
                &[Op::Open, Op::Own, Op::LetGo],
                &[Op::Own, Op::Finish],
            ],
            || owned(&[take_over, open_and_die, seal_at_once]),
        ),
        program(
            NAME,
            "let-go-3",
            one,
            [
                &[Op::Open, Op::Own, Op::LetGo],
                &[Op::Own, Op::LetGo],
                &[Op::Own, Op::LetGo],
            ],
            || owned(&[open_and_die, die, die]),
        ),
        crowd(NAME, "crowd-4", one, 4, || {
            owned(&[take_over, open_and_die, die, seal]);
        }),
    ]
}

struct Scene {
    right: CommitRight,
    /// How often the last block was written, the commit block begun, and finished.
    blocks: Cells<3>,
}

fn owned(works: &[fn(usize, &Scene)]) {
    let scene = Arc::new(Scene {
        right: CommitRight::new(Arc::new(Signal::new())),
        blocks: Cells::new(),
    });
    at_once(&scene, works);
    match scene.right.wait(|| false) {
        // All have let go.
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
    perform(Op::Open);
}

fn own(scene: &Scene) -> Option<Owner<'_>> {
    let owner = scene.right.try_own()?;
    perform(Op::Own);
    assert_eq!(scene.blocks.get(0), 1, "all other blocks are seen");
    Some(owner)
}

fn finish(scene: &Scene, owner: Owner<'_>) {
    scene.blocks.add(1, 1);
    scene.blocks.add(2, 1);
    owner.finish();
    perform(Op::Finish);
}

/// Begins to write the commit block, if nobody else does, and does not finish.
fn die(me: usize, scene: &Scene) {
    if let Some(owner) = own(scene) {
        scene.blocks.add(1, 1);
        note(me, "dies");
        drop(owner);
        perform(Op::LetGo);
    }
}

fn open_and_die(me: usize, scene: &Scene) {
    open(scene);
    die(me, scene);
}

/// Waits until it is done, or its own.
fn take_over(me: usize, scene: &Scene) {
    let turn = scene.right.wait(|| false);
    perform(Op::Await);
    match turn {
        Some(Turn::Yours(owner)) => {
            perform(Op::Own);
            assert_eq!(scene.blocks.get(0), 1, "all other blocks are seen");
            note(me, "takes over");
            finish(scene, owner);
        }
        Some(Turn::Done) => {
            assert_eq!(scene.blocks.get(2), 1, "who sees it done sees it all");
            note(me, "done");
        }
        None => unreachable!("it does not give up"),
    }
}

fn seal_at_once(me: usize, scene: &Scene) {
    if let Some(owner) = own(scene) {
        note(me, "seals");
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

/// The other is told to give up, by the same signal: it may have become owner before.
fn give_up() {
    let changed = Arc::new(Signal::new());
    let over = AtomicBool::new(false);
    let scene = Arc::new((CommitRight::new(changed.clone()), changed, over));
    let tell = |_: usize, (right, changed, over): &(CommitRight, Arc<Signal>, AtomicBool)| {
        // Relaxed: the signal's own lock orders it.
        over.store(true, Relaxed);
        changed.wake_all();
        right.open();
        perform(Op::Open);
    };
    let wait = |me: usize, (right, _, over): &(CommitRight, Arc<Signal>, AtomicBool)| {
        let turn = right.wait(|| over.load(Relaxed));
        perform(Op::Await);
        note(me, if turn.is_none() { "gives up" } else { "owner" });
        drop(turn);
    };
    at_once(&scene, &[tell, wait]);
    assert!(scene.0.try_own().is_some(), "nobody owns");
}
