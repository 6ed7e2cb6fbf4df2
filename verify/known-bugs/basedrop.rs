//! `basedrop`: `SharedCell::get` and `SharedCell::replace` miss each other.
//!
//! A reader announces itself in a counter, loads the pointer, and takes a reference. A writer
//! swaps the pointer, waits until no reader is announced, and gives up the old reference.
//!
//! **Store buffering (open).** Each side writes one word and then reads the other. Only the
//! reader's increment and load are SeqCst; the writer's swap is AcqRel and its load Relaxed. So
//! both reads may miss the other side's write.
//!
//! | step | reader | writer |
//! |---|---|---|
//! | 1 | adds itself to `readers` | swaps the pointer |
//! | 2 | loads the *old* pointer | loads `readers`: still 0 |
//! | 3 | | gives up the last reference: the node is freed |
//! | 4 | takes a reference in freed memory | |
//!
//! - Issue: <https://github.com/micahrj/basedrop/issues/10>
//! - The fixed form has a SeqCst fence between write and read on both sides.
//!
//! Every interleaving is correct under sequential consistency, so shuttle and mode `rmw-load` pass
//! both forms. Loom in mode `weak` finds it.
//!
//! **The reader's departure (the same lines).** The reader increments the count Relaxed and leaves
//! with a Relaxed `fetch_sub`. Nothing orders the two. So the writer may see the reader gone and
//! give up the last reference before the increment takes effect. This is load buffering: each side
//! reads a value that the other side writes later in its program order. Loom executes operations in
//! program order, and cannot show it.

use spanlock_sync::atomic::{AtomicU32, AtomicUsize, Ordering::*, fence};
use spanlock_verify::{Form, KnownBug, Mode, Program};

use crate::support::Block;

pub(crate) fn bugs() -> [KnownBug; 2] {
    let buffering = KnownBug::new(
        "basedrop-shared-cell",
        "https://github.com/micahrj/basedrop/issues/10",
    )
    .found_in([Mode::Weak])
    .program(|form| {
        get_and_set("store-buffering", move || {
            SharedCell::new(form, Form::Fixed)
        })
    });
    let departure = KnownBug::new(
        "basedrop-departure",
        "https://github.com/micahrj/basedrop/issues/10",
    )
    .program(|form| get_and_set("departure", move || SharedCell::new(Form::Fixed, form)))
    .not_found(
        "it needs load buffering: loom executes each thread in program order",
        "herd7 (AArch64), GenMC (--imm)",
    );
    [buffering, departure]
}

fn get_and_set(
    name: &'static str,
    cell: impl Fn() -> SharedCell + Send + Sync + 'static,
) -> impl Into<Program> {
    Program::new(name, "a reference keeps its node")
        .scene(cell)
        .thread(["get"], |cell| {
            let node = cell.get();
            cell.nodes[node].touch();
            cell.give_up(node);
        })
        .thread(["set"], |cell| cell.set(1))
}

struct SharedCell {
    fences: Form,
    departure: Form,
    readers: AtomicU32,
    /// Which node is current.
    node: AtomicUsize,
    /// References to each node.
    counts: [AtomicU32; 2],
    nodes: [Block; 2],
}

impl SharedCell {
    fn new(fences: Form, departure: Form) -> Self {
        SharedCell {
            fences,
            departure,
            readers: AtomicU32::new(0),
            node: AtomicUsize::new(0),
            counts: [AtomicU32::new(1), AtomicU32::new(1)],
            nodes: [Block::new(), Block::new()],
        }
    }

    fn fence(&self) {
        if self.fences == Form::Fixed {
            fence(SeqCst);
        }
    }

    fn get(&self) -> usize {
        self.readers.fetch_add(1, SeqCst);
        self.fence();
        let node = self.node.load(SeqCst);
        self.counts[node].fetch_add(1, Relaxed);
        let leaving = match self.departure {
            Form::Buggy => Relaxed,
            Form::Fixed => Release,
        };
        self.readers.fetch_sub(1, leaving);
        node
    }

    fn set(&self, node: usize) {
        let old = self.node.swap(node, AcqRel);
        self.fence();
        // The original waits here. A writer that sees a reader ends instead, and keeps the node.
        if self.readers.load(Relaxed) == 0 {
            fence(Acquire);
            self.give_up(old);
        }
    }

    /// Gives up a reference to the node.
    fn give_up(&self, node: usize) {
        if self.counts[node].fetch_sub(1, Release) == 1 {
            fence(Acquire);
            self.nodes[node].free();
        }
    }
}
