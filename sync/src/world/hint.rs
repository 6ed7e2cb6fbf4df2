//! Spinning, as shipped.

#[cfg(not(spanlock_simulated))]
pub(crate) use core::hint::spin_loop as pause;
#[cfg(spanlock_simulated)]
pub(crate) use spanlock_cores::pause;

/// Whether a checker runs.
pub(crate) const IS_CHECKED: bool = false;

/// A bounded spin. Its [rounds](Backoff::round) first pause, 1, 2 and then 4 times each. Then they
/// yield the core, until a yield lets another thread run.
///
/// Pauses that grew further would miss most of the moments in which a contended lock is free.
///
/// A yield that returns at once shows that no other thread wants the core. So going on costs
/// nobody anything, and sixteen yields take about as long as falling asleep and waking up. A yield
/// that takes longer shows that the thread keeps others from the core, perhaps the holder. It
/// should sleep instead.
///
/// Under a checker there are no rounds. A thread that spins learns nothing there that a sleeping
/// thread does not learn, and a search with two spinning threads and a holder never ends. So in
/// models, a thread joins the queue after its first check.
#[derive(Debug, Default)]
pub struct Backoff {
    rounds: u32,
    /// Whether a yield has let another thread run.
    is_crowded: bool,
}

impl Backoff {
    /// The number of rounds that pause: 63 pauses in all, 1 to 3 µs on x86.
    const PAUSING: u32 = 17;

    /// The number of rounds that yield, at most. Without std, there is nothing to yield to.
    const YIELDING: u32 = if cfg!(feature = "std") { 16 } else { 0 };

    /// Returns a spin that has not begun.
    pub const fn new() -> Self {
        Backoff {
            rounds: 0,
            is_crowded: false,
        }
    }

    /// Pauses or yields for one round, and returns true. When no round is left, returns false at
    /// once.
    #[inline]
    pub fn round(&mut self) -> bool {
        if self.rounds == Self::PAUSING + Self::YIELDING || self.is_crowded {
            return false;
        }
        if self.rounds < Self::PAUSING {
            (0..1u32 << self.rounds.min(2)).for_each(|_| pause());
        } else {
            #[cfg(feature = "std")]
            {
                self.is_crowded = lets_another_run();
            }
        }
        self.rounds += 1;
        true
    }
}

/// Yields the core. Returns whether another thread ran meanwhile, judging by the time that it took.
/// Without a clock, returns true.
#[cfg(feature = "std")]
fn lets_another_run() -> bool {
    /// A yield to nobody takes a fraction of a microsecond, and rarely more than one; a yield to
    /// another thread takes two switches, and the time for which that thread runs.
    const SWITCHES: core::time::Duration = core::time::Duration::from_micros(3);
    let before = crate::time::now();
    crate::thread::yield_now();
    before.is_none_or(|before| crate::time::elapsed(before) > SWITCHES)
}
