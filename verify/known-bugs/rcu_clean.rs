//! `rcu-clean` 0.1.8: `ArcRcu::clean` frees what a reader has just found.
//!
//! A reader adds itself to a count once, and then follows the pointer to the newest value. `clean`
//! takes its own clone out of the count. If the count is 0, it moves the newest value and frees its
//! node.
//!
//! | step | `clean` | reader, in another clone |
//! |---|---|---|
//! | 1 | finds the count 0 | |
//! | 2 | | adds itself, loads the pointer to the node |
//! | 3 | unlinks and frees the node | |
//! | 4 | | reads the node |
//!
//! A second thread that cleans at the same time reads the freed node, and makes a `Box` of a null
//! pointer.
//!
//! **The orderings.** All accesses to the count are Relaxed, so nothing orders a reader's last use
//! of the node before a later free.
//!
//! - Source: <https://docs.rs/crate/rcu-clean/0.1.8/source/src/arcrcu.rs>
//! - The fixed form claims the count while it cleans, and readers wait. A reader leaves with
//!   Release, and `clean` claims with Acquire.
//!
//! The first is an interleaving bug, which uses freed memory. In the second, only the orderings are
//! wrong.

use spanlock_sync::atomic::AtomicUsize;
use spanlock_sync::atomic::Ordering::{self, *};
use spanlock_sync::hint;
use spanlock_verify::{Form, KnownBug, Program};

use crate::support::Block;

const CLEANING: usize = usize::MAX;

pub(crate) fn bugs() -> [KnownBug; 2] {
    let source = "https://docs.rs/crate/rcu-clean/0.1.8/source/src/arcrcu.rs";
    let claim = KnownBug::new("rcu-clean-claim", source)
        .program(|form| read_and_clean("claim", move || Rcu::new(form, Form::Fixed)));
    let orderings = KnownBug::new("rcu-clean-orderings", source)
        .program(|form| read_and_clean("orderings", move || Rcu::new(Form::Fixed, form)));
    [claim, orderings]
}

fn read_and_clean(
    name: &'static str,
    rcu: impl Fn() -> Rcu + Send + Sync + 'static,
) -> impl Into<Program> {
    Program::new(name, "a reader's node is not freed")
        .scene(rcu)
        .thread(["read"], |rcu| rcu.read())
        .thread(["clean"], |rcu| rcu.clean())
}

struct Rcu {
    claim: Form,
    orderings: Form,
    readers: AtomicUsize,
    /// Whether the node is linked.
    is_linked: AtomicUsize,
    node: Block,
}

impl Rcu {
    fn new(claim: Form, orderings: Form) -> Self {
        Rcu {
            claim,
            orderings,
            readers: AtomicUsize::new(0),
            is_linked: AtomicUsize::new(1),
            node: Block::new(),
        }
    }

    /// Returns the ordering of an access to the count.
    fn order(&self, fixed: Ordering) -> Ordering {
        match self.orderings {
            Form::Buggy => Relaxed,
            Form::Fixed => fixed,
        }
    }

    fn read(&self) {
        self.enter();
        if self.is_linked.load(Acquire) == 1 {
            self.node.touch();
        }
        self.readers.fetch_sub(1, self.order(Release));
    }

    fn enter(&self) {
        if self.claim == Form::Buggy {
            self.readers.fetch_add(1, self.order(Acquire));
            return;
        }
        loop {
            let readers = self.readers.load(Relaxed);
            if readers == CLEANING {
                hint::pause();
            } else if self
                .readers
                .compare_exchange(readers, readers + 1, self.order(Acquire), Relaxed)
                .is_ok()
            {
                return;
            }
        }
    }

    fn clean(&self) {
        let has_readers = match self.claim {
            Form::Buggy => self.readers.load(self.order(Acquire)) != 0,
            Form::Fixed => self
                .readers
                .compare_exchange(0, CLEANING, self.order(Acquire), Relaxed)
                .is_err(),
        };
        if has_readers {
            return;
        }
        if self.is_linked.swap(0, AcqRel) == 1 {
            self.node.free();
        }
        if self.claim == Form::Fixed {
            self.readers.store(0, self.order(Release));
        }
    }
}
