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
//! compiler from reordering, and is an acquire fence (no instruction on x86). [`heavy`] makes the
//! system run a full barrier on every core that runs a thread of this process (Linux `membarrier`,
//! private expedited). That barrier interrupts a thread of the light side at some point:
//!
//! - If the interruption comes after the thread's store, the code after `heavy` sees that store.
//! - If the interruption comes before the thread's load, the load sees the stores before `heavy`.
//! - `light` keeps the store before the load, so at least one of the two cases applies.
//!
//! Both `light` and `heavy` are `fence(SeqCst)` where the system has no such call, without std,
//! under Miri, and under the explorer and loom. Under shuttle, both do nothing: shuttle treats
//! every ordering as SeqCst, so a barrier would only add steps to its search.
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
//! # When the system refuses
//! A process decides once how it issues these barriers: when it makes its first lock (or first uses
//! one that was made in a constant), or in [`use_fences`]. A later system call can still fail, for
//! lack of memory, or in a thread with a seccomp filter. Then `heavy` tries a few more times. Then
//! it returns false, and the other threads may not see what the caller stored:
//!
//! - A waiter may be overlooked, so it rechecks its word from time to time.
//! - A thread that frees memory cannot know who uses it, so it keeps the memory.
//!
//! A light side that has just changed its word by a read-modify-write does not depend on `heavy`:
//! see [`Flag::is_raised_after_rmw`].
//!
//! # Saturation
//! A flag that has been raised 2³⁰ times more often than it was lowered remains raised for ever. So
//! holds that are forgotten cannot lower a flag by overflow.
//!
//! Not reached by models: the fence of a process without `membarrier`, and saturation, which
//! `tests/facade/barrier.rs` and the unit tests cover.

use crate::atomic::{AtomicU32, Ordering, Ordering::*, fence};
use crate::const_if_shipped;
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
/// Returns false if the system refuses the barrier to the calling thread: on Linux, if `membarrier`
/// fails several times, although the process was registered for it. Then neither side may
/// see the store of the other.
#[track_caller]
#[must_use = "the system may refuse the barrier"]
pub fn heavy() -> bool {
    world::heavy()
}

/// Returns whether the system grants [`heavy`] barriers to the calling thread now. Not a barrier.
pub fn is_heavy_granted() -> bool {
    world::is_heavy_granted()
}

/// The barrier of the rare side, where the other side calls [`Flag::is_raised_after_rmw`]. A
/// `fence(SeqCst)`, which nothing can refuse.
#[inline]
#[track_caller]
pub fn full() {
    world::full();
}

/// Makes the barriers of this process fences, as on a system without `membarrier`. Returns whether
/// they are fences now.
///
/// Call it before the process makes or uses its first lock: after that, nothing changes, and the
/// function returns false. It is for processes whose threads install seccomp filters later that
/// refuse `membarrier`. Every lock works in such threads, too, but their waits may end a
/// millisecond late, and they cannot free memory.
pub fn use_fences() -> bool {
    world::use_fences()
}

/// Counts the threads on the heavy side, so that the light side can check for them. See the
/// [module](self).
#[derive(Debug)]
pub struct Flag(AtomicU32);

/// The bit of a flag that says that the light side has to fence.
const FENCES: u32 = 1 << 31;

/// The bit of a flag that is raised for ever. The count below it carries into this bit.
const STUCK: u32 = 1 << 30;

/// The count below [`STUCK`] in a flag that is raised for ever. `raise` and `lower` first change
/// this count, and then undo the change. `FAR` is so far from both ends of the count that even all
/// threads together, between these two steps, do not reach them.
const FAR: u32 = 1 << 29;

impl Default for Flag {
    /// Returns a flag that is not raised. Registers the process for
    /// `membarrier` (Linux), unless it is registered already.
    fn default() -> Self {
        let mut flag = Self::new();
        flag.register();
        flag
    }
}

impl Flag {
    const_if_shipped! {
        /// Returns a flag that is not raised, without registering the process. The light side does
        /// that when it first checks the flag, or the heavy side when it first raises it. Until
        /// then the light side fences: its own fences are always correct.
        pub fn new() -> Self {
            Flag(AtomicU32::new(if world::FLAGS_MAY_FENCE { FENCES } else { 0 }))
        }
    }

    /// Registers the process, and decides whether the light side of this flag fences.
    pub(crate) fn register(&mut self) {
        if world::FLAGS_MAY_FENCE && !world::flags_fence() {
            *self = Flag(AtomicU32::new(0));
        }
    }

    /// Lets the light side do without fences, if the heavy side has a barrier for both.
    ///
    /// A process decides once. So each `heavy` of this flag, before and after, is of that kind.
    #[cold]
    fn unfence(&self) {
        if !world::flags_fence() {
            // Relaxed: the bit decides only which barriers are used, and both kinds are correct.
            self.0.fetch_and(!FENCES, Relaxed);
        }
    }

