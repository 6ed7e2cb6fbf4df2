//! `xutex` 0.2.1: a waiter that changes its waker while the mutex is handed to it.
//!
//! A future that waits for the mutex has an entry in a queue: a value and a waker. An unlock takes
//! the entry's waker, sets the value to `SIGNALED`, which hands over the mutex, and calls the
//! waker. A poll that finds the value `WAITING` replaces the waker and returns `Pending`.
//!
//! | step | unlock | second poll, with another waker |
//! |---|---|---|
//! | 1 | | loads `WAITING` |
//! | 2 | takes the first waker | |
//! | 3 | | stores the second waker, returns `Pending` |
//! | 4 | sets `SIGNALED`, calls the first waker | is never woken, and owns the mutex |
//!
//! The contract of `Future::poll` is that the waker of the last poll is called. A future is polled
//! with different wakers if it moves between tasks, or into and out of a `select`.
//!
//! - Source: <https://docs.rs/crate/xutex/0.2.1/source/src/lib.rs>
//! - In the fixed form, a poll that finds the waker taken waits for `SIGNALED`.
//!
//! An interleaving bug.

use spanlock_sync::Mutex;
use spanlock_sync::atomic::{AtomicU32, Ordering::*};
use spanlock_sync::hint;
use spanlock_verify::{Form, KnownBug, Program};

const WAITING: u32 = 1;
const SIGNALED: u32 = 2;

const FIRST: u32 = 1;
const SECOND: u32 = 2;

pub(crate) fn bug() -> KnownBug {
    KnownBug::new(
        "xutex-second-waker",
        "https://docs.rs/crate/xutex/0.2.1/source/src/lib.rs",
    )
    .program(|form| {
        Program::new(
            "poll-unlock",
            "the waker of a poll that is pending is called",
        )
        .scene(move || Entry::polled(form))
        .thread(["unlock"], |entry| entry.unlock())
        .thread(["poll"], |entry| entry.poll(SECOND))
        .at_end(|entry| {
            assert_eq!(entry.pending.load(Relaxed), entry.woken.load(Relaxed));
        })
    })
}

struct Entry {
    form: Form,
    value: AtomicU32,
    waker: Mutex<Option<u32>>,
    /// The waker of the last poll that returned `Pending`. None (0) if the future is ready.
    pending: AtomicU32,
    /// The waker that was called. None (0) if the future is ready.
    woken: AtomicU32,
}

impl Entry {
    /// Creates the entry of a future that was polled once, with the first waker.
    fn polled(form: Form) -> Self {
        Entry {
            form,
            value: AtomicU32::new(WAITING),
            waker: Mutex::new(Some(FIRST)),
            pending: AtomicU32::new(FIRST),
            woken: AtomicU32::new(0),
        }
    }

    fn unlock(&self) {
        let waker = self.waker.lock().take();
        self.value.store(SIGNALED, Release);
        if let Some(waker) = waker {
            self.woken.store(waker, Relaxed);
        }
    }

    fn poll(&self, waker: u32) {
        if self.value.load(Acquire) != WAITING {
            return self.finish();
        }
        let old = {
            let mut slot = self.waker.lock();
            match self.form {
                Form::Fixed if slot.is_none() => None,
                _ => Some(slot.replace(waker)),
            }
        };
        if old.is_some() {
            return self.pending.store(waker, Relaxed);
        }
        while self.value.load(Acquire) != SIGNALED {
            hint::pause();
        }
        self.finish();
    }

    /// The future is ready: the call of a waker of an earlier poll has no effect.
    fn finish(&self) {
        self.pending.store(FIRST, Relaxed);
    }
}
