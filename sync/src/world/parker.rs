//! Sleeping in the operating system.

use core::task::Waker;
use core::time::Duration;
use std::time::Instant;

use crate::{Parker, Wakeup};

pub(crate) type Inner = parking::Parker;

/// How many times a waiter yields its core before it sleeps. If no other thread takes the core, the
/// yields last about ten microseconds in all.
///
/// Waking an idle core takes longer than that, above all on virtual machines. When threads hand a
/// lock from one to the next, one slow wake causes another, because the next waiter has fallen
/// asleep by then. Yielding does not keep other runnable threads off the core.
const YIELDS: u32 = 16;

thread_local! {
    static CURRENT: Parker = Parker::new();
}

pub(crate) fn pair() -> (Inner, Waker) {
    let (parker, unparker) = parking::pair();
    (parker, unparker.into())
}

pub(crate) fn with<R>(f: impl FnOnce(&Parker) -> R) -> R {
    let mut f = Some(f);
    let call = |parker: &Parker| f.take().map(|f| f(parker));
    match CURRENT.try_with(call) {
        Ok(Some(result)) => result,
        // The thread is ending and its parker is already destroyed; a fresh parker serves as well.
        _ => f.take().expect("not called yet")(&Parker::new()),
    }
}

pub(crate) fn try_park(parker: &Inner) -> bool {
    // With a zero timeout, `parking` checks its flag and makes no system call.
    parker.park_timeout(Duration::ZERO)
}

pub(crate) fn park(parker: &Inner, deadline: Option<Instant>) -> Wakeup {
    for _ in 0..YIELDS {
        if try_park(parker) {
            return Wakeup::Woken;
        }
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return Wakeup::TimedOut;
        }
        std::thread::yield_now();
    }
    match deadline {
        None => parker.park(),
        Some(deadline) => {
            if !parker.park_deadline(deadline) {
                return Wakeup::TimedOut;
            }
        }
    }
    Wakeup::Woken
}

/// How long a thread sleeps that may be overlooked.
const BRIEFLY: Duration = Duration::from_millis(1);

pub(crate) fn park_briefly(parker: &Inner) {
    try_park(parker);
    park(parker, Some(Instant::now() + BRIEFLY));
}

pub(crate) fn has_passed(deadline: Instant) -> bool {
    deadline <= Instant::now()
}
