//! `membarrier` on Linux, fences elsewhere.

#[cfg(all(target_os = "linux", feature = "std", not(miri)))]
pub(crate) use membarrier::{before_flag, flags_fence, heavy, light};

#[cfg(not(all(target_os = "linux", feature = "std", not(miri))))]
pub(crate) use fences::{before_flag, flags_fence, heavy, light};

#[cfg(not(all(target_os = "linux", feature = "std", not(miri))))]
mod fences {
    use core::sync::atomic::{Ordering::SeqCst, fence};

    pub(crate) fn flags_fence() -> bool {
        true
    }

    #[inline]
    pub(crate) fn before_flag() {}

    #[inline]
    pub(crate) fn light() {
        fence(SeqCst);
    }

    pub(crate) fn heavy() {
        fence(SeqCst);
    }
}

#[cfg(all(target_os = "linux", feature = "std", not(miri)))]
mod membarrier {
    use core::sync::atomic::{AtomicU8, Ordering::*, compiler_fence, fence};

    /// The process has not tried to register yet.
    const UNKNOWN: u8 = 0;
    /// The process is registered for `membarrier`.
    const REGISTERED: u8 = 1;
    /// There is no `membarrier`: both sides fence.
    const ABSENT: u8 = 2;

    static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);

    #[inline]
    pub(crate) fn light() {
        // Relaxed: the state changes once, from UNKNOWN. A thread that still reads UNKNOWN fences,
        // which is always correct, but slower.
        if STATE.load(Relaxed) == REGISTERED {
            before_flag();
        } else {
            // Do not call `register` here: each caller would have to save CPU registers around the
            // call.
            fence(SeqCst);
        }
    }

    pub(crate) fn flags_fence() -> bool {
        register() != REGISTERED
    }

    #[inline]
    pub(crate) fn before_flag() {
        // Acquire: the caller sees what happened before the store that its last read-modify-write
        // read (Q-I2 of `wait`). No instruction on x86.
        fence(Acquire);
        compiler_fence(SeqCst);
    }

    fn register() -> u8 {
        // Relaxed: registration is idempotent, so a race only repeats it.
        let known = STATE.load(Relaxed);
        if known != UNKNOWN {
            return known;
        }
        let state = if membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) {
            REGISTERED
        } else {
            ABSENT
        };
        // Relaxed: as above.
        STATE.store(state, Relaxed);
        state
    }

    /// Makes the system call, and returns whether it succeeded.
    fn membarrier(command: libc::c_int) -> bool {
        let (flags, cpu): (libc::c_uint, libc::c_int) = (0, 0);
        // SAFETY: the call takes three integers and touches no memory of the process.
        unsafe { libc::syscall(libc::SYS_membarrier, command, flags, cpu) == 0 }
    }

    #[cold]
    pub(crate) fn heavy() {
        // A full barrier for the calling thread itself.
        fence(SeqCst);
        if register() == REGISTERED && !membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) {
            // The light sides no longer fence, so every lock of this process would be unsound.
            panic!(
                "membarrier failed after it had been registered; was a seccomp filter installed \
                 meanwhile? Install it before the first lock is made, or let it allow membarrier"
            );
        }
    }
}
