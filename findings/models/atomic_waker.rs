//! `atomic-waker` 1.1.2: `register` and `wake`.
//!
//! Source: <https://docs.rs/crate/atomic-waker/1.1.2/source/src/lib.rs>

use spanlock_sync::atomic::{AtomicU32, Ordering::*};
use spanlock_sync::cell::UnsafeCell;
use spanlock_verify::{Program, Suite};

const WAITING: u32 = 0;
const REGISTERING: u32 = 1;
const WAKING: u32 = 2;

pub(crate) fn suite() -> Suite {
    Suite::new("atomic-waker")
        .without_pairs()
        .program(
            Program::new("register-wake", "a task that sleeps is woken")
                .scene(AtomicWaker::new)
                .thread(["register"], |waker| waker.sleep())
                .thread(["wake"], |waker| waker.signal())
                .at_end(AtomicWaker::check),
        )
        .program(
            Program::new("two-wakers", "a task that sleeps is woken once at least")
                .scene(AtomicWaker::new)
                .thread(["register"], |waker| waker.sleep())
                .thread(["wake"], |waker| waker.signal())
                .thread(["wake"], |waker| waker.wake())
                .at_end(AtomicWaker::check),
        )
}

struct AtomicWaker {
    state: AtomicU32,
    /// Whether there is a waker.
    waker: UnsafeCell<bool>,
    /// What the task waits for.
    is_done: AtomicU32,
    sleeps: AtomicU32,
    wakes: AtomicU32,
}

// SAFETY: if the type is correct, `state` protects `waker`.
unsafe impl Sync for AtomicWaker {}

impl AtomicWaker {
    fn new() -> Self {
        AtomicWaker {
            state: AtomicU32::new(WAITING),
            waker: UnsafeCell::new(false),
            is_done: AtomicU32::new(0),
            sleeps: AtomicU32::new(0),
            wakes: AtomicU32::new(0),
        }
    }

    fn sleep(&self) {
        self.register();
        // Relaxed: the type must order the flag, as it does the waker.
        let sleeps = self.is_done.load(Relaxed) == 0;
        self.sleeps.store(u32::from(sleeps), Relaxed);
    }

    fn signal(&self) {
        self.is_done.store(1, Relaxed);
        self.wake();
    }

    fn check(&self) {
        let sleeps = self.sleeps.load(Relaxed) == 1;
        assert!(!sleeps || self.wakes.load(Relaxed) > 0, "the wake is lost");
    }

    fn call_waker(&self) {
        self.wakes.fetch_add(1, Relaxed);
    }

    fn register(&self) {
        let old = self
            .state
            .compare_exchange(WAITING, REGISTERING, Acquire, Acquire);
        match old.unwrap_or_else(|old| old) {
            WAITING => {
                // SAFETY: the state is REGISTERING.
                self.waker.with_mut(|it| unsafe { *it = true });
                let done = self
                    .state
                    .compare_exchange(REGISTERING, WAITING, AcqRel, Acquire);
                if done.is_err() {
                    // SAFETY: the state is REGISTERING | WAKING.
                    self.waker.with_mut(|it| unsafe { *it = false });
                    self.state.swap(WAITING, AcqRel);
                    self.call_waker();
                }
            }
            WAKING => self.call_waker(),
            _ => unreachable!("one task registers"),
        }
    }

    fn wake(&self) {
        if self.state.fetch_or(WAKING, AcqRel) != WAITING {
            return;
        }
        // SAFETY: the state is WAKING.
        let has_waker = self
            .waker
            .with_mut(|it| unsafe { std::mem::take(&mut *it) });
        self.state.fetch_and(!WAKING, Release);
        if has_waker {
            self.call_waker();
        }
    }
}
