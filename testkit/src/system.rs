//! What the system can do to a process: refuse `membarrier` to a thread, and fork.
//!
//! For Linux. Elsewhere, locks do not use `membarrier`.

use std::io::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Makes the system refuse `membarrier` to the calling thread from now on, and to threads that it
/// starts. Installs a seccomp filter, as a sandbox does.
///
/// # Panics
/// Panics if the system does not accept the filter.
pub fn refuse_membarrier() {
    let statement = |code: u32, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    };
    let is_membarrier = libc::sock_filter {
        jf: 1,
        ..statement(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            libc::SYS_membarrier as u32,
        )
    };
    let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
    let mut filter = [
        // The number of the system call is the first field of `seccomp_data`.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        is_membarrier,
        statement(libc::BPF_RET | libc::BPF_K, refused),
        statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: filter.len() as u16,
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: both calls read only their arguments and the filter, which outlives them.
    let result = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            | libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program)
    };
    assert_eq!(result, 0, "no seccomp filter: {}", Error::last_os_error());
}

/// Forks, and returns whether `f` returned true in the child. A child that panics or takes more
/// than ten seconds counts as false.
///
/// # Panics
/// Panics if the system cannot fork.
pub fn in_child(f: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child runs `f` and ends. It does not return to the caller.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "no child: {}", Error::last_os_error());
    if child == 0 {
        // SAFETY: `alarm` has no preconditions. Its signal ends the child.
        unsafe { libc::alarm(10) };
        let right = catch_unwind(AssertUnwindSafe(f)).unwrap_or(false);
        // SAFETY: ends the process without running code that belongs to the parent.
        unsafe { libc::_exit(i32::from(!right)) }
    }
    let mut status = 0;
    // SAFETY: waits for the child, and writes only the status.
    let waited = unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(waited, child, "no status: {}", Error::last_os_error());
    status == 0
}
