//! A bounded ring that passes values from one thread to another without a lock.
//!
//! # State
//!
//! Two counters only grow (and wrap). The value number *n* is in slot *n* modulo the capacity.
//!
//! | counter | counts | changed by |
//! |---|---|---|
//! | `pushed` | values pushed so far | the producer |
//! | `popped` | values popped so far | the consumer |
//!
//! The capacity is a power of two, so that slots stay in order when the counters wrap.
//!
//! # Invariants
//! - **I1** `popped` ≤ `pushed` ≤ `popped` + capacity.
//! - **I2** Slots `popped..pushed` contain a value. Only the consumer accesses them.
//! - **I3** All other slots are empty. Only the producer accesses them.
//!
//! # Orderings
//!
//! | letter | where | ordering | pairs with | needed by the model |
//! |---|---|---|---|---|
//! | A | the store of `pushed` in `push` | Release | B | `ring/exchange` |
//! | B | the load of `pushed` in `pop` | Acquire | A | `ring/exchange` |
//! | C | the store of `popped` in `pop` | Release | D | `ring/full` |
//! | D | the load of `popped` in `push` | Acquire | C | `ring/full` |

mod sync;

use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use sync::{AtomicUsize, UnsafeCell, injected_bug};

/// A bounded ring for one producer and one consumer.
///
/// ```
/// let mut ring = spsc::Ring::new(2);
/// let (mut producer, mut consumer) = ring.split();
/// std::thread::scope(|scope| {
///     scope.spawn(move || producer.push("hello").unwrap());
///     while consumer.pop() != Some("hello") {}
/// });
/// ```
pub struct Ring<T> {
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
    pushed: AtomicUsize,
    popped: AtomicUsize,
}

// SAFETY: by I2 and I3 no slot is accessed by two threads at once. A value is moved from one thread
// to another, so it must be `Send`.
unsafe impl<T: Send> Sync for Ring<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T> Ring<T> {
    /// Creates an empty ring for `capacity` values.
    ///
    /// # Panics
    /// `capacity` is not a power of two.
    pub fn new(capacity: usize) -> Self {
        assert!(capacity.is_power_of_two(), "capacity {capacity}");
        let slot = |_| UnsafeCell::new(MaybeUninit::uninit());
        Ring {
            slots: (0..capacity).map(slot).collect(),
            pushed: AtomicUsize::new(0),
            popped: AtomicUsize::new(0),
        }
    }

    /// Returns the two ends of the ring.
    pub fn split(&mut self) -> (Producer<'_, T>, Consumer<'_, T>) {
        (Producer(self), Consumer(self))
    }

    fn slot(&self, number: usize) -> &UnsafeCell<MaybeUninit<T>> {
        &self.slots[number % self.slots.len()]
    }

    /// Appends a value, or returns it if the ring is full.
    ///
    /// # Safety
    /// No other thread pushes at the same time.
    pub unsafe fn push(&self, value: T) -> Result<(), T> {
        // Relaxed: only the producer changes it.
        let pushed = self.pushed.load(Relaxed);
        // Acquire [D→C]: the consumer has moved the value out of a slot that is free.
        let popped = self.popped.load(Acquire);
        let is_full = pushed.wrapping_sub(popped) == self.slots.len();
        if is_full
            && !injected_bug!(
                "full-ring-overwritten",
                "a push into a full ring overwrites a value",
                killed_by = "ring/full"
            )
        {
            return Err(value);
        }
        // SAFETY: the slot is empty (I3), and this is the producer.
        (self.slot(pushed)).with_mut(|slot| unsafe { (*slot).write(value) });
        // Release [A→B]: publishes the value.
        self.pushed.store(pushed.wrapping_add(1), Release);
        Ok(())
    }

    /// Removes the oldest value. Returns `None` if the ring is empty.
    ///
    /// # Safety
    /// No other thread pops at the same time.
    pub unsafe fn pop(&self) -> Option<T> {
        // Relaxed: only the consumer changes it.
        let popped = self.popped.load(Relaxed);
        // Acquire [B→A]: the producer has written the value.
        if popped == self.pushed.load(Acquire) {
            return None;
        }
        // SAFETY: the slot contains a value (I2), and this is the consumer.
        let value = (self.slot(popped)).with(|slot| unsafe { (*slot).assume_init_read() });
        // Release [C→D]: the value is out of the slot.
        self.popped.store(popped.wrapping_add(1), Release);
        Some(value)
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // SAFETY: no other thread has access any more.
        while unsafe { self.pop() }.is_some() {}
    }
}

/// The end of a [`Ring`] that values are pushed to.
pub struct Producer<'a, T>(&'a Ring<T>);

impl<T> Producer<'_, T> {
    /// Appends a value, or returns it if the ring is full.
    pub fn push(&mut self, value: T) -> Result<(), T> {
        // SAFETY: this is the only producer, and it is borrowed exclusively.
        unsafe { self.0.push(value) }
    }
}

/// The end of a [`Ring`] that values are popped from.
pub struct Consumer<'a, T>(&'a Ring<T>);

impl<T> Consumer<'_, T> {
    /// Removes the oldest value. Returns `None` if the ring is empty.
    pub fn pop(&mut self) -> Option<T> {
        // SAFETY: this is the only consumer, and it is borrowed exclusively.
        unsafe { self.0.pop() }
    }
}
