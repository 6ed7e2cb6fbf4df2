//! How often, and how long, a waiter has been passed.

#[cfg(feature = "std")]
use std::time::{Duration, Instant};

use spanlock_range_lock::words::MAX_PASSES;
use spanlock_sync::hint::scaled;

/// How long a waiter may still be passed after its last free pass.
#[cfg(feature = "std")]
const MAX_TIME: Duration = Duration::from_micros(500);

/// After how many passes the clock is read again.
const CLOCK_EVERY: u32 = 32;

/// Whether there is a clock. Under a checker, there is none: it would make executions differ.
const HAS_CLOCK: bool = cfg!(feature = "std") && scaled(1, 0) == 1;

/// The passes of one waiter since it began to wait.
///
/// A waiter can be passed [`MAX_PASSES`] times. If there is a clock, it can then be passed for
/// another half a millisecond, in which a thread that has been woken usually runs. The clock is
/// read once in a while.
#[derive(Default)]
pub(super) struct Passes {
    count: u32,
    /// When the last free pass was charged.
    #[cfg(feature = "std")]
    spent: Option<Instant>,
    is_over: bool,
}

impl Passes {
    /// Returns whether the waiter must not be passed again.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Counts a pass.
    pub(super) fn charge(&mut self) {
        self.count += 1;
        if self.count < MAX_PASSES || self.is_over {
            return;
        }
        if !HAS_CLOCK {
            self.is_over = true;
        } else if self.count.is_multiple_of(CLOCK_EVERY) {
            self.read_clock();
        }
    }

    #[cfg(feature = "std")]
    fn read_clock(&mut self) {
        let now = Instant::now();
        let spent = *self.spent.get_or_insert(now);
        self.is_over = now.duration_since(spent) >= MAX_TIME;
    }

    #[cfg(not(feature = "std"))]
    fn read_clock(&mut self) {}
}
