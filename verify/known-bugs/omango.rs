//! `omango` 0.2.6: a thread that need not wait makes another one wait forever.
//!
//! `WaitGroup::done` sets a flag when the count reaches 0, and wakes all waiters. `wait` sleeps on
//! the flag while the count is not 0, and clears the flag at its end. A futex sleeps only if the
//! flag is still 0.
//!
//! | step | thread A | thread B: `wait` |
//! |---|---|---|
//! | 1 | | finds the count 1 |
//! | 2 | `done`: the count is 0; sets the flag, wakes no waiter | |
//! | 3 | `wait`: finds the count 0, clears the flag | |
//! | 4 | | finds the flag 0, sleeps forever |
//!
//! The example in the documentation of `WaitGroup` has these two threads.
//!
//! - Source: <https://docs.rs/crate/omango/0.2.6/source/src/wg.rs>
//! - In the fixed form, waiters sleep on the count itself.
//!
//! An interleaving bug, which ends in a deadlock.

use spanlock_sync::atomic::{AtomicU32, Ordering::*};
use spanlock_sync::{Park, Parker};
use spanlock_verify::{Form, KnownBug, Program};

use crate::support::Waiters;

pub(crate) fn bug() -> KnownBug {
    KnownBug::new(
        "omango-wait-group",
        "https://docs.rs/crate/omango/0.2.6/source/src/wg.rs",
    )
    .program(|form| {
        Program::new("done-and-wait", "if the count is 0, each wait ends")
            .scene(move || WaitGroup {
                form,
                count: AtomicU32::new(1),
                flag: AtomicU32::new(0),
                waiters: Waiters::new(),
            })
            .thread(["done", "wait"], |group| {
                group.done();
                group.wait();
            })
            .thread(["wait"], |group| group.wait())
    })
}

struct WaitGroup {
    form: Form,
    count: AtomicU32,
    flag: AtomicU32,
    /// The futex's queue.
    waiters: Waiters,
}

impl WaitGroup {
    fn done(&self) {
        if self.count.fetch_sub(1, SeqCst) == 1 {
            self.flag.store(1, Relaxed);
            self.waiters.wake_all();
        }
    }

    fn wait(&self) {
        loop {
            let count = self.count.load(SeqCst);
            if count == 0 {
                break;
            }
            match self.form {
                Form::Buggy => self.sleep_while(&self.flag, 0),
                Form::Fixed => self.sleep_while(&self.count, count),
            }
        }
        self.flag.store(0, Relaxed);
    }

    /// Sleeps until woken, unless the word has another value. The check and the sleep are one step
    /// for threads that wake, as in a futex.
    fn sleep_while(&self, word: &AtomicU32, value: u32) {
        Parker::with(|parker| {
            self.waiters.enqueue(parker.waker());
            if word.load(SeqCst) == value {
                parker.park();
            }
        });
    }
}
