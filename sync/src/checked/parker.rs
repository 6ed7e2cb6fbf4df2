//! A sleep that the checker schedules; no clock runs.

use std::time::Instant;

#[cfg_attr(spanlock_shuttle, path = "parker/shuttle.rs")]
#[cfg_attr(spanlock_explorer, path = "parker/explorer.rs")]
#[cfg_attr(spanlock_loom, path = "parker/loom.rs")]
mod inner;

pub(crate) use inner::{Inner, pair, try_park};

use crate::check;
use crate::{Parker, Wakeup};

/// Makes a fresh parker for each use, so that no wake is left over from an earlier use.
pub(crate) fn with<R>(f: impl FnOnce(&Parker) -> R) -> R {
    f(&Parker::new())
}

#[track_caller]
pub(crate) fn park(parker: &Inner, deadline: Option<Instant>) -> Wakeup {
    check::trace("Sleep");
    let wakeup = check::injected_wakeup(deadline.is_some()).unwrap_or_else(|| {
        inner::park(parker);
        Wakeup::Woken
    });
    check::trace("Awake");
    wakeup
}

/// Yields instead of a sleep of bounded time, because no clock runs.
#[track_caller]
pub(crate) fn park_briefly(parker: &Inner) {
    inner::try_park(parker);
    crate::thread::yield_now();
}

pub(crate) fn has_passed(_deadline: Instant) -> bool {
    false
}
