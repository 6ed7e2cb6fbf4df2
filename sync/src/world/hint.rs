//! Spinning, as shipped.

pub(crate) use core::hint::spin_loop as pause;

/// Whether a checker runs.
pub(crate) const IS_CHECKED: bool = false;

/// A bounded spin: each [`round`](Backoff::round) waits about twice as long as the one before.
///
/// Under a checker there are no rounds. A thread that spins learns nothing there that a sleeping
/// thread does not learn, and a search with two spinning threads and a holder never ends. So in
/// models, a thread joins the queue after its first check.
#[derive(Debug, Default)]
pub struct Backoff {
    rounds: u32,
}

impl Backoff {
    /// The number of rounds. Each round pauses twice as often as the one before, so there are 63
    /// pauses in all: 1 to 3 µs on x86.
    const ROUNDS: u32 = 6;

    /// Returns a spin that has not begun.
    pub const fn new() -> Self {
        Backoff { rounds: 0 }
    }

    /// Pauses for one round, and returns true. When no round is left, returns false without a
    /// pause.
    #[inline]
    pub fn round(&mut self) -> bool {
        if self.rounds == Self::ROUNDS {
            return false;
        }
        for _ in 0..1u32 << self.rounds {
            pause();
        }
        self.rounds += 1;
        true
    }
}
