//! Handles join a transaction while a commit locks it.

use std::sync::Arc;

use spanlock_journal_commit::jbd2::raw::updates::{Refused, Updates};
use spanlock_sync::atomic::{AtomicBool, Ordering::Relaxed};
use spanlock_verify::{Suite, note_as, perform};

use super::ONE_COMMITS;
use crate::threads::{Cells, at_once, crowd, program};

pub(crate) fn suite() -> Suite {
    let handle: &[&str] = &["join", "leave"];
    Suite::new("journal-updates")
        .operations(["leave", "join", "extend", "drain"])
        .no_pair("drain", "drain", ONE_COMMITS)
        .program(program("drain", DRAINED, [&["drain"], handle], || {
            commit(&[drain, join]);
        }))
        .program(program(
            "credits",
            "two handles together never exceed the limit of credits, and release unused credits",
            [handle, handle],
            credits,
        ))
        .program(program(
            "extended",
            "handles that extend their credits together never exceed the limit, and a locked \
             transaction grants none",
            [&["join", "extend", "leave"], &["join", "extend", "leave"]],
            extended,
        ))
        .program(program(
            "extend-late",
            "a handle that asks for more credits during a commit gets them before the lock or not \
             at all, and the commit waits for it",
            [&["drain"], &["join", "extend", "leave"]],
            || commit(&[drain, join_and_extend]),
        ))
        .program(program(
            "give-up",
            "a commit that waits for a forgotten handle is woken and gives up when it is told to",
            [&["drain"], &["join"]],
            give_up,
        ))
        .program(program(
            "drain-3",
            DRAINED,
            [&["drain"], handle, handle],
            || {
                commit(&[drain, join, join]);
            },
        ))
        .program(crowd("crowd-4", DRAINED, 4, || {
            commit(&[drain, join, join, join]);
        }))
        .program(crowd("crowd-8", DRAINED, 8, || {
            commit(&[drain, join, join, join, join, join, join, join]);
        }))
}

const DRAINED: &str =
    "a commit sees everything done by handles that joined before, and no handle joins after it";

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
            "the commit sees exactly the threads that joined"
        );
    }
}

/// Returns what the commit sees of each thread.
fn drain(me: usize, (updates, done): &Scene) -> Vec<u32> {
    updates.lock_and_drain(|| false);
    perform("drain");
    note_as(me, format!("{:?}", done.all()));
    done.all().to_vec()
}

/// Joins and leaves. Returns whether this thread could join.
fn join(me: usize, (updates, done): &Scene) -> Vec<u32> {
    let joined = updates.join(1, 8);
    perform("join");
    if joined.is_ok() {
        done.add(me, 1);
        updates.leave(0);
        perform("leave");
    }
    assert_ne!(joined, Err(Refused::Full));
    note_as(me, if joined.is_ok() { "in" } else { "too late" });
    vec![u32::from(joined.is_ok())]
}

fn credits() {
    let updates = Arc::new(Updates::new());
    let work = |me: usize, updates: &Updates| {
        let joined = updates.join(2, 3);
        perform("join");
        if joined.is_ok() {
            // One of the two is used.
            updates.leave(1);
            perform("leave");
        }
        note_as(me, format!("{joined:?}"));
        u32::from(joined.is_ok())
    };
    let used: u32 = at_once(&updates, &[work, work]).iter().sum();
    assert!(used > 0, "at least one had room");
    assert_eq!(updates.join(4 - used, 3), Err(Refused::Full));
    assert_eq!(updates.join(3 - used, 3), Ok(()));
    updates.leave(0);
    updates.lock_and_drain(|| false);
    assert_eq!(updates.join(0, 3), Err(Refused::Locked));
}

/// Joins, asks for more credits, and leaves. Returns whether this thread could join.
fn join_and_extend(me: usize, (updates, done): &Scene) -> Vec<u32> {
    let joined = updates.join(1, 8);
    perform("join");
    if joined.is_ok() {
        let extended = updates.extend(1, 8);
        perform("extend");
        done.add(me, 1);
        updates.leave(u32::from(extended.is_ok()));
        perform("leave");
        assert_ne!(extended, Err(Refused::Full));
    }
    note_as(me, if joined.is_ok() { "in" } else { "too late" });
    vec![u32::from(joined.is_ok())]
}

fn extended() {
    let updates = Arc::new(Updates::new());
    let work = |me: usize, updates: &Updates| {
        assert_eq!(updates.join(1, 3), Ok(()));
        perform("join");
        let extended = updates.extend(1, 3);
        perform("extend");
        note_as(me, format!("{extended:?}"));
        updates.leave(0);
        perform("leave");
        1 + u32::from(extended.is_ok())
    };
    let used: u32 = at_once(&updates, &[work, work]).iter().sum();
    assert_eq!(used, 3, "one of the two had room");
    assert_eq!(updates.join(1, 3), Err(Refused::Full));
    updates.lock_and_drain(|| false);
    assert_eq!(updates.extend(0, 3), Err(Refused::Locked));
}

/// A handle joins and never leaves; then the journal is dropped.
fn give_up() {
    let scene = Arc::new((Updates::new(), AtomicBool::new(false)));
    let drain = |me: usize, (updates, is_over): &(Updates, AtomicBool)| {
        // Relaxed: the signal's own lock orders it.
        let drained = updates.lock_and_drain(|| is_over.load(Relaxed));
        perform("drain");
        note_as(me, if drained { "all have left" } else { "given up" });
        drained
    };
    let join = |me: usize, (updates, is_over): &(Updates, AtomicBool)| {
        let joined = updates.join(1, 8);
        perform("join");
        // Relaxed: as above.
        is_over.store(true, Relaxed);
        updates.wake();
        note_as(me, if joined.is_ok() { "in" } else { "too late" });
        joined.is_err()
    };
    let [drained, is_out] = at_once(&scene, &[drain, join])[..] else {
        unreachable!("two threads");
    };
    assert_eq!(drained, is_out, "it gives up only for a handle that joined");
}
