//! The cores, in place of threads.

pub use std::thread::JoinHandle;

pub(crate) use spanlock_cores::{core as index, cores, yield_now};

/// The identity of a thread: that of its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ThreadId(usize);

/// Returns the identity of the calling thread.
pub fn id() -> ThreadId {
    ThreadId(index())
}

pub(crate) fn spawn<T: Send + 'static>(_f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    panic!("simulated cores have one thread each, and start no others")
}
