//! Holes: a removal unlinks and frees nodes of the index beside threads that use the others.
//!
//! The file has pages in three nodes below one parent. The hole is the whole second node.

use spanlock_verify::{Program, Suite};

use crate::memory::Open;

/// The first page of each node.
const NODES: [u64; 3] = [0, 64, 128];

pub(crate) fn suite() -> Suite {
    Suite::new("file-core-index")
        .step_bound(4_000)
        .no_pair("check", "check", UNCHANGED)
        .no_pair("check", "read", UNCHANGED)
        .no_pair("read", "read", UNCHANGED)
        .no_pair("check", "write", "the suite file-core-memory has this pair")
        .no_pair("read", "write", "the suite file-core-memory has this pair")
        .no_pair("write", "write", "the suite file-core-memory has this pair")
        .program(
            Program::new("hole-check", "a check uses no node that was freed")
                .scene(|| Open::with(&NODES))
                .thread(["punch"], punch)
                .thread(["check"], |open| open.check())
                .at_end(|open| open.assert_wrote(&[0, 128])),
        )
        .program(
            Program::new(
                "hole-read",
                "a reader of a neighbouring page uses no node that was freed",
            )
            .scene(|| Open::with(&NODES))
            .thread(["punch"], punch)
            .thread(["read"], |open| {
                assert_eq!(open.read(0), 1_u64.to_le_bytes())
            })
            .at_end(|open| open.assert_wrote(&[0, 128])),
        )
        .program(
            Program::new(
                "hole-write",
                "a removal loses no node that a neighbour adds",
            )
            .scene(|| Open::with(&NODES[..2]))
            .thread(["punch"], punch)
            .thread(["write"], |open| open.write(128))
            .at_end(|open| open.assert_wrote(&[0, 128])),
        )
        .program(
            Program::new(
                "hole-parent",
                "a removal from the root loses no level that a writer adds",
            )
            .scene(|| Open::with(&[0]))
            .thread(["punch"], |open| open.punch(0..64))
            .thread(["write"], |open| open.write(64))
            .at_end(|open| open.assert_wrote(&[64])),
        )
        .program(
            Program::new(
                "hole-in-new-node",
                "a removal finds a node whole that a neighbour adds in its span",
            )
            .scene(|| Open::with(&[0, 128]))
            .thread(["punch"], |open| open.punch(48..80))
            .thread(["write"], |open| open.write(96))
            .at_end(|open| open.assert_wrote(&[0, 96, 128])),
        )
        .program(
            Program::new("holes", "two removals unlink two nodes of one parent")
                .scene(|| Open::with(&NODES))
                .thread(["punch"], punch)
                .thread(["punch"], |open| open.punch(128..192))
                .at_end(|open| open.assert_wrote(&[0])),
        )
}

const UNCHANGED: &str = "neither changes anything";

/// Punches the second node.
fn punch(open: &Open) {
    open.punch(64..128);
}
