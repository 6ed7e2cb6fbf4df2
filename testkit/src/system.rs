//! What the system can do to a process: refuse `membarrier` to a thread, fork, and start threads
//! in the child.
//!
//! For Linux. Elsewhere, locks do not use `membarrier`.

use std::ffi::c_void;
use std::io::Error;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{null, null_mut};

/// Makes the system refuse `membarrier` to the calling thread from now on, and to threads that it
/// starts. Installs a seccomp filter, as a sandbox does.
///
/// # Panics
/// Panics if the system does not accept the filter.
pub fn refuse_membarrier() {
    install([
        // The number of the system call is the first field of `seccomp_data`.
        LOAD_FIELD,
        unless(libc::SYS_membarrier as u32, 1),
        RETURN.with(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        RETURN.with(libc::SECCOMP_RET_ALLOW),
    ]);
}

/// Makes the expedited form of `membarrier` fail for lack of memory, in the calling thread and in
/// threads that it starts.
///
/// # Panics
/// Panics if the system does not accept the filter.
pub fn lack_memory_for_membarrier() {
    let command = libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED as u32;
    install([
        LOAD_FIELD,
        unless(libc::SYS_membarrier as u32, 3),
        // The first argument.
        LOAD_FIELD.with(16),
        unless(command, 1),
        RETURN.with(libc::SECCOMP_RET_ERRNO | libc::ENOMEM as u32),
        RETURN.with(libc::SECCOMP_RET_ALLOW),
    ]);
}

/// A statement of a filter.
struct Statement(libc::sock_filter);

/// Loads the first field of `seccomp_data`, or the one at an offset.
const LOAD_FIELD: Statement = Statement::new(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS);

/// Ends the filter with a result.
const RETURN: Statement = Statement::new(libc::BPF_RET | libc::BPF_K);

/// Skips statements unless the loaded field has this value.
fn unless(value: u32, skip: u8) -> Statement {
    let compare = Statement::new(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K).with(value);
    Statement(libc::sock_filter {
        jf: skip,
        ..compare.0
    })
}

impl Statement {
    const fn new(code: u32) -> Self {
        Statement(libc::sock_filter {
            code: code as u16,
            jt: 0,
            jf: 0,
            k: 0,
        })
    }

    fn with(self, k: u32) -> Self {
        Statement(libc::sock_filter { k, ..self.0 })
    }
}

fn install<const N: usize>(filter: [Statement; N]) {
    let mut filter = filter.map(|statement| statement.0);
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

/// Runs `own` while `count` new threads run `f`, and returns when all have ended. The process
/// aborts if `f` panics.
///
/// For a child of a process with threads. There, `std::thread` may wait for ever: each thread that
/// `std` starts or ends locks a mutex of `std`, which a thread of the parent may have held when the
/// process forked.
///
/// # Panics
/// Panics if the system cannot start a thread, and if `own` does.
pub fn beside_threads<F: Fn() + Sync, R>(count: usize, f: F, own: impl FnOnce() -> R) -> R {
    /// Ends when the thread has.
    struct Thread(libc::pthread_t);

    impl Drop for Thread {
        fn drop(&mut self) {
            // SAFETY: nobody else joins or detaches the thread.
            assert_eq!(unsafe { libc::pthread_join(self.0, null_mut()) }, 0);
        }
    }

    extern "C" fn run<F: Fn()>(f: *mut c_void) -> *mut c_void {
        // SAFETY: `f` outlives the thread, and threads may share it.
        unsafe { (*f.cast::<F>())() };
        null_mut()
    }

    let start = |_| {
        let mut thread = MaybeUninit::uninit();
        // SAFETY: `run` gets the `F` that it expects. The thread is joined before `f` is dropped.
        let error = unsafe {
            let f = (&raw const f).cast_mut().cast();
            libc::pthread_create(thread.as_mut_ptr(), null(), run::<F>, f)
        };
        assert_eq!(error, 0, "no thread: {}", Error::from_raw_os_error(error));
        // SAFETY: initialized, as there was no error.
        Thread(unsafe { thread.assume_init() })
    };
    let _threads: Vec<_> = (0..count).map(start).collect();
    own()
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
