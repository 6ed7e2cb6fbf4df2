//! Waiting for those who are about to come.

use std::sync::Arc;
use std::time::{Duration, Instant};

use spanlock_journal_commit::jbd2::raw::gathering::Gathering;
use spanlock_journal_commit::jbd2::raw::signal::Signal;
use spanlock_journal_commit::rendezvous::Rendezvous;

use super::{at_once, crowd, program};
use crate::pairs::Operation as Op;
use crate::program::Program;
use crate::trace::{note, perform};

const NAME: &str = "journal-rendezvous";

/// How long the policy believes a commit to take: so long that its decisions do not depend on the clock.
const COMMIT: Duration = Duration::from_secs(36_000);

pub(super) fn programs() -> Vec<Program> {
    let called =
        "the one that commits sleeps until the last one that is expected calls it, and no longer";
    vec![
        program(
            NAME,
            "gather",
            called,
            [&[Op::Gather, Op::Shut], &[Op::Arrive]],
            || meet(1, &[gather, arrive]),
        ),
        program(
            NAME,
            "arrive-each",
            "of two that are expected exactly one is the last",
            [&[Op::Arrive], &[Op::Arrive]],
            || {
                let is_last = at_once(&expecting(2), &[arrive, arrive]);
                assert!(is_last[0] != is_last[1]);
            },
        ),
        program(
            NAME,
            "gather-3",
            called,
            [&[Op::Gather, Op::Shut], &[Op::Arrive], &[Op::Arrive]],
            || meet(2, &[gather, arrive, arrive]),
        ),
        crowd(NAME, "crowd-4", called, 4, || {
            meet(3, &[gather, arrive, arrive, arrive]);
        }),
        crowd(NAME, "crowd-8", called, 8, || {
            meet(
                7,
                &[
                    gather, arrive, arrive, arrive, arrive, arrive, arrive, arrive,
                ],
            );
        }),
    ]
}

/// So many were woken by the last commit.
fn expecting(threads: u32) -> Arc<Gathering> {
    let policy = Rendezvous::learnt(Instant::now(), COMMIT);
    let rendezvous = Gathering::with_policy(Arc::new(Signal::new()), policy);
    (0..threads).for_each(|_| assert!(!rendezvous.arrive()));
    rendezvous.shut();
    rendezvous.committed();
    Arc::new(rendezvous)
}

fn meet(expected: u32, works: &[fn(usize, &Gathering) -> bool]) {
    let rendezvous = expecting(expected);
    at_once(&rendezvous, works);
    // Whoever came, before it was shut or after, is expected again: those of whom some wait for the next one.
    rendezvous.committed();
    let mut last = 0;
    rendezvous.shut();
    while !rendezvous.arrive() {
        last += 1;
        assert!(last < 64, "nobody is the last");
    }
    assert_eq!(last + 1, expected);
}

/// The one that commits.
fn gather(me: usize, rendezvous: &Gathering) -> bool {
    let are_all_here = rendezvous.gather(|| false);
    perform(Op::Gather);
    note(me, format!("{are_all_here:?}"));
    rendezvous.shut();
    perform(Op::Shut);
    false
}

/// Whether it is the last.
fn arrive(me: usize, rendezvous: &Gathering) -> bool {
    let is_last = rendezvous.arrive();
    if is_last {
        rendezvous.call();
    }
    perform(Op::Arrive);
    note(me, if is_last { "last" } else { "here" });
    is_last
}
