//! `basedrop`: `SharedCell::get` and `SharedCell::replace` do not see each other's writes.
//!
//! A reader increments the counter `readers`, loads the pointer, takes a reference to the node, and
//! decrements the counter. A writer swaps the pointer, waits until the counter is 0, and gives up
//! its reference to the old node.
//!
//! **Store buffering (issue open).** Each thread writes one word and then reads the other's.
//! Only the reader's increment and load are SeqCst. The writer's swap is AcqRel, and its load is
//! Relaxed. So each thread may miss the other's write.
//!
//! | step | reader | writer |
//! |---|---|---|
//! | 1 | increments `readers` | swaps the pointer |
//! | 2 | loads the *old* pointer | loads `readers`: still 0 |
//! | 3 | | gives up the last reference: the node is freed |
//! | 4 | takes a reference in freed memory | |
//!
//! - Issue: <https://github.com/micahrj/basedrop/issues/10>
//! - The fixed form has a SeqCst fence between write and read in both threads.
//!
//! Under sequential consistency, every interleaving is correct.
//!
//! **The reader's departure (in the same code).** The reader increments the reference count and
//! then decrements `readers`, both Relaxed, and nothing orders the two. So the writer may see
//! `readers` at 0 and give up the last reference before the increment takes effect. This is load
//! buffering: each thread reads a value that the other writes later in program order. Loom executes
//! each thread in program order, and so does the explorer. Neither can show the bug.

use spanlock_sync::atomic::{AtomicU32, AtomicUsize, Ordering::*, fence};
use spanlock_verify::{Form, KnownBug, Program};

use crate::support::Block;

pub(crate) fn bugs() -> [KnownBug; 2] {
    let buffering = KnownBug::new(
        "basedrop-shared-cell",
        "https://github.com/micahrj/basedrop/issues/10",
    )
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
        "the bug needs load buffering, but loom executes each thread in program order",
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
    /// The index of the current node.
    node: AtomicUsize,
    /// The number of references to each node.
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
        // The original waits here until no reader is left. This writer returns at once if there is
        // a reader, and keeps its reference.
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
