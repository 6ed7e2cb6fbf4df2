//! Asymmetric barriers: both order a store before a later load, but only the rare side bears the
//! cost.
//!
//! # The problem
//! Each of two threads stores to its own word and then loads the other thread's word. At least one
//! of them must see the other's store. A `fence(SeqCst)` on each side ensures that, and costs each
//! side about 20 cycles. If one side runs millions of times as often as the other, the frequent
//! side should not pay.
//!
//! # How it works
//! [`light`] fences until the process is registered for `membarrier`. After that, it only keeps the
//! compiler from reordering, and is an acquire fence (no instruction on x86). [`heavy`] makes the system run a full barrier on every core that runs
//! a thread of this process (Linux `membarrier`, private expedited). That barrier interrupts a
//! thread of the light side at some point:
//!
//! - If the interruption comes after the thread's store, the code after `heavy` sees that store.
//! - If the interruption comes before the thread's load, the load sees the stores before `heavy`.
//! - `light` keeps the store before the load, so at least one of the two cases applies.
//!
//! Both `light` and `heavy` are `fence(SeqCst)` where the system has no such call, without std,
//! under Miri, and under loom. Under shuttle, both do nothing: shuttle treats every ordering as
//! SeqCst, so a barrier would only add steps to its search.
//!
//! # Flags
//! Usually the light side checks whether any thread is on the heavy side. A [`Flag`] counts those
//! threads. It also records whether the light side has to fence. With `membarrier` the light side
//! need not fence, so its check is a single load.
//!
//! | | light side | | heavy side |
//! |---|---|---|---|
//! | 1 | changes something | 1 | [raises](Flag::raise) the flag |
//! | 2 | (in `is_raised`) light barrier | 2 | [`heavy`] |
//! | 3 | checks whether the flag [is raised](Flag::is_raised) | 3 | checks for the change |
//!
//! | letter | where | ordering | pairs with | needed by the model |
//! |---|---|---|---|---|
//! | L | the decrement that lowers the flag | Release | M | `srl-gate/try-leaves-no-trace` |
//! | M | the load of the flag | Acquire | L | `srl-gate/try-leaves-no-trace` |
//!
//! Not reached by models: the fence of a process without `membarrier`, which `tests/barrier.rs`
//! covers.

use crate::atomic::{AtomicU32, Ordering, Ordering::*, fence};
use crate::world::barrier as world;

/// The barrier of the side that runs often. That side calls it between its store and its load.
#[inline]
#[track_caller]
pub fn light() {
    world::light();
}

/// The barrier of the side that runs rarely. That side calls it between its store and its load.
/// Takes about a microsecond.
///
/// # Panics
/// On Linux, if `membarrier` fails after the process was registered for it (a seccomp filter was
/// installed meanwhile).
#[track_caller]
pub fn heavy() {
    world::heavy();
}

/// Counts the threads on the heavy side, so that the light side can check for them. See the
/// [module](self).
#[derive(Debug)]
pub struct Flag(AtomicU32);

/// The bit of a flag that says that the light side has to fence.
const FENCES: u32 = 1 << 31;

impl Default for Flag {
    /// Returns a flag that is not raised. Registers the process for
    /// `membarrier` (Linux), unless it is registered already.
    fn default() -> Self {
        let fences = if world::flags_fence() { FENCES } else { 0 };
        Flag(AtomicU32::new(fences))
    }
}

impl Flag {
    /// Raises the flag, once for each call. The caller issues [`heavy`] before it checks for the
    /// change.
    #[inline]
    pub fn raise(&self) {
        // Relaxed: the heavy barrier orders the increment before the check.
        self.0.fetch_add(1, Relaxed);
    }

    /// Undoes one [`raise`](Self::raise). Ordering: Release.
    #[inline]
    pub fn lower(&self) {
        // Release [L→M]: a thread that finds the flag lowered sees everything that was done while
        // the flag was raised.
        self.0.fetch_sub(1, Release);
    }

    /// Issues a light barrier, then returns whether the flag is raised.
    ///
    /// `order` is the ordering of the load. A caller that relies on what was done while the flag
    /// was raised passes Acquire [M→L].
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

    /// Returns whether the flag is raised, without a barrier. The result is only a hint.
    #[inline]
    pub fn may_be_raised(&self) -> bool {
        // Relaxed: the result is only a hint.
        self.0.load(Relaxed) & !FENCES != 0
    }
}
