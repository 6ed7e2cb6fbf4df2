//! Joining a transaction, against locking it.

use std::sync::Arc;

use spanlock_journal_commit::jbd2::raw::updates::{Refused, Updates};
use spanlock_sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::{Cells, at_once, crowd, program};
use crate::pairs::Operation as Op;
use crate::program::Program;
use crate::trace::{note, perform};

const NAME: &str = "journal-updates";

pub(super) fn programs() -> Vec<Program> {
    let drained = "a commit sees what was done by all who joined before, and nobody joins after";
    let handle: &[Op] = &[Op::Join, Op::Leave];
    vec![
        program(NAME, "drain", drained, [&[Op::Drain], handle], || {
            commit(&[drain, join]);
        }),
        program(
            NAME,
            "credits",
            "two who join have no more credits together than there are, and give them back",
            [handle, handle],
            credits,
        ),
        program(
            NAME,
            "give-up",
            "a commit that waits for one who never leaves gives up when it is told to, and is woken for it",
            [&[Op::Drain], &[Op::Join]],
            give_up,
        ),
        program(
            NAME,
            "drain-3",
            drained,
            [&[Op::Drain], handle, handle],
            || commit(&[drain, join, join]),
        ),
        crowd(NAME, "crowd-4", drained, 4, || {
            commit(&[drain, join, join, join]);
        }),
        crowd(NAME, "crowd-8", drained, 8, || {
            commit(&[drain, join, join, join, join, join, join, join]);
        }),
    ]
}

/// The transaction, and what each thread did in it.
type Scene = (Updates, Cells<8>);

fn commit(works: &[fn(usize, &Scene) -> Vec<u32>]) {
    let scene = Arc::new((Updates::new(), Cells::new()));
    let results = at_once(&scene, works);
    let (seen, joined) = results.split_first().expect("main drains");
    for (i, joined) in joined.iter().enumerate() {
        let seen = &seen[i + 1..][..1];
        assert_eq!(
            seen, joined,
            "who joined before is seen, who did not is not"
        );
    }
}

/// What the commit sees of each thread.
fn drain(me: usize, (updates, done): &Scene) -> Vec<u32> {
    updates.lock_and_drain(|| false);
    perform(Op::Drain);
    note(me, format!("{:?}", done.all()));
    done.all().to_vec()
}

/// Whether it could join.
fn join(me: usize, (updates, done): &Scene) -> Vec<u32> {
    let joined = updates.join(1, 8);
    perform(Op::Join);
    if joined.is_ok() {
        done.add(me, 1);
        updates.leave(0);
        perform(Op::Leave);
    }
    assert_ne!(joined, Err(Refused::Full));
    note(me, if joined.is_ok() { "in" } else { "too late" });
    vec![u32::from(joined.is_ok())]
}

fn credits() {
    let updates = Arc::new(Updates::new());
    let work = |me: usize, updates: &Updates| {
        let joined = updates.join(2, 3);
        perform(Op::Join);
        if joined.is_ok() {
            // One of the two is used.
            updates.leave(1);
            perform(Op::Leave);
        }
        note(me, format!("{joined:?}"));
        u32::from(joined.is_ok())
    };
    let used: u32 = at_once(&updates, &[work, work]).iter().sum();
    assert!(used > 0, "one at least had room");
    assert_eq!(updates.join(4 - used, 3), Err(Refused::Full));
    assert_eq!(updates.join(3 - used, 3), Ok(()));
    updates.leave(0);
    updates.lock_and_drain(|| false);
    assert_eq!(updates.join(0, 3), Err(Refused::Locked));
}

/// One joins and never leaves; then the journal is dropped.
fn give_up() {
    let scene = Arc::new((Updates::new(), AtomicBool::new(false)));
    let drain = |me: usize, (updates, is_over): &(Updates, AtomicBool)| {
        // Relaxed, here and below: the signal's own lock orders it.
        let drained = updates.lock_and_drain(|| is_over.load(Relaxed));
        perform(Op::Drain);
        note(me, if drained { "all have left" } else { "given up" });
        drained
    };
    let join = |me: usize, (updates, is_over): &(Updates, AtomicBool)| {
        let joined = updates.join(1, 8);
        perform(Op::Join);
        is_over.store(true, Relaxed);
        updates.wake();
        note(me, if joined.is_ok() { "in" } else { "too late" });
        joined.is_err()
    };
    let [drained, is_out] = at_once(&scene, &[drain, join])[..] else {
        unreachable!("two threads");
    };
    assert_eq!(drained, is_out, "it gives up for who is in only");
}
