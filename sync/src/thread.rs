//! Threads: spawning, yielding, and a number for each.

use crate::world::thread as world;
pub use crate::world::thread::{JoinHandle, ThreadId, id};

/// Returns the number of the calling thread. Threads that live at the same time have different
/// numbers, with one exception: a thread that is ending and has lost its thread locals may see 0.
/// So use the number to spread threads over slots, never as an identity.
///
/// As shipped (built without a checker), threads get the numbers 0, 1, 2… in the order of their
/// first calls, and no number is used again. Under a checker the numbers begin anew in each
/// execution, and main has 0.
#[inline]
pub fn index() -> usize {
    world::index()
}

/// Returns how many cores this process may use, at least 1; under a checker, 2.
///
/// A thread that is bound to fewer cores than the main thread gets the main thread's number. Only
/// the first call counts the cores, because counting takes system calls. A lock's constructor
/// may call this function, and a file system may create a lock for each file that it opens.
pub fn cores() -> usize {
    world::cores()
}

/// Starts a thread.
pub fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    world::spawn(f)
}

/// Returns whether the calling thread is unwinding after a panic.
#[cfg(feature = "std")]
pub fn panicking() -> bool {
    std::thread::panicking()
}

/// Lets another thread run.
pub fn yield_now() {
    world::yield_now();
}
