//! `concurrent-queue` 2.5.0: the queue of capacity 1.
//!
//! Source: <https://docs.rs/crate/concurrent-queue/2.5.0/source/src/single.rs>

use spanlock_sync::atomic::{AtomicU32, Ordering::*};
use spanlock_sync::cell::UnsafeCell;
use spanlock_sync::hint;
use spanlock_verify::{Program, Suite, note};

const LOCKED: u32 = 1;
const PUSHED: u32 = 2;

pub(crate) fn suite() -> Suite {
    Suite::new("concurrent-queue")
        .without_pairs()
        .program(
            Program::new("push-pop", "a pop returns a value that was pushed")
                .scene(Single::new)
                .thread(["push"], |queue| {
                    queue.push(1);
                    queue.push(2);
                })
                .thread(["pop"], |queue| {
                    queue.pop();
                    queue.pop();
                }),
        )
        .program(
            Program::new("pop-pop", "two pops return different values")
                .scene(Single::new)
                .thread(["push"], |queue| queue.push(1))
                .thread(["pop"], |queue| queue.pop())
                .thread(["pop"], |queue| queue.pop()),
        )
}

struct Single {
    state: AtomicU32,
    slot: UnsafeCell<u32>,
}

// SAFETY: if the queue is correct, the bit LOCKED protects the slot.
unsafe impl Sync for Single {}

impl Single {
    fn new() -> Self {
        Single {
            state: AtomicU32::new(0),
            slot: UnsafeCell::new(0),
        }
    }

    fn push(&self, value: u32) {
        let exchanged = self
            .state
            .compare_exchange(0, LOCKED | PUSHED, SeqCst, SeqCst);
        if exchanged.is_ok() {
            // SAFETY: the bit LOCKED is ours.
            self.slot.with_mut(|slot| unsafe { *slot = value });
            self.state.fetch_and(!LOCKED, Release);
        }
    }

    fn pop(&self) {
        let mut state = PUSHED;
        loop {
            let new = (state | LOCKED) & !PUSHED;
            let Err(old) = self.state.compare_exchange(state, new, SeqCst, SeqCst) else {
                break;
            };
            if old & PUSHED == 0 {
                return note("empty");
            }
            if old & LOCKED != 0 {
                hint::pause();
            }
            state = old & !LOCKED;
        }
        // SAFETY: the bit LOCKED is ours.
        let value = self
            .slot
            .with_mut(|slot| unsafe { std::mem::take(&mut *slot) });
        self.state.fetch_and(!LOCKED, Release);
        assert_ne!(value, 0, "a value is popped twice");
        note(value.to_string());
    }
}
