//! std's threads.

use core::num::NonZeroUsize;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::OnceLock;

pub use std::thread::{JoinHandle, ThreadId};
pub(crate) use std::thread::{spawn, yield_now};

static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    // Relaxed: only the number's uniqueness matters, and a read-modify-write gives that.
    static INDEX: usize = NEXT.fetch_add(1, Relaxed);
}

pub(crate) fn index() -> usize {
    // A thread that is ending may have lost its thread locals. Any number is correct; use 0.
    INDEX.try_with(|index| *index).unwrap_or(0)
}

pub(crate) fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, NonZeroUsize::get))
}

/// Returns the identity of the calling thread.
pub fn id() -> ThreadId {
    std::thread::current().id()
}
