//! A concurrent object of another crate, under loom or shuttle. An atomic counts its changes, and
//! shows the checker what a read depends on.

use core::sync::atomic::Ordering::Relaxed;

use crate::atomic::AtomicU64;

/// A linearizable object of another crate.
pub struct Foreign<T> {
    object: T,
    changes: AtomicU64,
}

impl<T: 'static> Foreign<T> {
    /// Returns an object, and how to copy its state. Only the explorer copies it.
    pub fn new(object: T, _copy: fn(&T) -> T) -> Self {
        let changes = AtomicU64::new(0);
        Foreign { object, changes }
    }

    /// Calls `f` for an operation that changes nothing.
    pub fn read<'a, R>(&'a self, f: impl FnOnce(&'a T) -> R) -> R {
        // Relaxed: these checkers perform every operation of the object in one order.
        self.changes.load(Relaxed);
        f(&self.object)
    }

    /// Calls `f` for an operation that may change the object.
    pub fn change<'a, R>(&'a self, f: impl FnOnce(&'a T) -> R) -> R {
        // Relaxed: as in `read`.
        self.changes.fetch_add(1, Relaxed);
        f(&self.object)
    }
}
