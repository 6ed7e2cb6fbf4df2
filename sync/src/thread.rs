//! Threads: spawning, yielding, and a number for each.

use crate::world::thread as world;
pub use crate::world::thread::{JoinHandle, ThreadId, id};

/// Returns the number of the calling thread. Threads that live at the same time have different
/// ones.
///
/// As shipped, threads get the numbers 0, 1, 2… in the order of their first calls, and no number is
/// used again. Under a checker the numbers begin anew in each execution, and main has 0.
///
/// For spreading threads over slots, never for identity: a thread that is torn down may see 0.
#[inline]
pub fn index() -> usize {
    world::index()
}

/// Returns how many cores this process may use, at least 1; under a checker, 2.
///
/// The cores are counted at the first call only, because counting takes system calls. Making a lock
/// may call this, and a file system may make a lock for each file that it opens.
pub fn cores() -> usize {
    world::cores()
}

/// Starts a thread.
pub fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    world::spawn(f)
}

/// Lets another thread run.
pub fn yield_now() {
    world::yield_now();
}
