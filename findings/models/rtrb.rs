//! `rtrb` 0.4.1: `push` and `pop`.
//!
//! Each end caches the other end's position, and loads it again only if the ring seems full or
//! empty.
//!
//! Source: <https://docs.rs/crate/rtrb/0.4.1/source/src/lib.rs>

use std::cell::Cell;

use spanlock_sync::atomic::{AtomicUsize, Ordering::*};
use spanlock_sync::cell::UnsafeCell;
use spanlock_verify::{Program, Suite, note};

pub(crate) fn suite() -> Suite {
    Suite::new("rtrb").without_pairs().program(
        Program::new("push-pop", "values are popped in order, each once")
            .scene(Ring::new)
            .thread(["push"], |ring| (1..=3).for_each(|value| ring.push(value)))
            .thread(["pop"], |ring| (0..3).for_each(|_| ring.pop()))
            .at_end(|ring| {
                // Nothing else is left than what was pushed and not popped.
                assert!(ring.tail.load(Relaxed) - ring.head.load(Relaxed) <= 1);
            }),
    )
}

/// A ring of one slot. Positions count on; the crate wraps them.
struct Ring {
    head: AtomicUsize,
    tail: AtomicUsize,
    slot: UnsafeCell<usize>,
    /// The producer's tail and cached head; the consumer's head and cached tail.
    producer: UnsafeCellOfOne,
    consumer: UnsafeCellOfOne,
}

/// What only one end uses.
struct UnsafeCellOfOne(Cell<(usize, usize)>);

// SAFETY: one thread uses it.
unsafe impl Sync for UnsafeCellOfOne {}
// SAFETY: if the ring is correct, the two ends use the slot in turns.
unsafe impl Sync for Ring {}

impl Ring {
    fn new() -> Self {
        let end = || UnsafeCellOfOne(Cell::new((0, 0)));
        Ring {
            head: AtomicUsize::new(0),
            tail: AtomicUsize::new(0),
            slot: UnsafeCell::new(0),
            producer: end(),
            consumer: end(),
        }
    }

    fn push(&self, value: usize) {
        let (tail, mut head) = self.producer.0.get();
        if tail - head == 1 {
            head = self.head.load(Acquire);
            self.producer.0.set((tail, head));
            if tail - head == 1 {
                return note("full");
            }
        }
        // SAFETY: the consumer has left the slot.
        self.slot.with_mut(|slot| unsafe { *slot = value });
        self.tail.store(tail + 1, Release);
        self.producer.0.set((tail + 1, head));
    }

    fn pop(&self) {
        let (head, mut tail) = self.consumer.0.get();
        if head == tail {
            tail = self.tail.load(Acquire);
            self.consumer.0.set((head, tail));
            if head == tail {
                return note("empty");
            }
        }
        // SAFETY: the producer has left the slot.
        let value = self
            .slot
            .with_mut(|slot| unsafe { std::mem::take(&mut *slot) });
        assert_ne!(value, 0, "a value is popped twice");
        note(value.to_string());
        self.head.store(head + 1, Release);
        self.consumer.0.set((head + 1, tail));
    }
}
