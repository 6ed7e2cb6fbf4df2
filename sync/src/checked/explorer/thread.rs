//! Threads of the explorer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use spanlock_explorer::Thread;

pub(crate) use spanlock_explorer::{current_thread as index, spin as yield_now};

/// The result of a thread, from its end until another thread joins it.
struct Outcome<T>(Mutex<Option<std::thread::Result<T>>>);

impl<T> Outcome<T> {
    fn get(&self) -> MutexGuard<'_, Option<std::thread::Result<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Drop for Outcome<T> {
    fn drop(&mut self) {
        if matches!(*self.get(), Some(Err(_))) {
            spanlock_explorer::fail("a thread panicked, and no thread joined it");
        }
    }
}

/// The explorer's [`std::thread::JoinHandle`].
pub struct JoinHandle<T> {
    thread: Thread,
    outcome: Arc<Outcome<T>>,
}

impl<T> JoinHandle<T> {
    /// Waits until the thread has ended.
    ///
    /// # Errors
    /// The thread panicked.
    #[track_caller]
    pub fn join(self) -> std::thread::Result<T> {
        self.thread.join();
        let outcome = self.outcome.get().take();
        outcome.expect("a thread that has ended has an outcome")
    }
}

impl<T> core::fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "JoinHandle({})", self.thread.index())
    }
}

#[track_caller]
pub(crate) fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    crate::check::next_thread_index();
    let outcome = Arc::new(Outcome(Mutex::new(None)));
    let its = outcome.clone();
    let thread = spanlock_explorer::spawn(move || {
        let result = catch_unwind(AssertUnwindSafe(f));
        *its.get() = Some(result);
    });
    JoinHandle { thread, outcome }
}
