//! tokio 1.13.0 `oneshot`: sender and receiver both take the value of a closed channel.
//!
//! | step | receiver | sender |
//! |---|---|---|
//! | 1 | closes the channel | |
//! | 2 | | writes the value, sets `SENT`, sees `CLOSED` in the old state |
//! | 3 | `try_recv` sees `SENT`, takes the value | takes the value back, to return it |
//!
//! - Advisory: RUSTSEC-2021-0124, <https://github.com/tokio-rs/tokio/issues/4225>
//! - Fix (1.13.1): do not set `SENT` once the channel is closed,
//!   <https://github.com/tokio-rs/tokio/pull/4226>
//!
//! The checkers detect a race on the cell.

use spanlock_sync::atomic::{AtomicU32, Ordering::*};
use spanlock_sync::cell::UnsafeCell;
use spanlock_verify::{Form, KnownBug, Program};

const SENT: u32 = 1;
const CLOSED: u32 = 2;

pub(crate) fn bug() -> KnownBug {
    KnownBug::new(
        "tokio-oneshot",
        "https://github.com/tokio-rs/tokio/issues/4225",
    )
    .program(|form| {
        Program::new("closed", "one end takes the value")
            .scene(move || Channel::new(form))
            .thread(["close", "try_recv"], |channel| {
                channel.close();
                channel.try_recv();
            })
            .thread(["send"], |channel| channel.send(7))
    })
}

struct Channel {
    form: Form,
    state: AtomicU32,
    value: UnsafeCell<Option<u32>>,
}

// SAFETY: if the channel is correct, `state` says which end may access `value`.
unsafe impl Sync for Channel {}

impl Channel {
    fn new(form: Form) -> Self {
        Channel {
            form,
            state: AtomicU32::new(0),
            value: UnsafeCell::new(None),
        }
    }

    fn close(&self) {
        self.state.fetch_or(CLOSED, Acquire);
    }

    fn try_recv(&self) {
        if self.state.load(Acquire) & SENT != 0 {
            self.take().expect("the state says that there is a value");
        }
    }

    fn send(&self, value: u32) {
        // SAFETY: the receiver accesses the value only after `SENT` is set.
        self.value.with_mut(|slot| unsafe { *slot = Some(value) });
        if self.set_sent() & CLOSED != 0 {
            self.take().expect("the closed channel still has its value");
        }
    }

    /// Sets `SENT`. Returns the old state.
    fn set_sent(&self) -> u32 {
        if self.form == Form::Buggy {
            return self.state.fetch_or(SENT, AcqRel);
        }
        let mut state = self.state.load(Relaxed);
        while state & CLOSED == 0 {
            match self
                .state
                .compare_exchange(state, state | SENT, AcqRel, Acquire)
            {
                Ok(_) => break,
                Err(now) => state = now,
            }
        }
        state
    }

    fn take(&self) -> Option<u32> {
        // SAFETY: the state tells the caller that the other end does not access the value.
        self.value.with_mut(|slot| unsafe { (*slot).take() })
    }
}
