//! `rsevents` 0.3.1: two bugs of `ManualResetEvent`.
//!
//! The state has a bit for a set event, and a bit that says that threads wait. A waiter sets the
//! second bit and parks in a queue, whose lock it holds while it looks at the state again. `set`
//! stores the first bit over the whole state. If threads waited, it then empties the queue.
//!
//! **A wait without synchronization.** The first look of `wait` is Acquire, but the looks of its
//! slow path are Relaxed. If the event is set between the two, `wait` returns and synchronizes with
//! nothing.
//!
//! | step | setter | waiter |
//! |---|---|---|
//! | 1 | | loads the state: not set |
//! | 2 | writes data; sets the event with Release | |
//! | 3 | | loads the state again with Relaxed: set; returns |
//! | 4 | | reads the data: a data race with step 2 |
//!
//! **A time-out clears the event.** A waiter whose time is up, and which is the last in the queue,
//! exchanges the whole state for 0.
//!
//! | step | setter | waiter |
//! |---|---|---|
//! | 1 | | parks, with a time limit |
//! | 2 | stores the bit for a set event, finds that threads wait | |
//! | 3 | | the limit passes: leaves the queue, exchanges the state for 0 |
//! | 4 | finds the queue empty | the event is no longer set; later waiters sleep |
//!
//! - Source: <https://docs.rs/crate/rsevents/0.3.1/source/src/lib.rs>
//! - In the fixed form, the looks are Acquire, and a time-out clears only the bit for waiters.

use spanlock_sync::atomic::{AtomicU32, Ordering::*};
use spanlock_sync::cell::UnsafeCell;
use spanlock_sync::{Mutex, Park, Parker};
use spanlock_verify::{Form, KnownBug, Program};

use crate::support::Waiters;

const AVAILABLE: u32 = 1;
const WAITING: u32 = 2;

pub(crate) fn bugs() -> [KnownBug; 2] {
    let source = "https://docs.rs/crate/rsevents/0.3.1/source/src/lib.rs";
    let ordering = KnownBug::new("rsevents-ordering", source).program(|form| {
        Program::new("set-wait", "a waiter sees what came before the set")
            .scene(move || Event::new(form))
            .thread(["set"], |event| {
                // SAFETY: no waiter has returned yet.
                event.data.with_mut(|data| unsafe { *data = 1 });
                event.set();
            })
            .thread(["wait"], |event| {
                event.wait();
                // SAFETY: the event is set, so no thread writes the data.
                assert_eq!(event.data.with(|data| unsafe { *data }), 1);
            })
    });
    let time_out = KnownBug::new("rsevents-time-out", source).program(|form| {
        Program::new("set-time-out", "an event that was set stays set")
            .scene(move || Parked::new(form))
            .thread(["set"], |event| event.set())
            .thread(["time out"], |event| event.time_out())
            .at_end(|event| assert_eq!(event.state.load(Relaxed), AVAILABLE))
    });
    [ordering, time_out]
}

struct Event {
    form: Form,
    state: AtomicU32,
    waiters: Waiters,
    data: UnsafeCell<u32>,
}

// SAFETY: if the event is correct, the data is read after it was written.
unsafe impl Sync for Event {}

impl Event {
    fn new(form: Form) -> Self {
        Event {
            form,
            state: AtomicU32::new(0),
            waiters: Waiters::new(),
            data: UnsafeCell::new(0),
        }
    }

    fn set(&self) {
        if self.state.swap(AVAILABLE, Release) & WAITING != 0 {
            self.waiters.wake_all();
        }
    }

    fn wait(&self) {
        if self.state.load(Acquire) & AVAILABLE != 0 {
            return;
        }
        let look = match self.form {
            Form::Buggy => Relaxed,
            Form::Fixed => Acquire,
        };
        let mut state = self.state.load(look);
        while state & AVAILABLE == 0 {
            if state & WAITING == 0 {
                let waiting = state | WAITING;
                if let Err(now) = self.state.compare_exchange(state, waiting, Relaxed, look) {
                    state = now;
                    continue;
                }
            }
            Parker::with(|parker| {
                self.waiters.enqueue(parker.waker());
                if self.state.load(Relaxed) == WAITING {
                    parker.park();
                }
            });
            state = self.state.load(look);
        }
    }
}

/// An event for which one thread waits in the queue.
struct Parked {
    form: Form,
    state: AtomicU32,
    /// The number of threads in the queue.
    queue: Mutex<u32>,
}

impl Parked {
    fn new(form: Form) -> Self {
        Parked {
            form,
            state: AtomicU32::new(WAITING),
            queue: Mutex::new(1),
        }
    }

    fn set(&self) {
        if self.state.swap(AVAILABLE, Release) & WAITING != 0 {
            *self.queue.lock() = 0;
        }
    }

    fn time_out(&self) {
        let mut queue = self.queue.lock();
        if *queue == 1 {
            *queue = 0;
            match self.form {
                Form::Buggy => self.state.swap(0, Relaxed),
                Form::Fixed => self.state.fetch_and(!WAITING, Relaxed),
            };
        }
    }
}
