//! Who writes which prepared buffer.

use std::sync::Arc;

use spanlock_journal_commit::jbd2::raw::tickets::Tickets;

use super::{Cells, at_once, crowd, program};
use crate::pairs::Operation as Op;
use crate::program::Program;
use crate::trace::{note, perform};

const NAME: &str = "journal-tickets";

pub(super) fn programs() -> Vec<Program> {
    let handed_over = "each buffer is written once, by one who sees it prepared; exactly one thread is the last, and sees all of them written";
    let main: &[Op] = &[Op::Publish, Op::Claim, Op::Complete];
    let helper: &[Op] = &[Op::Admit, Op::Claim, Op::Complete];
    vec![
        program(NAME, "hand-over", handed_over, [main, helper], || {
            hand_over::<2>(&[prepare, help]);
        }),
        program(
            NAME,
            "surplus",
            "no more threads than buffers are let in",
            [&[Op::Admit], &[Op::Admit]],
            surplus,
        ),
        program(
            NAME,
            "hand-over-3",
            handed_over,
            [main, helper, helper],
            || {
                hand_over::<1>(&[prepare, help, help]);
            },
        ),
        crowd(NAME, "crowd-4", handed_over, 4, || {
            hand_over::<2>(&[prepare, help, help, help]);
        }),
        crowd(NAME, "crowd-8", handed_over, 8, || {
            hand_over::<4>(&[prepare, help, help, help, help, help, help, help]);
        }),
    ]
}

/// A transaction of so many buffers.
struct Scene<const N: usize> {
    tickets: Tickets,
    /// 1 when prepared, 2 when written.
    buffers: Cells<N>,
}

fn hand_over<const N: usize>(works: &[fn(usize, &Scene<N>) -> bool]) {
    let scene = Arc::new(Scene {
        tickets: Tickets::new(N as u32),
        buffers: Cells::new(),
    });
    let lasts = at_once(&scene, works);
    let last = lasts.iter().filter(|&&last| last).count();
    assert_eq!(last, 1, "exactly one is the last");
    assert!(!scene.tickets.is_open());
}

/// The one that commits.
fn prepare<const N: usize>(me: usize, scene: &Scene<N>) -> bool {
    for buffer in 0..N {
        scene.buffers.add(buffer, 1);
        scene.tickets.publish();
        perform(Op::Publish);
    }
    write(me, scene)
}

fn help<const N: usize>(me: usize, scene: &Scene<N>) -> bool {
    let is_needed = scene.tickets.admit();
    perform(Op::Admit);
    is_needed && write(me, scene)
}

/// Whether it was the last.
fn write<const N: usize>(me: usize, scene: &Scene<N>) -> bool {
    let mut last = false;
    while let Some(buffer) = scene.tickets.claim() {
        perform(Op::Claim);
        let found = scene.buffers.get(buffer as usize);
        assert_eq!(found, 1, "prepared, not yet written");
        scene.buffers.add(buffer as usize, 1);
        note(me, format!("{buffer}"));
        last |= scene.tickets.complete();
        perform(Op::Complete);
    }
    if last {
        assert_eq!(scene.buffers.all(), [2; N], "the last one sees all");
        note(me, "last");
    }
    last
}

fn surplus() {
    let tickets = Arc::new(Tickets::new(1));
    let admit = |me: usize, tickets: &Tickets| {
        let admitted = tickets.admit();
        perform(Op::Admit);
        note(me, if admitted { "in" } else { "not needed" });
        u32::from(admitted)
    };
    let admitted: u32 = at_once(&tickets, &[admit, admit]).iter().sum();
    assert_eq!(admitted, 1);
}
