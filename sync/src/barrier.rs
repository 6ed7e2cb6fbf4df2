//! A pair of barriers that between them order store→load on both sides, and cost one side nothing.
//!
//! # The problem
//! Two threads each store to one word and load the other's, and at least one must see the other's store. `fence(SeqCst)`
//! on both sides does it, for some 20 cycles on each. Where one side runs millions of times as often as
//! the other, that side should not pay.
//!
//! # How
//! [`light`] only keeps the compiler from reordering. [`heavy`] makes the system run a full barrier on every core that
//! runs a thread of this process (Linux `membarrier`, private expedited), so that it is as if each `light` were a full barrier
//! wherever that matters:
//!
//! - a thread whose store comes before its barrier in the interruption has that store seen by what follows `heavy`;
//! - a thread whose load comes after it sees what precedes `heavy`;
//! - and `light` keeps the store before the load, so one of the two is the case.
//!
//! Where the system has no such call, without std, under Miri, and under loom, both are `fence(SeqCst)`. Under shuttle they are nothing: it takes every
//! ordering for SeqCst as it is, and steps that change nothing would only multiply its search.

//!
//! # Flags
//! Mostly what the light side looks at is a count of those on the heavy side: a [`Flag`]. It knows whether the light side has to fence, so that this
//! side is one load and nothing else.
//!
//! | | light side | | heavy side |
//! |---|---|---|---|
//! | 1 | changes something | 1 | [raises](Flag::raise) the flag |
//! | 2 | (in `is_raised`) light barrier | 2 | [`heavy`] |
//! | 3 | looks whether the flag [is raised](Flag::is_raised) | 3 | looks for the change |
//!
//! | letter | where | ordering | pairs with | needed by the model |
//! |---|---|---|---|---|
//! | L | the read-modify-write that lowers the flag | Release | M | `srl-gate/try-leaves-no-trace` |
//! | M | the look at the flag | Acquire | L | `srl-gate/try-leaves-no-trace` |

use crate::atomic::{AtomicU32, Ordering, Ordering::*, fence};

#[cfg(spanlock_shuttle)]
mod world {
    pub(super) fn flags_fence() -> bool {
        false
    }

    pub(super) fn before_flag() {}

    pub(super) fn light() {}

    pub(super) fn heavy() {}
}

#[cfg(any(
    all(
        any(miri, not(all(target_os = "linux", feature = "std"))),
        not(spanlock_shuttle)
    ),
    spanlock_loom
))]
mod world {
    use crate::atomic::{Ordering, fence};

    pub(super) fn flags_fence() -> bool {
        // Under a checker the fence is there whatever the flag says: a site that a mutation can drop.
        !cfg!(spanlock_loom)
    }

    #[inline]
    #[track_caller]
    pub(super) fn before_flag() {
        #[cfg(spanlock_loom)]
        light();
    }

    #[inline]
    #[track_caller]
    pub(super) fn light() {
        fence(Ordering::SeqCst);
    }

    #[track_caller]
    pub(super) fn heavy() {
        fence(Ordering::SeqCst);
    }
}

#[cfg(all(
    target_os = "linux",
    feature = "std",
    not(miri),
    not(spanlock_loom),
    not(spanlock_shuttle)
))]
mod world {
    use core::sync::atomic::{AtomicU8, Ordering::*, compiler_fence, fence};

    use rustix::thread::{MembarrierCommand, membarrier};

    /// Nobody has asked the system yet.
    const UNKNOWN: u8 = 0;
    /// This process is registered for `membarrier`.
    const REGISTERED: u8 = 1;
    /// There is no `membarrier`: both sides fence.
    const ABSENT: u8 = 2;

    static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);

    #[inline]
    pub(super) fn light() {
        // Relaxed: it changes once, from UNKNOWN; who still sees that fences, which is always right, if slow.
        if STATE.load(Relaxed) == REGISTERED {
            compiler_fence(SeqCst);
        } else {
            // No call to register: what would have to survive it would be saved before each lock is taken.
            fence(SeqCst);
        }
    }

    pub(super) fn flags_fence() -> bool {
        register() != REGISTERED
    }

    #[inline]
    pub(super) fn before_flag() {
        compiler_fence(SeqCst);
    }

    fn register() -> u8 {
        // Relaxed: registering twice does no harm, and both come to the same state.
        let known = STATE.load(Relaxed);
        if known != UNKNOWN {
            return known;
        }
        let state = match membarrier(MembarrierCommand::RegisterPrivateExpedited) {
            Ok(()) => REGISTERED,
            Err(_) => ABSENT,
        };
        STATE.store(state, Relaxed);
        state
    }

    #[cold]
    pub(super) fn heavy() {
        // Its own side first.
        fence(SeqCst);
        if register() == REGISTERED && membarrier(MembarrierCommand::PrivateExpedited).is_err() {
            // A registered process is refused only where a filter of system calls came after the registration.
            // The light sides do not fence any more, so nothing that follows could be believed.
            panic!(
                "membarrier was allowed when this process began to use locks, and is refused now"
            );
        }
    }
}

/// The side that runs often. Between its store and its load.
#[inline]
#[track_caller]
pub fn light() {
    world::light();
}

/// The side that runs rarely. Between its store and its load; takes about a microsecond.
///
/// # Panics
/// On Linux, if `membarrier` is refused after it had been granted (a seccomp filter installed meanwhile).
#[track_caller]
pub fn heavy() {
    world::heavy();
}

/// How many there are on the heavy side, for the light side to see. (See the [module](self).)
#[derive(Debug)]
pub struct Flag(AtomicU32);

/// In a flag whose light side has to fence.
const FENCES: u32 = 1 << 31;

impl Default for Flag {
    /// A flag that nobody has raised. Asks the system for its barrier, once a process.
    fn default() -> Self {
        Flag(AtomicU32::new(if world::flags_fence() {
            FENCES
        } else {
            0
        }))
    }
}

impl Flag {
    /// Raises it for one more. [`heavy`] has to follow before the look.
    #[inline]
    pub fn raise(&self) {
        // Relaxed: the heavy barrier orders it.
        self.0.fetch_add(1, Relaxed);
    }

    /// Lowers it for one who had raised it. Ordering: Release.
    #[inline]
    pub fn lower(&self) {
        // Release [L→M]: what was done while it was raised is seen by whoever finds it lowered.
        self.0.fetch_sub(1, Release);
    }

    /// A light barrier, then whether anybody has raised it. Ordering: as `order` says, Acquire [M→L] for who relies on what was done while it was raised.
    #[inline]
    #[track_caller]
    pub fn is_raised(&self, order: Ordering) -> bool {
        world::before_flag();
        let mut count = self.0.load(order);
        if count & FENCES != 0 {
            fence(SeqCst);
            count = self.0.load(order) & !FENCES;
        }
        count != 0
    }

    /// Whether somebody has raised it, without the barrier: for who need not know for sure.
    #[inline]
    pub fn may_be_raised(&self) -> bool {
        // Relaxed: a hint.
        self.0.load(Relaxed) & !FENCES != 0
    }
}
