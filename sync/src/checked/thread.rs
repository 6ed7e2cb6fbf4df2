//! The checker's threads.

#[cfg(not(spanlock_explorer))]
use core::cell::Cell;

#[cfg(spanlock_explorer)]
pub use super::explorer::thread::JoinHandle;
#[cfg(spanlock_loom)]
pub use loom::thread::JoinHandle;
#[cfg(spanlock_shuttle)]
pub use shuttle::thread::JoinHandle;

#[cfg(spanlock_loom)]
pub(crate) use loom::thread::yield_now;
#[cfg(spanlock_shuttle)]
pub(crate) use shuttle::thread::yield_now;

#[cfg(spanlock_loom)]
loom::thread_local! { static INDEX: Cell<usize> = Cell::new(0); }
#[cfg(spanlock_shuttle)]
shuttle::thread_local! { static INDEX: Cell<usize> = Cell::new(0); }

/// The identity of a thread within its execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadId(usize);

/// Returns the identity of the calling thread.
pub fn id() -> ThreadId {
    ThreadId(index())
}

#[cfg(spanlock_explorer)]
pub(crate) use super::explorer::thread::{index, spawn, yield_now};

#[cfg(not(spanlock_explorer))]
pub(crate) fn index() -> usize {
    INDEX.try_with(Cell::get).unwrap_or(0)
}

/// Returns 2, so that executions do not depend on the machine.
pub(crate) fn cores() -> usize {
    2
}

#[cfg(any(spanlock_loom, spanlock_shuttle))]
pub(crate) fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    let index = crate::check::next_thread_index();
    let run = move || {
        INDEX.with(|cell| cell.set(index));
        f()
    };
    #[cfg(spanlock_loom)]
    return loom::thread::spawn(run);
    #[cfg(spanlock_shuttle)]
    shuttle::thread::spawn(run)
}