    /// Raises the flag, once for each call. The caller issues [`heavy`] before it checks for the
    /// change.
    #[inline]
    pub fn raise(&self) {
        // Relaxed: the heavy barrier orders the increment before the check.
        let before = self.0.fetch_add(1, Relaxed);
        if world::FLAGS_MAY_FENCE && before & FENCES != 0 {
            self.unfence();
        }
        if before & !FENCES >= STUCK - 1 {
            self.stay_raised(before);
        }
    }

    /// Makes the flag stay raised for ever, after an increment.
    #[cold]
    fn stay_raised(&self, before: u32) {
        if before & STUCK == 0 {
            // Relaxed: the flag is raised before and after.
            self.0.fetch_max((before & FENCES) | STUCK | FAR, Relaxed);
        } else {
            // Relaxed: as above.
            self.0.fetch_sub(1, Relaxed);
        }
    }

    /// Undoes one [`raise`](Self::raise). Ordering: Release.
    #[inline]
    pub fn lower(&self) {
        // Release [L→M]: a thread that finds the flag lowered sees everything that was done while
        // the flag was raised.
        let before = self.0.fetch_sub(1, Release);
        if before & STUCK != 0 {
            // Relaxed: the flag stays raised for ever.
            self.0.fetch_add(1, Relaxed);
        }
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
            if world::may_register() {
                self.unfence();
            }
        }
        count != 0
    }

    /// Returns whether the flag is raised. For a light side that has just changed its word by a
    /// read-modify-write; the heavy side then needs only the barrier [`full`].
    ///
    /// On x86, a locked instruction is a full barrier, so this check is a single load. Elsewhere it
    /// issues a `fence(SeqCst)` first.
    ///
    /// `order` is the ordering of the load, as in [`is_raised`](Self::is_raised).
    #[inline]
    #[track_caller]
    pub fn is_raised_after_rmw(&self, order: Ordering) -> bool {
        world::after_rmw();
        self.0.load(order) & !FENCES != 0
    }

    /// Returns whether the flag is raised, without a barrier. The result is only a hint.
    #[inline]
    pub fn may_be_raised(&self) -> bool {
        // Relaxed: the result is only a hint.
        self.0.load(Relaxed) & !FENCES != 0
    }
}

#[cfg(all(test, not(any(spanlock_explorer, spanlock_loom, spanlock_shuttle))))]
mod tests {
    extern crate std;

    use super::*;

    /// Returns flags that are raised `count` times, without fences and with fences.
    fn raised(count: u32) -> [Flag; 2] {
        [count, count | FENCES].map(|count| Flag(AtomicU32::new(count)))
    }

    /// A flag that was made in a constant fences only until either side finds that it need not.
    #[test]
    fn a_constant_flag_ends_its_fences() {
        static RAISED: Flag = Flag::new();
        static CHECKED: Flag = Flag::new();
        let fences = |flag: &Flag| flag.0.load(Relaxed) & FENCES != 0;
        assert_eq!(
            [fences(&RAISED), fences(&CHECKED)],
            [world::FLAGS_MAY_FENCE; 2]
        );
        RAISED.raise();
        RAISED.lower();
        assert_eq!(fences(&RAISED), world::flags_fence());
        assert!(!CHECKED.is_raised(Acquire) && !CHECKED.is_raised_after_rmw(Acquire));
        assert_eq!(fences(&CHECKED), world::flags_fence());
        CHECKED.raise();
        assert!(CHECKED.is_raised(Acquire));
    }

    #[test]
    fn a_flag_counts_up_to_the_bound() {
        for flag in raised(STUCK - 2) {
            flag.raise();
            (0..STUCK - 1).step_by(1 << 20).for_each(|_| flag.lower());
            assert!(flag.is_raised(Acquire) && flag.0.load(Relaxed) & STUCK == 0);
        }
        for flag in raised(2) {
            flag.lower();
            assert!(flag.is_raised(Acquire) && flag.is_raised_after_rmw(Acquire));
            flag.lower();
            assert!(!flag.is_raised(Acquire) && !flag.is_raised_after_rmw(Acquire));
        }
    }

    #[test]
    fn a_flag_that_is_raised_too_often_stays_raised() {
        for flag in raised(STUCK - 3) {
            let fences = flag.0.load(Relaxed) & FENCES;
            for _ in 0..10 {
                flag.raise();
                assert!(flag.is_raised(Acquire) && flag.may_be_raised());
            }
            // On Linux, the first raise ends the fences.
            let fences = fences & flag.0.load(Relaxed);
            assert_eq!(flag.0.load(Relaxed), fences | STUCK | FAR);
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        for _ in 0..10_000 {
                            flag.lower();
                            assert!(flag.is_raised(Acquire) && flag.may_be_raised());
                            flag.raise();
                            flag.lower();
                        }
                    });
                }
            });
            assert_eq!(flag.0.load(Relaxed), fences | STUCK | FAR);
        }
    }
}
