//! The number of cores, in a process of its own: the first call decides.

#![cfg(all(
    target_os = "linux",
    feature = "std",
    not(any(
        spanlock_explorer,
        spanlock_loom,
        spanlock_shuttle,
        spanlock_simulated,
        miri
    ))
))]

use std::mem::zeroed;

use spanlock_sync::thread;

/// As in a program whose workers are bound to cores, and create the locks.
#[test]
fn a_bound_thread_counts_the_cores_of_the_process() {
    // SAFETY: a set of cores is plain data, and the calls access nothing else.
    let all = unsafe {
        let mut all: libc::cpu_set_t = zeroed();
        let size = size_of_val(&all);
        assert_eq!(libc::sched_getaffinity(libc::getpid(), size, &mut all), 0);
        let first = (0..libc::CPU_SETSIZE as usize).find(|&core| libc::CPU_ISSET(core, &all));
        let mut one: libc::cpu_set_t = zeroed();
        libc::CPU_SET(first.expect("the process may use a core"), &mut one);
        assert_eq!(libc::sched_setaffinity(0, size, &one), 0);
        libc::CPU_COUNT(&all) as usize
    };
    let of_thread = std::thread::available_parallelism().unwrap();
    assert_eq!(of_thread.get(), 1, "std counts the cores of the thread");
    assert_eq!(thread::cores(), all);
}
