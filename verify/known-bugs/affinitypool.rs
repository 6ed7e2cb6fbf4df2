//! `affinitypool`: a producer queues a task, but wakes no worker.
//!
//! A worker registers itself as parked, checks once more for a task, and parks. A producer queues
//! its task, and checks for a parked worker to wake. Each of the two writes one word and then reads
//! the other's word.
//!
//! | step | worker | producer |
//! |---|---|---|
//! | 1 | registers as parked | queues a task |
//! | 2 | loads the queue: still empty | loads the parked workers: still none |
//! | 3 | parks forever | |
//!
//! - Issue: <https://github.com/surrealdb/affinitypool/issues/21>
//! - Fix: a SeqCst fence between write and read, in both threads,
//!   <https://github.com/surrealdb/affinitypool/pull/22>
//!
//! Release and Acquire do not order a store before a later load of another word, so both reads may
//! return stale values.

use std::task::Waker;

use spanlock_sync::atomic::{AtomicU32, Ordering::*, fence};
use spanlock_sync::{Mutex, Park, Parker};
use spanlock_verify::{Form, KnownBug, Program};

pub(crate) fn bug() -> KnownBug {
    KnownBug::new(
        "affinitypool",
        "https://github.com/surrealdb/affinitypool/issues/21",
    )
    .program(|form| {
        Program::new("park", "a queued task wakes the worker")
            .scene(move || Pool::new(form))
            .thread(["work"], |pool| pool.work())
            .thread(["spawn"], |pool| pool.spawn())
    })
}

struct Pool {
    form: Form,
    tasks: AtomicU32,
    parked: AtomicU32,
    /// The parked worker.
    worker: Mutex<Option<Waker>>,
}

impl Pool {
    fn new(form: Form) -> Self {
        Pool {
            form,
            tasks: AtomicU32::new(0),
            parked: AtomicU32::new(0),
            worker: Mutex::new(None),
        }
    }

    fn fence(&self) {
        if self.form == Form::Fixed {
            fence(SeqCst);
        }
    }

    fn spawn(&self) {
        self.tasks.store(1, Release);
        self.fence();
        if self.parked.load(Acquire) == 1 {
            let worker = self.worker.lock().take();
            worker.into_iter().for_each(Waker::wake);
        }
    }

    /// Waits for the task.
    fn work(&self) {
        Parker::with(|parker| {
            while self.tasks.load(Acquire) == 0 {
                *self.worker.lock() = Some(parker.waker().clone());
                self.parked.store(1, Release);
                self.fence();
                if self.tasks.load(Acquire) == 0 {
                    parker.park();
                }
            }
        });
    }
}
