//! How often, and how long, a waiter has been passed.

#[cfg(feature = "std")]
use std::time::{Duration, Instant};

use spanlock_range_lock::words::MAX_PASSES;
use spanlock_sync::hint::scaled;

/// How long after its first pass a waiter may still be passed.
#[cfg(feature = "std")]
const MAX_TIME: Duration = Duration::from_micros(500);

/// After how many passes the clock is read again: at least the number that is always possible.
const CLOCK_EVERY: u32 = 32;

/// Whether there is a clock. Under a checker, there is none: it would make executions differ.
const HAS_CLOCK: bool = cfg!(feature = "std") && scaled(1, 0) == 1;

/// The passes of one waiter since it began to wait.
///
/// A waiter can be passed [`MAX_PASSES`] times. If there is a clock, it can be passed more often
/// until half a millisecond after the first pass; a thread that has been woken usually runs by
/// then. The clock is read at the first pass, and then at every [`CLOCK_EVERY`]th. So up to
/// `CLOCK_EVERY` − 1 more arrivals may pass after the time is over.
#[derive(Default)]
pub(super) struct Passes {
    count: u32,
    /// When the first pass was charged.
    #[cfg(feature = "std")]
    first: Option<Instant>,
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
        if !HAS_CLOCK {
            self.is_over = self.count >= MAX_PASSES;
        } else if self.count == 1 || self.count % CLOCK_EVERY == 0 {
            self.read_clock();
        }
    }

    #[cfg(feature = "std")]
    fn read_clock(&mut self) {
        let Some(now) = spanlock_sync::time::now() else {
            // The target has no clock.
            self.is_over |= self.count >= MAX_PASSES;
            return;
        };
        let first = *self.first.get_or_insert(now);
        self.is_over |= now.duration_since(first) >= MAX_TIME;
    }

    #[cfg(not(feature = "std"))]
    fn read_clock(&mut self) {}
}
