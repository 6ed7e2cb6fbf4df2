//! The clock, where there is one.

use std::time::{Duration, Instant};

/// Returns the present moment, or `None` if the target has no clock.
///
/// On `wasm32-unknown-unknown`, std's clock panics. What has a limit in time is then limited by its
/// other limit, as without std: overtaking by a number of arrivals, spinning by a number of rounds.
/// A request with a deadline is a try, because no thread could release the range meanwhile.
#[inline]
pub fn now() -> Option<Instant> {
    if cfg!(all(target_family = "wasm", target_os = "unknown")) {
        None
    } else {
        Some(clock())
    }
}

/// Returns the time since a moment that [`now`] returned.
#[inline]
pub fn elapsed(since: Instant) -> Duration {
    clock().saturating_duration_since(since)
}

#[inline]
fn clock() -> Instant {
    #[cfg(not(spanlock_simulated))]
    return Instant::now();
    #[cfg(spanlock_simulated)]
    spanlock_cores::instant()
}

/// Whether a checker runs this code. Then nothing may depend on the time.
pub const IS_CHECKED: bool = cfg!(any(spanlock_explorer, spanlock_loom, spanlock_shuttle));
