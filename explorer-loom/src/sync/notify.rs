//! A flag that a thread waits for: loom's own.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use spanlock_explorer::Ordering::{AcqRel, Acquire};
use spanlock_explorer::{Op, Update, fault};

use crate::execution::{Kept, kept, require};

/// A flag that one thread at a time waits for. A wait may end spuriously.
#[derive(Debug)]
pub struct Notify {
    flag: Kept,
    has_waiter: AtomicBool,
}

impl Notify {
    /// Returns a flag that is not set.
    ///
    /// # Panics
    /// Outside a model.
    #[track_caller]
    pub fn new() -> Notify {
        require("sync::Notify::new");
        Notify {
            flag: kept(0),
            has_waiter: AtomicBool::new(false),
        }
    }

    /// Sets the flag, for the present or the next wait.
    #[track_caller]
    pub fn notify(&self) {
        // AcqRel: pairs with the Acquire of `wait`, and is a step of its own: a swap.
        self.flag.update(Update::new(Op::Swap, 1), AcqRel);
    }

    /// Waits until the flag is set, and clears it.
    ///
    /// # Panics
    /// If another thread waits.
    #[track_caller]
    pub fn wait(&self) {
        // Relaxed, both: one thread of the system runs all threads of a model.
        let has_waiter = self.has_waiter.swap(true, Relaxed);
        assert!(
            !has_waiter,
            "only one thread at a time may wait for a `loom::sync::Notify`"
        );
        if fault(2) == 0 {
            self.flag.exchange_when(1, 0, Acquire);
        }
        self.has_waiter.store(false, Relaxed);
    }
}

impl Default for Notify {
    #[track_caller]
    fn default() -> Notify {
        Notify::new()
    }
}
