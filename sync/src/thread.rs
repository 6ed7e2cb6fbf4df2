//! Threads: spawning, yielding, and a small number for each.

use std::num::NonZeroUsize;
use std::sync::OnceLock;

#[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
pub use std::thread::{JoinHandle, ThreadId};

#[cfg(spanlock_shuttle)]
pub use footprints::JoinHandle;
#[cfg(spanlock_loom)]
pub use loom::thread::JoinHandle;

#[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
mod world {
    use core::sync::atomic::{AtomicUsize, Ordering};

    static NEXT: AtomicUsize = AtomicUsize::new(0);

    thread_local! {
        // Relaxed: only the number's uniqueness matters, and a read-modify-write gives that.
        static INDEX: usize = NEXT.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn index() -> usize {
        // A thread that is being torn down has lost its locals: any number is correct, 0 will do.
        INDEX.try_with(|index| *index).unwrap_or(0)
    }

    pub(super) fn spawn<T: Send + 'static>(
        f: impl FnOnce() -> T + Send + 'static,
    ) -> super::JoinHandle<T> {
        std::thread::spawn(f)
    }

    pub(super) use std::thread::yield_now;
}

#[cfg(any(spanlock_loom, spanlock_shuttle))]
mod world {
    use core::cell::Cell;

    #[cfg(spanlock_shuttle)]
    use super::footprints as thread;
    #[cfg(spanlock_loom)]
    use loom::thread;

    #[cfg(spanlock_loom)]
    loom::thread_local! { static INDEX: Cell<usize> = Cell::new(0); }
    #[cfg(spanlock_loom)]
    loom::thread_local! { static EXIT: Exit = Exit(index()); }
    #[cfg(spanlock_shuttle)]
    shuttle::thread_local! { static INDEX: Cell<usize> = Cell::new(0); }

    /// Dropped when loom has told who joins the thread that it ends.
    #[cfg(spanlock_loom)]
    struct Exit(usize);

    #[cfg(spanlock_loom)]
    impl Drop for Exit {
        fn drop(&mut self) {
            crate::footprint::touch_exit(self.0);
        }
    }

    pub(super) fn index() -> usize {
        INDEX.try_with(Cell::get).unwrap_or(0)
    }

    pub(super) fn spawn<T: Send + 'static>(
        f: impl FnOnce() -> T + Send + 'static,
    ) -> super::JoinHandle<T> {
        let index = crate::check::next_thread_index();
        let body = move || {
            INDEX.with(|cell| cell.set(index));
            #[cfg(spanlock_loom)]
            EXIT.with(|_| crate::footprint::touch_start(index));
            let result = f();
            #[cfg(spanlock_loom)]
            crate::footprint::touch_end(index);
            result
        };
        #[cfg(spanlock_loom)]
        return thread::spawn(body);
        #[cfg(spanlock_shuttle)]
        thread::spawn(index, body)
    }

    pub(super) fn yield_now() {
        thread::yield_now();
        #[cfg(spanlock_loom)]
        crate::footprint::touch_start(index());
    }
}

/// Shuttle's threads, whose starts and ends are noted in the footprints.
#[cfg(spanlock_shuttle)]
mod footprints {
    use crate::footprint::{Access, touch_numbering, touch_thread};

    pub(super) use shuttle::thread::yield_now;

    /// [`std::thread::JoinHandle`], of the checker.
    #[derive(Debug)]
    pub struct JoinHandle<T> {
        inner: shuttle::thread::JoinHandle<T>,
        index: usize,
    }

    impl<T> JoinHandle<T> {
        /// Waits until the thread has ended.
        ///
        /// # Errors
        /// It panicked.
        pub fn join(self) -> std::thread::Result<T> {
            let result = self.inner.join();
            touch_thread(self.index, Access::Wait);
            result
        }
    }

    pub(super) fn spawn<T: Send + 'static>(
        index: usize,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        // The index was drawn in the step before, the checker's own number is in this one.
        touch_numbering();
        let inner = shuttle::thread::spawn(move || {
            touch_thread(index, Access::Wait);
            let result = f();
            touch_thread(index, Access::Wake);
            result
        });
        touch_numbering();
        touch_thread(index, Access::Wake);
        JoinHandle { inner, index }
    }
}

/// A small number of the calling thread: threads that live at the same time have different ones.
///
/// For spreading threads over slots, never for identity: a thread that is being torn down may see 0.
#[inline]
pub fn index() -> usize {
    world::index()
}

/// The identity of the calling thread. Not under a checker, whose threads are not the system's.
#[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
pub fn id() -> ThreadId {
    std::thread::current().id()
}

/// How many cores this process may use; at least 1. Counted at the first call: the answer takes system calls,
/// and a file system makes a lock for each file it opens. Under a checker: 2.
pub fn cores() -> usize {
    // Executions do not depend on the machine.
    if cfg!(any(spanlock_loom, spanlock_shuttle)) {
        return 2;
    }
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, NonZeroUsize::get))
}

/// Starts a thread.
pub fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    world::spawn(f)
}

/// Lets another thread run.
pub fn yield_now() {
    world::yield_now();
}
