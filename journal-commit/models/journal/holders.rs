//! Handles take blocks, and give way if they would wait for each other.

use std::sync::Arc;

use spanlock_journal_commit::jbd2::raw::holders::{Holder, Holders};
use spanlock_verify::{Suite, note_as, perform};

use crate::threads::{Cells, at_once, program};

pub(crate) fn suite() -> Suite {
    let one: &[&str] = &["take", "free"];
    Suite::new("journal-holders")
        .operations(["take", "free"])
        .program(program("turns", TURNS, [one, one], || {
            change(&[turn, turn])
        }))
        .program(program("queue-3", TURNS, [one, one, one], || {
            change(&[turn, turn, turn]);
        }))
        .program(program(
            "crossed",
            "of two handles that take two blocks in opposite orders, at most one gives way, and \
             both end",
            [one, one],
            give_way::<2>,
        ))
        .program(program(
            "ring-3",
            "of three handles in a circle, at most one gives way, and all end",
            [one, one, one],
            give_way::<3>,
        ))
}

const TURNS: &str = "handles that change one block take turns";

/// The table, and a number for each block.
type Scene = (Holders, Cells<3>);

fn change(works: &[fn(usize, &Scene)]) {
    let scene = Arc::new((Holders::new(), Cells::new()));
    at_once(&scene, works);
    let (_, changes) = &*scene;
    assert_eq!(changes.get(0) as usize, works.len(), "no change is lost");
}

fn turn(me: usize, (holders, changes): &Scene) {
    let taken = holders.take(0, Holder(me as u64));
    perform("take");
    assert_eq!(taken, Ok(()), "a handle with no block closes no circle");
    changes.add(0, 1);
    holders.free(0);
    perform("free");
}

/// Each of `N` handles takes the block of its own number, and then the next one.
fn give_way<const N: usize>() {
    let scene = Arc::new((Holders::new(), Cells::new()));
    let work: fn(usize, &Scene) -> u32 = |me, (holders, changes)| {
        let blocks = [me, (me + 1) % N].map(|block| block as u64);
        let first = holders.take(blocks[0], Holder(me as u64));
        assert_eq!(first, Ok(()), "a handle with no block closes no circle");
        perform("take");
        let second = holders.take(blocks[1], Holder(me as u64));
        changes.add(me, 1);
        if second.is_ok() {
            changes.add((me + 1) % N, 1);
            holders.free(blocks[1]);
        }
        holders.free(blocks[0]);
        perform("free");
        note_as(me, if second.is_ok() { "both" } else { "gave way" });
        u32::from(second.is_err())
    };
    let gave_way: u32 = at_once(&scene, &[work; N]).iter().sum();
    assert!(gave_way <= 1, "the others can go on");
    let (_, changes) = &*scene;
    let changed: u32 = changes.all().iter().sum();
    assert_eq!(changed, 2 * N as u32 - gave_way, "no change is lost");
}
