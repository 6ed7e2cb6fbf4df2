//! Asterinas `RwMutex`: two releases that wake no waiter.
//!
//! The lock is one word: a writer bit, an upgradeable-reader bit and a count of readers. A thread
//! that cannot lock the mutex sleeps in a wait queue, and retries when another thread wakes it.
//!
//! **The old value is mistaken for the new value.** The drop of an upgradeable guard subtracts its
//! bit, and wakes the queue if the result of `fetch_sub` is 0. But `fetch_sub` returns the
//! *previous* value, in which the bit is still set.
//!
//! | step | upgradeable reader | writer |
//! |---|---|---|
//! | 1 | holds the lock | |
//! | 2 | | enqueues, finds the bit set, sleeps |
//! | 3 | `fetch_sub(UPGRADEABLE)` returns `UPGRADEABLE`, not 0: wakes no waiter | sleeps forever |
//!
//! - Issue: <https://github.com/asterinas/asterinas/issues/1303>
//! - Fix: <https://github.com/asterinas/asterinas/pull/1309>
//!
//! **A failed try blocks a writer.** `try_read` first counts itself as a reader. If a writer holds
//! the lock, `try_read` subtracts itself again, but does not wake the queue. We suspected that a
//! wakeup can be lost in this way, and the program confirms it. The project's code still does this.
//! A report on the kernel's `RwLock`, whose `try_read` does the same, says that such a transient
//! reader can make a downgrade spin. Nobody has reported the lost wakeup.
//!
//! | step | writer A | `try_read` | writer B |
//! |---|---|---|---|
//! | 1 | holds the lock | | enqueues, finds A, sleeps |
//! | 2 | | adds a reader, finds A | |
//! | 3 | releases, wakes the queue | | finds one reader, sleeps |
//! | 4 | | subtracts the reader, wakes no waiter | sleeps forever |
//!
//! - Code: <https://github.com/asterinas/asterinas/blob/0a98dfc9/ostd/src/sync/rwmutex.rs>
//! - Report on `RwLock`: <https://github.com/asterinas/asterinas/issues/1297>
//!
//! In the fixed form, the last reader to subtract itself wakes the queue.
//!
//! Both interleaving bugs end in a deadlock.

use spanlock_sync::atomic::{AtomicU32, Ordering::*};
use spanlock_verify::{Form, KnownBug, Program};

use crate::support::Waiters;

const READER: u32 = 1;
const UPGRADEABLE: u32 = 1 << 30;
const WRITER: u32 = 1 << 31;

pub(crate) fn bugs() -> [KnownBug; 2] {
    let release = KnownBug::new(
        "asterinas-rw-mutex",
        "https://github.com/asterinas/asterinas/issues/1303",
    )
    .program(|form| {
        Program::new("upgradeable-release", "a release wakes the writer")
            .scene(move || RwMutex::new(form, UPGRADEABLE))
            .thread(["unlock upgradeable"], |lock| lock.unlock_upgradeable())
            .thread(["write"], |lock| lock.write())
    });
    let try_read = KnownBug::new(
        "asterinas-rw-mutex-try-read",
        "https://github.com/asterinas/asterinas/blob/0a98dfc9/ostd/src/sync/rwmutex.rs",
    )
    .program(|form| {
        Program::new("passing-reader", "a free lock has no sleeping writer")
            .scene(move || RwMutex::new(form, WRITER))
            .thread(["unlock"], |lock| lock.unlock_write())
            .thread(["try_read"], |lock| lock.try_read_and_unlock())
            .thread(["write"], |lock| lock.write())
    });
    [release, try_read]
}

struct RwMutex {
    form: Form,
    word: AtomicU32,
    waiters: Waiters,
}

impl RwMutex {
    fn new(form: Form, word: u32) -> Self {
        RwMutex {
            form,
            word: AtomicU32::new(word),
            waiters: Waiters::new(),
        }
    }

    fn write(&self) {
        self.waiters.wait_until(|| {
            self.word
                .compare_exchange(0, WRITER, Acquire, Relaxed)
                .is_ok()
        });
    }

    fn unlock_write(&self) {
        self.word.fetch_and(!WRITER, Release);
        self.waiters.wake_all();
    }

    fn unlock_upgradeable(&self) {
        let old = self.word.fetch_sub(UPGRADEABLE, Release);
        let was_last = match self.form {
            Form::Buggy => old == 0,
            Form::Fixed => old == UPGRADEABLE,
        };
        if was_last {
            self.waiters.wake_all();
        }
    }

    fn try_read_and_unlock(&self) {
        let got_it = self.word.fetch_add(READER, Acquire) & WRITER == 0;
        let was_last = self.word.fetch_sub(READER, Release) == READER;
        if was_last && (got_it || self.form == Form::Fixed) {
            self.waiters.wake_all();
        }
    }
}
