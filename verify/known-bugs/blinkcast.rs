//! `blinkcast` 0.2.0: a reader that fails counts itself, and nobody expects it.
//!
//! A node's state is `EMPTY`, `AVAILABLE` or `WRITING`, plus 4 for each reader. A reader adds 4 and
//! looks at the old state. If the node is not readable, the reader subtracts 4 again.
//!
//! **The lost count.** The writer ends by a plain store of `AVAILABLE`, which erases the count of
//! such a reader.
//!
//! | step | writer | reader |
//! |---|---|---|
//! | 1 | | loads `AVAILABLE` |
//! | 2 | exchanges `AVAILABLE` for `WRITING` | |
//! | 3 | | adds 4, finds `WRITING` |
//! | 4 | stores `AVAILABLE` | |
//! | 5 | | subtracts 4: the state is -3, and each later writer waits for its "readers" forever |
//!
//! **The reader that trusts another.** A node counts as readable if it has any reader. So while one
//! reader fails, a second one finds `WRITING + 4` and reads, although the writer writes.
//!
//! - Source: <https://docs.rs/crate/blinkcast/0.2.0/source/src/core_impl.rs>
//! - In the fixed form, the writer subtracts the difference, and a node that is written is not
//!   readable.
//!
//! Both are interleaving bugs.

use spanlock_sync::atomic::{AtomicUsize, Ordering::*};
use spanlock_sync::cell::UnsafeCell;
use spanlock_sync::hint;
use spanlock_verify::{Form, KnownBug, Program};

const AVAILABLE: usize = 1;
const WRITING: usize = 2;
const READING: usize = 4;

pub(crate) fn bugs() -> [KnownBug; 2] {
    let source = "https://docs.rs/crate/blinkcast/0.2.0/source/src/core_impl.rs";
    let count = KnownBug::new("blinkcast-count", source).program(|form| {
        Program::new("failed-reader", "a node without readers can be written")
            .scene(move || Node::new(form, Form::Fixed))
            .thread(["send"], |node| node.send())
            .thread(["recv"], |node| node.recv())
            .at_end(|node| assert_eq!(node.state.load(Relaxed), AVAILABLE))
    });
    let trust = KnownBug::new("blinkcast-two-readers", source).program(|form| {
        Program::new("two-readers", "no reader reads what a writer writes")
            .scene(move || Node::new(Form::Fixed, form))
            .thread(["send"], |node| node.send())
            .thread(["recv"], |node| node.recv())
            .thread(["recv"], |node| node.recv())
    });
    [count, trust]
}

struct Node {
    store: Form,
    trust: Form,
    state: AtomicUsize,
    data: UnsafeCell<u32>,
}

// SAFETY: if the channel is correct, readers and writers exclude each other by the state.
unsafe impl Sync for Node {}

impl Node {
    fn new(store: Form, trust: Form) -> Self {
        Node {
            store,
            trust,
            state: AtomicUsize::new(AVAILABLE),
            data: UnsafeCell::new(0),
        }
    }

    fn is_readable(&self, state: usize) -> bool {
        match self.trust {
            Form::Buggy => state == AVAILABLE || state >= READING,
            Form::Fixed => state % READING == AVAILABLE,
        }
    }

    /// Overwrites the node.
    fn send(&self) {
        while self
            .state
            .compare_exchange(AVAILABLE, WRITING, AcqRel, Relaxed)
            .is_err()
        {
            hint::pause();
        }
        // SAFETY: this is the only writer, and found no reader.
        self.data.with_mut(|data| unsafe { *data += 1 });
        match self.store {
            Form::Buggy => self.state.store(AVAILABLE, Release),
            Form::Fixed => {
                self.state.fetch_sub(WRITING - AVAILABLE, Release);
            }
        }
    }

    /// Reads the node, or gives up. The original tries again, or reads another node.
    fn recv(&self) {
        if !self.is_readable(self.state.load(Acquire)) {
            return;
        }
        let old = self.state.fetch_add(READING, AcqRel);
        if self.is_readable(old) {
            // SAFETY: the state counts this reader.
            self.data.with(|data| unsafe { *data });
        }
        self.state.fetch_sub(READING, Release);
    }
}
