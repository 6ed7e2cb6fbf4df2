//! Spinning on a processor.

pub(crate) use core::hint::spin_loop as pause;

/// Whether a checker runs.
pub(crate) const IS_CHECKED: bool = false;

/// A bounded spin: each [`round`](Backoff::round) waits about twice as long as the one before.
///
/// Under a checker there are no rounds. A thread that spins learns nothing there that a sleeping
/// one does not, and a search with two spinning threads and a holder never ends. So in models a
/// thread joins the queue after its first check.
#[derive(Debug, Default)]
pub struct Backoff {
    rounds: u32,
}

impl Backoff {
    /// Rounds in all. The pauses double, so these are 2⁶ − 1 = 63 pauses: 1 to 3 µs on x86.
    const ROUNDS: u32 = 6;

    /// Returns a spin that has not begun.
    pub const fn new() -> Self {
        Backoff { rounds: 0 }
    }

    /// Pauses for a round. Returns false at once when the rounds are used up.
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
