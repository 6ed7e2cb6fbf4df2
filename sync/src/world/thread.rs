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
    *CORES.get_or_init(|| {
        let mine = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        mine_or_more(mine)
    })
}

/// Returns the number of cores of the main thread, if it is bound to more cores than the calling
/// thread, and `mine` otherwise. A thread that is bound to one core may be the first to create a
/// lock, and others use the lock later.
#[cfg(all(target_os = "linux", not(miri)))]
fn mine_or_more(mine: usize) -> usize {
    let bound_to = |thread: libc::pid_t| {
        // SAFETY: a set of cores is plain data.
        let mut set: libc::cpu_set_t = unsafe { core::mem::zeroed() };
        // SAFETY: the set has this size. The call writes nothing else.
        let result = unsafe { libc::sched_getaffinity(thread, size_of_val(&set), &mut set) };
        // SAFETY: the function only reads the set.
        (result == 0).then(|| unsafe { libc::CPU_COUNT(&set) as usize })
    };
    // SAFETY: the function has no conditions.
    let main = unsafe { libc::getpid() };
    match (bound_to(0), bound_to(main)) {
        (Some(this), Some(main)) if main > this => main,
        _ => mine,
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn mine_or_more(mine: usize) -> usize {
    mine
}

/// Returns the identity of the calling thread.
pub fn id() -> ThreadId {
    std::thread::current().id()
}
