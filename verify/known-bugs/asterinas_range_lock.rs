//! Asterinas: a waiter for a file range sleeps on the queue of a lock that no longer exists.
//!
//! In Asterinas, a kernel written in Rust, each held range of a file owns a wait queue. A thread
//! that finds a conflicting range sleeps on that range's queue. When an owner locks its range again
//! in another mode, it *replaces* the range and its queue.
//!
//! | step | owner | waiter |
//! |---|---|---|
//! | 1 | holds the range for writing | |
//! | 2 | | finds the conflict, takes the range's queue, sleeps on it |
//! | 3 | locks the range for reading: creates a new range and queue, wakes the old queue | |
//! | 4 | | wakes, still finds a conflict, sleeps on the *old* queue |
//! | 5 | unlocks; wakes the *new* queue | sleeps forever |
//!
//! Since the fix, the waiter looks up the conflicting range on each attempt and enqueues on its
//! current queue.
//!
//! - Issue: <https://github.com/asterinas/asterinas/issues/1464>
//! - Fix: <https://github.com/asterinas/asterinas/pull/1466>
//!
//! This interleaving bug ends in a deadlock.

use std::sync::Arc;
use std::task::Waker;

use spanlock_sync::{Mutex, Park, Parker};
use spanlock_verify::{Form, KnownBug, Program};

use crate::support::Waiters;

pub(crate) fn bug() -> KnownBug {
    KnownBug::new(
        "asterinas-range-lock",
        "https://github.com/asterinas/asterinas/issues/1464",
    )
    .program(|form| {
        Program::new("replaced-queue", "a release wakes the waiter")
            .scene(move || File::held(form))
            .thread(["downgrade", "unlock"], |file| {
                file.downgrade();
                file.unlock();
            })
            .thread(["lock"], |file| file.lock())
    })
}

/// A file with one range, which is held at first.
struct File {
    form: Form,
    /// The queue of the range, if it is held.
    held: Mutex<Option<Arc<Waiters>>>,
}

impl File {
    fn held(form: Form) -> Self {
        let held = Mutex::new(Some(Arc::new(Waiters::new())));
        File { form, held }
    }

    /// Locks the range for reading instead, which replaces the range.
    fn downgrade(&self) {
        let old = self.held.lock().replace(Arc::new(Waiters::new()));
        old.expect("held").wake_all();
    }

    fn unlock(&self) {
        let old = self.held.lock().take();
        old.expect("held").wake_all();
    }

    /// Locks the range for writing.
    fn lock(&self) {
        match self.form {
            Form::Buggy => {
                if let Err(waiters) = self.try_lock(None) {
                    waiters.wait_until(|| self.try_lock(None).is_ok());
                }
            }
            Form::Fixed => Parker::with(|parker| {
                while self.try_lock(Some(parker.waker())).is_err() {
                    parker.park();
                }
            }),
        }
    }

    /// Locks the range. If it is held, adds `waker` to its queue and returns the queue.
    fn try_lock(&self, waker: Option<&Waker>) -> Result<(), Arc<Waiters>> {
        let mut held = self.held.lock();
        if let Some(waiters) = &*held {
            waker.into_iter().for_each(|waker| waiters.enqueue(waker));
            return Err(waiters.clone());
        }
        *held = Some(Arc::new(Waiters::new()));
        Ok(())
    }
}
