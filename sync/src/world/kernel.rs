//! What the facade asks of a kernel: fourteen functions with the C calling convention.
//!
//! | function | what it does |
//! |---|---|
//! | `spanlock_heavy_barrier` | a full barrier on every core |
//! | `spanlock_spin_lock`, `…_unlock` | lock a word of 4 bytes, 0 at first, with preemption off |
//! | `spanlock_sleep_lock`, `…_unlock` | lock such a word; the holder may sleep |
//! | `spanlock_task`, `…_get`, `…_put` | the calling task; references to a task |
//! | `spanlock_task_sleep`, `…_wake` | sleep while a word has a value; wake a task |
//! | `spanlock_rcu_enter`, `…_leave`, `…_synchronize` | read-copy-update whose readers may sleep |
//! | `spanlock_now` | a monotonic clock, in nanoseconds |
//!
//! `kernel/spanlock_shim.c` implements them for Linux. The crate that is linked into the kernel
//! defines the global allocator.
//!
//! Not reached by models: the torture in `kernel/` runs this code in a booted kernel.

use core::ffi::{c_int, c_void};
use core::sync::atomic::AtomicU32;

pub(crate) mod barrier;
pub(crate) mod mutex;
pub(crate) mod parker;

/// A task of the kernel.
pub(crate) type Task = *mut c_void;

mod c {
    use super::{AtomicU32, Task, c_int};

    unsafe extern "C" {
        pub(crate) safe fn spanlock_heavy_barrier();
        pub(crate) safe fn spanlock_spin_lock(word: &AtomicU32);
        pub(crate) safe fn spanlock_spin_unlock(word: &AtomicU32);
        pub(crate) safe fn spanlock_sleep_lock(word: &AtomicU32);
        pub(crate) safe fn spanlock_sleep_unlock(word: &AtomicU32);
        pub(crate) safe fn spanlock_task() -> Task;
        pub(crate) fn spanlock_task_get(task: Task);
        pub(crate) fn spanlock_task_put(task: Task);
        pub(crate) fn spanlock_task_wake(task: Task);
        pub(crate) safe fn spanlock_task_sleep(word: &AtomicU32, value: u32, how: c_int) -> c_int;
        pub(crate) safe fn spanlock_rcu_enter() -> c_int;
        pub(crate) fn spanlock_rcu_leave(index: c_int);
        pub(crate) safe fn spanlock_rcu_synchronize();
        pub(crate) safe fn spanlock_now() -> u64;
        #[cfg(spanlock_kernel_bugs)]
        pub(crate) fn spanlock_is_bug(name: *const u8, len: usize) -> bool;
    }
}

pub(crate) use c::{
    spanlock_heavy_barrier as heavy_barrier, spanlock_now as now, spanlock_rcu_enter as rcu_enter,
    spanlock_rcu_leave as rcu_leave, spanlock_rcu_synchronize as rcu_synchronize,
    spanlock_sleep_lock as sleep_lock, spanlock_sleep_unlock as sleep_unlock,
    spanlock_spin_lock as spin_lock, spanlock_spin_unlock as spin_unlock, spanlock_task as task,
    spanlock_task_get as task_get, spanlock_task_put as task_put,
    spanlock_task_sleep as task_sleep, spanlock_task_wake as task_wake,
};

/// Returns whether the kernel injects the bug of this name.
#[cfg(spanlock_kernel_bugs)]
pub fn is_injected(name: &str) -> bool {
    // SAFETY: the function reads `len` bytes.
    unsafe { c::spanlock_is_bug(name.as_ptr(), name.len()) }
}
