//! Counts the operations of the facade, and hashes those of each execution.
//!
//! A checker runs all threads of a model on one system thread. So the state here is kept in plain
//! thread locals of that thread.

use std::cell::Cell;

/// What an operation does to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Reads it without changing it.
    Read,
    /// Changes it, or may have changed it.
    Write,
}

thread_local! {
    static OPERATIONS: Cell<u64> = const { Cell::new(0) };
    /// A hash of the operations of the current execution, in any order.
    static FINGERPRINT: Cell<u64> = const { Cell::new(0) };
}

/// Returns the number of operations since the process began. 0 at the end means that the code under
/// test does not use the facade.
pub(crate) fn operations() -> u64 {
    OPERATIONS.get()
}

/// Returns a hash of the operations of the current execution so far.
pub(crate) fn fingerprint() -> u64 {
    FINGERPRINT.get()
}

/// Begins another execution.
pub(crate) fn begin_execution() {
    FINGERPRINT.set(0);
}

/// Notes an operation of the calling thread.
#[inline]
pub(crate) fn note(access: Access) {
    OPERATIONS.set(OPERATIONS.get() + 1);
    // A sum, because a thread may drop what is in a hash map in any order.
    let hash = match access {
        Access::Read => 0x517c_c1b7_2722_0a95,
        Access::Write => 0x2545_f491_4f6c_dd1d,
    };
    FINGERPRINT.set(FINGERPRINT.get().wrapping_add(hash));
}
