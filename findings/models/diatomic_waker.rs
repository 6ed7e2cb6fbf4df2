//! `diatomic-waker` 0.2.3: `register` and `notify`.
//!
//! Two slots hold wakers, and one word says which slot is current, which bits are pending, and
//! whether a notifier holds the current slot.
//!
//! Source: <https://docs.rs/crate/diatomic-waker/0.2.3/source/src/waker.rs>

use spanlock_sync::atomic::AtomicUsize;
use spanlock_sync::atomic::Ordering::{self, *};
use spanlock_sync::cell::UnsafeCell;
use spanlock_verify::{Program, Suite};

const INDEX: usize = 1;
const UPDATE: usize = 2;
const REGISTERED: usize = 4;
const LOCKED: usize = 8;
const NOTIFICATION: usize = 16;

pub(crate) fn suite() -> Suite {
    Suite::new("diatomic-waker")
        .without_pairs()
        .program(
            Program::new("register-notify", "a task that sleeps is woken")
                .scene(Waker::new)
                .thread(["register"], |waker| waker.sleep(1))
                .thread(["notify"], |waker| waker.signal())
                .at_end(Waker::check),
        )
        .program(
            Program::new("new-waker", "the waker of the last registration is called")
                .scene(Waker::new)
                .thread(["register"], |waker| {
                    waker.register(1);
                    waker.sleep(2);
                })
                .thread(["notify"], |waker| {
                    waker.notify();
                    waker.signal();
                })
                .at_end(Waker::check),
        )
        .program(
            Program::new(
                "two-notifiers",
                "a notification that finds another is not lost",
            )
            .scene(Waker::new)
            .thread(["register"], |waker| waker.sleep(1))
            .thread(["notify"], |waker| waker.notify())
            .thread(["notify"], |waker| waker.signal())
            .at_end(Waker::check),
        )
}

struct Waker {
    state: AtomicUsize,
    /// The number of the waker in each slot; 0 if there is none.
    wakers: [UnsafeCell<usize>; 2],
    /// What the task waits for.
    is_done: AtomicUsize,
    /// The waker of a task that sleeps.
    sleeps: AtomicUsize,
    woken: [AtomicUsize; 3],
}

// SAFETY: if the type is correct, `state` protects the slots.
unsafe impl Sync for Waker {}

impl Waker {
    fn new() -> Self {
        Waker {
            state: AtomicUsize::new(0),
            wakers: [UnsafeCell::new(0), UnsafeCell::new(0)],
            is_done: AtomicUsize::new(0),
            sleeps: AtomicUsize::new(0),
            woken: [0; 3].map(AtomicUsize::new),
        }
    }

    fn sleep(&self, waker: usize) {
        self.register(waker);
        // Relaxed: the type must order the flag.
        if self.is_done.load(Relaxed) == 0 {
            self.sleeps.store(waker, Relaxed);
        }
    }

    fn signal(&self) {
        self.is_done.store(1, Relaxed);
        self.notify();
    }

    fn check(&self) {
        let waker = self.sleeps.load(Relaxed);
        assert!(
            waker == 0 || self.woken[waker].load(Relaxed) == 1,
            "the wake is lost"
        );
    }

    fn slot(&self, index: usize) -> usize {
        // SAFETY: the caller may read the slot.
        self.wakers[index].with(|it| unsafe { *it })
    }

    fn register(&self, waker: usize) {
        let state = self.state.load(Acquire);
        let mut index = state & INDEX;
        let recent = match state & UPDATE {
            0 => index,
            _ => 1 - index,
        };
        if self.slot(recent) == waker {
            self.state.fetch_or(REGISTERED, Acquire);
            return;
        }
        let both = UPDATE | REGISTERED;
        if state & both == both {
            index = self.state.fetch_and(!(REGISTERED | NOTIFICATION), Acquire) & INDEX;
        }
        // SAFETY: no notifier uses the redundant slot.
        self.wakers[1 - index].with_mut(|it| unsafe { *it = waker });
        self.state.fetch_or(both, AcqRel);
    }

    fn notify(&self) {
        let Some(mut state) = self.try_lock() else {
            return;
        };
        loop {
            let waker = self.slot(state & INDEX);
            self.woken[waker].store(1, Relaxed);
            match self.try_unlock(state) {
                Ok(()) => return,
                Err(new) => state = new,
            }
        }
    }

    fn exchange(&self, old: &mut usize, new: usize, order: Ordering) -> bool {
        let exchanged = self.state.compare_exchange_weak(*old, new, order, Relaxed);
        exchanged.map_err(|now| *old = now).is_ok()
    }

    fn try_lock(&self) -> Option<usize> {
        let mut old = self.state.load(Relaxed);
        loop {
            if old & (LOCKED | REGISTERED) == REGISTERED {
                let update = old & UPDATE;
                let new = old ^ (update | (update >> 1) | LOCKED | REGISTERED);
                if self.exchange(&mut old, new, AcqRel) {
                    return Some(new);
                }
            } else {
                let new = old | ((old & REGISTERED) << 2);
                if self.exchange(&mut old, new, Release) {
                    return None;
                }
            }
        }
    }

    fn try_unlock(&self, mut old: usize) -> Result<(), usize> {
        loop {
            if old & NOTIFICATION == 0 {
                let new = old & !LOCKED;
                if self.exchange(&mut old, new, Release) {
                    return Ok(());
                }
            } else {
                let update = old & UPDATE;
                let new = old ^ (update | (update >> 1) | NOTIFICATION | REGISTERED);
                if self.exchange(&mut old, new, AcqRel) {
                    return Err(new);
                }
            }
        }
    }
}
