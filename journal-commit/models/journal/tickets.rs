//! Tickets: which thread writes which prepared buffers.

use std::sync::Arc;

use spanlock_journal_commit::jbd2::raw::tickets::Tickets;
use spanlock_verify::{Suite, note_as, perform};

use super::ONE_COMMITS;
use crate::threads::{Cells, at_once, crowd, program};

pub(crate) fn suite() -> Suite {
    let main: &[&str] = &["publish", "claim", "complete"];
    let helper: &[&str] = &["admit", "claim", "complete"];
    Suite::new("journal-tickets")
        .operations(["publish", "admit", "claim", "complete"])
        .no_pair("publish", "publish", ONE_COMMITS)
        .program(program("hand-over", HANDED_OVER, [main, helper], || {
            hand_over::<2>(1, &[prepare, help]);
        }))
        .program(program("runs", HANDED_OVER, [main, helper], || {
            hand_over::<3>(2, &[prepare, help]);
        }))
        .program(program(
            "surplus",
            "at most as many threads as buffers are admitted",
            [&["admit"], &["admit"]],
            surplus,
        ))
        .program(program(
            "hand-over-3",
            HANDED_OVER,
            [main, helper, helper],
            || {
                hand_over::<1>(1, &[prepare, help, help]);
            },
        ))
        .program(crowd("crowd-4", HANDED_OVER, 4, || {
            hand_over::<2>(1, &[prepare, help, help, help]);
        }))
        .program(crowd("crowd-8", HANDED_OVER, 8, || {
            hand_over::<4>(1, &[prepare, help, help, help, help, help, help, help]);
        }))
}

const HANDED_OVER: &str = "each buffer is written once, by a thread that sees it prepared; exactly \
                           one thread completes the last buffer, and it sees every buffer written";

/// A transaction of `N` buffers.
struct Scene<const N: usize> {
    tickets: Tickets,
    /// The state of each buffer: 1 when prepared, 2 when written.
    buffers: Cells<N>,
}

fn hand_over<const N: usize>(run: u32, works: &[fn(usize, &Scene<N>) -> bool]) {
    let scene = Arc::new(Scene {
        tickets: Tickets::new(N as u32, run),
        buffers: Cells::new(),
    });
    let lasts = at_once(&scene, works);
    let last = lasts.iter().filter(|&&last| last).count();
    assert_eq!(last, 1, "exactly one thread is the last");
    assert!(!scene.tickets.is_open());
}

/// The work of the thread that commits.
fn prepare<const N: usize>(me: usize, scene: &Scene<N>) -> bool {
    for buffer in 0..N {
        scene.buffers.add(buffer, 1);
        scene.tickets.publish();
        perform("publish");
    }
    write(me, scene)
}

fn help<const N: usize>(me: usize, scene: &Scene<N>) -> bool {
    let is_needed = scene.tickets.admit();
    perform("admit");
    is_needed && write(me, scene)
}

/// Writes buffers until none is left. Returns whether this thread completed the last buffer.
fn write<const N: usize>(me: usize, scene: &Scene<N>) -> bool {
    let mut last = false;
    while let Some(run) = scene.tickets.claim() {
        perform("claim");
        for buffer in run.clone() {
            let found = scene.buffers.get(buffer as usize);
            assert_eq!(found, 1, "prepared, not yet written");
            scene.buffers.add(buffer as usize, 1);
            note_as(me, format!("{buffer}"));
        }
        last |= scene.tickets.complete(&run);
        perform("complete");
    }
    if last {
        assert_eq!(scene.buffers.all(), [2; N], "the last thread sees all");
        note_as(me, "last");
    }
    last
}

fn surplus() {
    let tickets = Arc::new(Tickets::new(1, 1));
    let admit = |me: usize, tickets: &Tickets| {
        let admitted = tickets.admit();
        perform("admit");
        note_as(me, if admitted { "in" } else { "not needed" });
        u32::from(admitted)
    };
    let admitted: u32 = at_once(&tickets, &[admit, admit]).iter().sum();
    assert_eq!(admitted, 1);
}
