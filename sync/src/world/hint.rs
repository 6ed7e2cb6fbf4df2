//! Spinning, as shipped.

pub(crate) use core::hint::spin_loop as pause;

/// Whether a checker runs.
pub(crate) const IS_CHECKED: bool = false;

/// A bounded spin. Its [rounds](Backoff::round) pause 1, 2 and then 4 times each; the last few
/// yield the core instead.
///
/// Pauses that grew further would miss most of the moments in which a contended lock is free. Each
/// yield lets a runnable thread go first, perhaps the holder.
///
/// Under a checker there are no rounds. A thread that spins learns nothing there that a sleeping
/// thread does not learn, and a search with two spinning threads and a holder never ends. So in
/// models, a thread joins the queue after its first check.
#[derive(Debug, Default)]
pub struct Backoff {
    rounds: u32,
}

impl Backoff {
    /// The number of rounds that pause: 63 pauses in all, 1 to 3 µs on x86.
    const PAUSING: u32 = 17;

    /// The number of rounds that yield. Without std, there is nothing to yield to.
    const YIELDING: u32 = if cfg!(feature = "std") { 4 } else { 0 };

    /// Returns a spin that has not begun.
    pub const fn new() -> Self {
        Backoff { rounds: 0 }
    }

    /// Pauses or yields for one round, and returns true. When no round is left, returns false at
    /// once.
    #[inline]
    pub fn round(&mut self) -> bool {
        if self.rounds == Self::PAUSING + Self::YIELDING {
            return false;
        }
        if self.rounds < Self::PAUSING {
            (0..1u32 << self.rounds.min(2)).for_each(|_| pause());
        } else {
            #[cfg(feature = "std")]
            std::thread::yield_now();
        }
        self.rounds += 1;
        true
    }
}
