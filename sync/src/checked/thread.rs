//! The checker's threads. [Footprints](crate::footprint) record their starts and ends.

#[cfg(not(spanlock_explorer))]
use core::cell::Cell;

#[cfg(spanlock_explorer)]
pub use super::explorer::thread::JoinHandle;
#[cfg(spanlock_loom)]
pub use loom::thread::JoinHandle;

#[cfg(spanlock_loom)]
loom::thread_local! { static INDEX: Cell<usize> = Cell::new(0); }
#[cfg(spanlock_loom)]
loom::thread_local! { static EXIT: Exit = Exit(index()); }
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

/// Dropped after loom has told the joining thread that this thread has ended.
#[cfg(spanlock_loom)]
struct Exit(usize);

#[cfg(spanlock_loom)]
impl Drop for Exit {
    fn drop(&mut self) {
        crate::footprint::touch_exit(self.0);
    }
}

#[cfg(spanlock_loom)]
pub(crate) fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    use crate::footprint::{touch_end, touch_start};

    let index = crate::check::next_thread_index();
    loom::thread::spawn(move || {
        INDEX.with(|cell| cell.set(index));
        EXIT.with(|_| touch_start(index));
        let result = f();
        touch_end(index);
        result
    })
}

#[cfg(spanlock_loom)]
pub(crate) fn yield_now() {
    loom::thread::yield_now();
    crate::footprint::touch_start(index());
}

#[cfg(spanlock_shuttle)]
pub(crate) use shuttle::thread::yield_now;

/// The checker's [`std::thread::JoinHandle`].
#[cfg(spanlock_shuttle)]
#[derive(Debug)]
pub struct JoinHandle<T> {
    inner: shuttle::thread::JoinHandle<T>,
    index: usize,
}

#[cfg(spanlock_shuttle)]
impl<T> JoinHandle<T> {
    /// Waits until the thread has ended.
    ///
    /// # Errors
    /// The thread panicked.
    pub fn join(self) -> std::thread::Result<T> {
        let result = self.inner.join();
        crate::footprint::touch_thread(self.index, crate::footprint::Access::Wait);
        result
    }
}

#[cfg(spanlock_shuttle)]
pub(crate) fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    use crate::footprint::{Access, touch_numbering, touch_thread};

    let index = crate::check::next_thread_index();
    // Two touches, because `spawn` below begins with a switch. This one belongs to the step that
    // drew the index. The one after `spawn` belongs to the step in which shuttle draws its own
    // number for the thread.
    touch_numbering();
    let inner = shuttle::thread::spawn(move || {
        touch_thread(index, Access::Wait);
        INDEX.with(|cell| cell.set(index));
        let result = f();
        touch_thread(index, Access::Wake);
        result
    });
    touch_numbering();
    touch_thread(index, Access::Wake);
    JoinHandle { inner, index }
}
