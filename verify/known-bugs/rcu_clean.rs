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
//! Two threads that clean at the same time even free the node twice. All changes of the count are
//! Relaxed, too, so nothing orders a reader's last use before a later free.
//!
//! - Source: <https://docs.rs/crate/rcu-clean/0.1.8/source/src/arcrcu.rs>
//! - The fixed form claims the count while it cleans, and readers wait.
//!
//! An interleaving bug, which uses freed memory.

use spanlock_sync::atomic::{AtomicUsize, Ordering::*};
use spanlock_sync::hint;
use spanlock_verify::{Form, KnownBug, Program};

use crate::support::Block;

const CLEANING: usize = usize::MAX;

pub(crate) fn bug() -> KnownBug {
    KnownBug::new(
        "rcu-clean",
        "https://docs.rs/crate/rcu-clean/0.1.8/source/src/arcrcu.rs",
    )
    .program(|form| {
        Program::new("read-clean", "a reader's node is not freed")
            .scene(move || Rcu::new(form))
            .thread(["read"], |rcu| rcu.read())
            .thread(["clean"], |rcu| rcu.clean())
    })
}

struct Rcu {
    form: Form,
    readers: AtomicUsize,
    /// Whether the node is linked.
    is_linked: AtomicUsize,
    node: Block,
}

impl Rcu {
    fn new(form: Form) -> Self {
        Rcu {
            form,
            readers: AtomicUsize::new(0),
            is_linked: AtomicUsize::new(1),
            node: Block::new(),
        }
    }

    fn read(&self) {
        self.enter();
        if self.is_linked.load(Acquire) == 1 {
            self.node.touch();
        }
        let leaving = match self.form {
            Form::Buggy => Relaxed,
            Form::Fixed => Release,
        };
        self.readers.fetch_sub(1, leaving);
    }

    fn enter(&self) {
        if self.form == Form::Buggy {
            self.readers.fetch_add(1, Relaxed);
            return;
        }
        loop {
            let readers = self.readers.load(Relaxed);
            if readers == CLEANING {
                hint::pause();
            } else if self
                .readers
                .compare_exchange(readers, readers + 1, Acquire, Relaxed)
                .is_ok()
            {
                return;
            }
        }
    }

    fn clean(&self) {
        let has_readers = match self.form {
            Form::Buggy => self.readers.load(Relaxed) != 0,
            Form::Fixed => self
                .readers
                .compare_exchange(0, CLEANING, Acquire, Relaxed)
                .is_err(),
        };
        if has_readers {
            return;
        }
        if self.is_linked.swap(0, AcqRel) == 1 {
            self.node.free();
        }
        if self.form == Form::Fixed {
            self.readers.store(0, Release);
        }
    }
}
