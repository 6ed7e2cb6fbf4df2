//! A commit waits for the threads that the last commit woke.

use std::sync::Arc;
use std::time::{Duration, Instant};

use spanlock_journal_commit::jbd2::raw::gathering::Gathering;
use spanlock_journal_commit::jbd2::raw::signal::Signal;
use spanlock_journal_commit::rendezvous::Rendezvous;
use spanlock_verify::{Suite, note_as, perform};

use super::ONE_COMMITS;
use crate::threads::{at_once, crowd, program};

/// The duration of a commit that the policy assumes. It is so long that no decision depends on the
/// clock.
const COMMIT: Duration = Duration::from_secs(36_000);

pub(crate) fn suite() -> Suite {
    Suite::new("journal-rendezvous")
        .operations(["gather", "arrive", "shut"])
        .no_pair("gather", "gather", ONE_COMMITS)
        .no_pair("gather", "shut", ONE_COMMITS)
        .no_pair("shut", "shut", ONE_COMMITS)
        .program(program(
            "gather",
            CALLED,
            [&["gather", "shut"], &["arrive"]],
            || meet(1, &[gather, arrive]),
        ))
        .program(program(
            "arrive-each",
            "of two expected threads exactly one learns that it is the last",
            [&["arrive"], &["arrive"]],
            || {
                let is_last = at_once(&expecting(2), &[arrive, arrive]);
                assert!(is_last[0] != is_last[1]);
            },
        ))
        .program(program(
            "gather-3",
            CALLED,
            [&["gather", "shut"], &["arrive"], &["arrive"]],
            || meet(2, &[gather, arrive, arrive]),
        ))
        .program(crowd("crowd-4", CALLED, 4, || {
            meet(3, &[gather, arrive, arrive, arrive]);
        }))
        .program(crowd("crowd-8", CALLED, 8, || {
            let mut all = [arrive as fn(usize, &Gathering) -> bool; 8];
            all[0] = gather;
            meet(7, &all);
        }))
}

const CALLED: &str =
    "the thread that commits sleeps until the last expected thread wakes it, and no longer";

/// Returns a gathering that expects the threads that the last commit woke.
fn expecting(threads: u32) -> Arc<Gathering> {
    let policy = Rendezvous::learnt(Instant::now(), COMMIT);
    let gathering = Gathering::with_policy(Arc::new(Signal::new()), policy);
    (0..threads).for_each(|_| assert!(!gathering.arrive()));
    gathering.shut();
    gathering.committed();
    Arc::new(gathering)
}

fn meet(expected: u32, works: &[fn(usize, &Gathering) -> bool]) {
    let gathering = expecting(expected);
    at_once(&gathering, works);
    // Every thread that arrived is expected again, whether it came before `shut` or after.
    gathering.committed();
    let mut last = 0;
    gathering.shut();
    while !gathering.arrive() {
        last += 1;
        assert!(last < 64, "no arrival is the last");
    }
    assert_eq!(last + 1, expected);
}

/// The work of the thread that commits.
fn gather(me: usize, gathering: &Gathering) -> bool {
    let are_all_here = gathering.gather(|| false);
    perform("gather");
    note_as(me, format!("{are_all_here:?}"));
    gathering.shut();
    perform("shut");
    false
}

/// Returns whether this thread is the last.
fn arrive(me: usize, gathering: &Gathering) -> bool {
    let is_last = gathering.arrive();
    if is_last {
        gathering.call();
    }
    perform("arrive");
    note_as(me, if is_last { "last" } else { "here" });
    is_last
}
