//! `membarrier` on Linux, fences elsewhere.

#[cfg(all(target_os = "linux", feature = "std", not(miri)))]
pub(crate) use membarrier::{
    FLAGS_MAY_FENCE, before_flag, flags_fence, heavy, light, may_register, use_fences,
};

#[cfg(not(all(target_os = "linux", feature = "std", not(miri))))]
pub(crate) use fences::{
    FLAGS_MAY_FENCE, before_flag, flags_fence, heavy, light, may_register, use_fences,
};

use core::sync::atomic::{Ordering::SeqCst, compiler_fence, fence};

pub(crate) fn is_heavy_granted() -> bool {
    heavy()
}

/// A fence where a locked instruction is not one already.
#[inline]
pub(crate) fn after_rmw() {
    if cfg!(all(
        any(target_arch = "x86_64", target_arch = "x86"),
        not(miri)
    )) {
        compiler_fence(SeqCst);
    } else {
        fence(SeqCst);
    }
}

#[inline]
pub(crate) fn full() {
    fence(SeqCst);
}

#[cfg(not(all(target_os = "linux", feature = "std", not(miri))))]
mod fences {
    use core::sync::atomic::{Ordering::SeqCst, fence};

    pub(crate) const FLAGS_MAY_FENCE: bool = true;

    pub(crate) fn flags_fence() -> bool {
        true
    }

    #[inline]
    pub(crate) fn may_register() -> bool {
        false
    }

    #[inline]
    pub(crate) fn before_flag() {}

    #[inline]
    pub(crate) fn light() {
        fence(SeqCst);
    }

    pub(crate) fn heavy() -> bool {
        fence(SeqCst);
        true
    }

    pub(crate) fn use_fences() -> bool {
        true
    }
}

#[cfg(all(target_os = "linux", feature = "std", not(miri)))]
mod membarrier {
    use core::sync::atomic::{AtomicU8, Ordering::*, compiler_fence, fence};

    /// The process has not tried to register yet.
    const UNKNOWN: u8 = 0;
    /// The process is registered for `membarrier`.
    const REGISTERED: u8 = 1;
    /// There is no `membarrier`, or the process does not want it: both sides fence.
    const ABSENT: u8 = 2;

    static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);

    pub(crate) const FLAGS_MAY_FENCE: bool = true;

    /// Returns whether the process is registered, or may still be.
    #[inline]
    pub(crate) fn may_register() -> bool {
        // Relaxed: as in `register`.
        STATE.load(Relaxed) != ABSENT
    }

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
        // Relaxed: the state decides only which barriers are used, and both kinds are correct.
        let known = STATE.load(Relaxed);
        if known != UNKNOWN {
            return known;
        }
        let registered = membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
        decide(if registered { REGISTERED } else { ABSENT })
    }

    /// Changes the state from `UNKNOWN`, once. Returns the state.
    fn decide(state: u8) -> u8 {
        // Relaxed, both: as in `register`.
        match STATE.compare_exchange(UNKNOWN, state, Relaxed, Relaxed) {
            Ok(_) => state,
            Err(known) => known,
        }
    }

    pub(crate) fn use_fences() -> bool {
        decide(ABSENT) == ABSENT
    }

    /// Makes the system call, and returns whether it succeeded.
    fn membarrier(command: libc::c_int) -> bool {
        let (flags, cpu): (libc::c_uint, libc::c_int) = (0, 0);
        // SAFETY: the call takes three integers and touches no memory of the process.
        unsafe { libc::syscall(libc::SYS_membarrier, command, flags, cpu) == 0 }
    }

    #[cold]
    pub(crate) fn heavy() -> bool {
        // A full barrier for the calling thread itself.
        fence(SeqCst);
        register() != REGISTERED || membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) || retry()
    }

    /// How often the call is made again. It fails for lack of memory, which may be short for a
    /// moment only.
    const RETRIES: u32 = 3;

    #[cold]
    fn retry() -> bool {
        for _ in 0..RETRIES {
            std::thread::yield_now();
            // Register again, in case the system has lost the first registration.
            if membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
                && membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
            {
                return true;
            }
        }
        // Takes milliseconds, but no memory. It is a barrier for every thread of the system.
        membarrier(libc::MEMBARRIER_CMD_GLOBAL)
    }
}
