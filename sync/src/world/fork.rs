//! What happens when the process forks.
//!
//! The child has only the thread that forked. So that no other thread has locked the table of
//! waiters or the registry of threads at that moment, the thread that forks locks both first.

use super::{rcu, wait};

/// The system calls this function when it loads the program or the library, usually before there
/// are threads.
///
/// It must not be later. If threads called `pthread_atfork` when they first need it, a fork could
/// be under way: glibc then does not call the new functions for this fork, and musl calls only
/// those for after it. And functions that the program has registered before would run while the
/// table is locked, so they could not use locks.
#[used]
#[unsafe(link_section = ".init_array")]
static REGISTER: extern "C" fn() = register;

/// Lets the system call the functions below at each fork. If it has no memory for that, a child
/// must use neither locks for which other threads wait nor trees.
extern "C" fn register() {
    // SAFETY: the functions may be called at any fork. They stay for ever.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
}

/// Locks the table and the registry, so that no other thread has locked them when the process
/// forks. All threads that fork do so in the same order. Other threads hold one of these locks at a
/// time.
unsafe extern "C" fn before() {
    wait::fork::lock();
    rcu::fork::lock();
}

unsafe extern "C" fn in_parent() {
    rcu::fork::unlock();
    wait::fork::unlock();
}

/// It neither allocates nor frees memory, because other threads may have been doing so when the
/// process forked.
unsafe extern "C" fn in_child() {
    rcu::fork::unlock_in_child();
    wait::fork::unlock_in_child();
}
