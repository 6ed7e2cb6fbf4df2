//! `shuttle-parking_lot`: a writer enters in the middle of an upgrade.
//!
//! Shuttle has its own model of `parking_lot`'s `RwLock`. To upgrade an upgradeable read, it
//! released the reader's permit and then acquired all permits. A waiting writer could get the lock
//! in between. But an upgradeable reader relies on the value that it has read.
//!
//! | step | upgradeable reader | writer |
//! |---|---|---|
//! | 1 | reads 0 | |
//! | 2 | | waits |
//! | 3 | upgrade: releases its permit | |
//! | 4 | | is granted, writes 1, unlocks |
//! | 5 | is granted for writing, and finds 1 | |
//!
//! - Fix: keep the permit and acquire the missing ones,
//!   <https://github.com/awslabs/shuttle/pull/351>
//!
//! This is an interleaving bug.

use spanlock_sync::{Condvar, Mutex};
use spanlock_verify::{Form, KnownBug, Program};

pub(crate) fn bug() -> KnownBug {
    KnownBug::new(
        "shuttle-upgrade",
        "https://github.com/awslabs/shuttle/pull/351",
    )
    .program(|form| {
        Program::new("upgrade", "an upgrade keeps the value that was read")
            .scene(move || RwLock::new(form))
            .thread(["read", "upgrade"], |lock| lock.read_and_upgrade())
            .thread(["write"], |lock| lock.increment())
    })
}

const ALL: u32 = 2;

struct State {
    permits: u32,
    value: u32,
}

struct RwLock {
    form: Form,
    state: Mutex<State>,
    released: Condvar,
}

impl RwLock {
    fn new(form: Form) -> Self {
        RwLock {
            form,
            state: Mutex::new(State {
                permits: ALL,
                value: 0,
            }),
            released: Condvar::new(),
        }
    }

    fn acquire(&self, permits: u32) {
        let mut state = self.state.lock();
        while state.permits < permits {
            state = self.released.wait(state);
        }
        state.permits -= permits;
    }

    fn release(&self, permits: u32) {
        self.state.lock().permits += permits;
        self.released.notify_all();
    }

    fn read_and_upgrade(&self) {
        self.acquire(1);
        let value = self.state.lock().value;
        match self.form {
            Form::Buggy => {
                self.release(1);
                self.acquire(ALL);
            }
            Form::Fixed => self.acquire(ALL - 1),
        }
        let now = self.state.lock().value;
        assert_eq!(value, now, "a writer came in between");
        self.release(ALL);
    }

    fn increment(&self) {
        self.acquire(ALL);
        self.state.lock().value += 1;
        self.release(ALL);
    }
}
