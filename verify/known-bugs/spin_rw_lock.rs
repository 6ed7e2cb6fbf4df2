//! `spin` 0.5.1: a writer unlocks with a Relaxed store.
//!
//! | step | writer A | writer B |
//! |---|---|---|
//! | 1 | writes the data | |
//! | 2 | unlocks: `store(0, Relaxed)` | |
//! | 3 | | locks; its compare-exchange reads 0 and synchronizes with nothing |
//! | 4 | | writes the data: a data race with step 1 |
//!
//! - Advisory: RUSTSEC-2019-0013, <https://github.com/zesterer/spin-rs/issues/65>
//! - Fix (0.5.2): a Release operation, <https://github.com/zesterer/spin-rs/pull/66>
//!
//! Every interleaving is correct; only the ordering is missing. The checkers find the race on the
//! cell.

use spanlock_sync::atomic::{AtomicUsize, Ordering::*};
use spanlock_sync::cell::UnsafeCell;
use spanlock_sync::hint;
use spanlock_verify::{Form, KnownBug, Program};

pub(crate) fn bug() -> KnownBug {
    KnownBug::new(
        "spin-rw-lock",
        "https://github.com/zesterer/spin-rs/issues/65",
    )
    .program(|form| {
        Program::new("two-writers", "writers exclude each other")
            .scene(move || RwLock::new(form))
            .thread(["write"], |lock| lock.increment())
            .thread(["write"], |lock| lock.increment())
    })
}

const WRITER: usize = 1 << (usize::BITS - 1);

struct RwLock {
    form: Form,
    word: AtomicUsize,
    data: UnsafeCell<u32>,
}

// SAFETY: if the lock is correct, threads access `data` only under the lock.
unsafe impl Sync for RwLock {}

impl RwLock {
    fn new(form: Form) -> Self {
        RwLock {
            form,
            word: AtomicUsize::new(0),
            data: UnsafeCell::new(0),
        }
    }

    fn increment(&self) {
        while self
            .word
            .compare_exchange(0, WRITER, SeqCst, SeqCst)
            .is_err()
        {
            hint::pause();
        }
        // SAFETY: the lock is held.
        self.data.with_mut(|data| unsafe { *data += 1 });
        let release = match self.form {
            Form::Buggy => Relaxed,
            Form::Fixed => Release,
        };
        self.word.store(0, release);
    }
}
