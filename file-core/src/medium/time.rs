//! Times, as the volume stores them: nanoseconds since 1970.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns the current time in nanoseconds since 1970.
pub(crate) type Clock = fn() -> u64;

/// The system's coarse clock, as file systems use it: a reading is up to a tick of the kernel old,
/// at most ten milliseconds, and takes a few nanoseconds instead of several tens.
#[cfg(target_os = "linux")]
pub(crate) fn system_clock() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    let since = Duration::try_from(now).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// The system's clock, or 0 if the target has none.
#[cfg(not(target_os = "linux"))]
pub(crate) fn system_clock() -> u64 {
    spanlock_sync::time::of_day().map_or(0, nanoseconds)
}

/// Returns the time in nanoseconds since 1970. Times before that count as 0, and times past the
/// year 2554 as the last one.
pub(crate) fn nanoseconds(time: SystemTime) -> u64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
        Err(_) => 0,
    }
}

/// Returns the time that lies so many nanoseconds after the start of 1970, or the start if the
/// system cannot represent it.
pub(crate) fn time_of(nanoseconds: u64) -> SystemTime {
    let since = Duration::from_nanos(nanoseconds);
    UNIX_EPOCH.checked_add(since).unwrap_or(UNIX_EPOCH)
}
