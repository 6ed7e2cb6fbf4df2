//! Spinning before sleeping.

/// A bounded spin: each [`round`](Backoff::round) waits about twice as long as the one before.
///
/// Under a checker there are no rounds. A spinning thread learns nothing there that a sleeping one does
/// not, and two spinners and a holder never end: so the models go straight from the first look to the
/// queue. (Listed as a place where the door differs between worlds.)
#[derive(Debug, Default)]
pub struct Backoff {
    #[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
    rounds: u32,
}

impl Backoff {
    /// Rounds in all; the pauses double, so this is 2⁶ − 1 = 63 pauses: some 1 to 3 µs on x86.
    #[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
    const ROUNDS: u32 = 6;

    /// A spin that has not begun.
    pub const fn new() -> Self {
        Backoff {
            #[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
            rounds: 0,
        }
    }

    /// Pauses for a round; false, at once, when the rounds are used up.
    #[inline]
    pub fn round(&mut self) -> bool {
        #[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
        {
            if self.rounds == Self::ROUNDS {
                return false;
            }
            for _ in 0..1u32 << self.rounds {
                core::hint::spin_loop();
            }
            self.rounds += 1;
            true
        }
        #[cfg(any(spanlock_loom, spanlock_shuttle))]
        {
            false
        }
    }
}

/// A pause in a loop that looks for what another thread is about to do: the processor's hint as shipped, a yield
/// under a checker, which knows by it that this thread has nothing to do.
#[inline]
pub fn pause() {
    #[cfg(not(any(spanlock_loom, spanlock_shuttle)))]
    core::hint::spin_loop();
    #[cfg(any(spanlock_loom, spanlock_shuttle))]
    crate::thread::yield_now();
}

/// `normal` as shipped, `checked` under a checker.
///
/// For bounds whose size does not matter to an algorithm but multiplies its executions: how many times a
/// waiter may be overtaken, how many slots a table has. Never for an ordering or a step.
#[inline]
pub const fn scaled(normal: u32, checked: u32) -> u32 {
    if cfg!(any(spanlock_loom, spanlock_shuttle)) {
        checked
    } else {
        normal
    }
}
