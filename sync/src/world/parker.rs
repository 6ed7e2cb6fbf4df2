//! Sleeping in the operating system.

use core::cell::Cell;
use core::task::Waker;
use core::time::Duration;
use std::time::Instant;

use crate::{Parker, Wakeup, time};

pub(crate) type Inner = parking::Parker;

/// How often a waiter yields its core before it sleeps.
///
/// One yield lets a runnable thread go first, perhaps the holder. More would delay the sleep of a
/// thread whose turn is far away: while the head of a queue wakes up, arrivals may pass it, so a
/// slow wake does not stop the lock.
const YIELDS: u32 = 1;

/// The parker of a thread, and whether the thread is using it.
struct Current {
    parker: Parker,
    busy: Cell<bool>,
}

thread_local! {
    static CURRENT: Current = Current {
        parker: Parker::new(),
        busy: Cell::new(false),
    };
}

pub(crate) fn pair() -> (Inner, Waker) {
    let (parker, unparker) = parking::pair();
    (parker, unparker.into())
}

pub(crate) fn with<R>(f: impl FnOnce(&Parker) -> R) -> R {
    let mut f = Some(f);
    let call = |current: &Current| {
        if current.busy.replace(true) {
            return None;
        }
        let _idle = Idle(&current.busy);
        f.take().map(|f| f(&current.parker))
    };
    match CURRENT.try_with(call) {
        Ok(Some(result)) => result,
        // The thread is waiting already, and runs foreign code that waits as well (a waker that
        // locks something): it must not consume the wakes of the outer wait. Or the thread is
        // ending, and its parker is already destroyed. In both cases, a fresh parker serves as
        // well.
        _ => f.take().expect("not called yet")(&Parker::new()),
    }
}

/// Clears the flag when it is dropped, even if the wait panics.
struct Idle<'a>(&'a Cell<bool>);

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        self.0.set(false);
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
        if deadline.is_some_and(has_passed) {
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

/// How long a thread that may be overlooked sleeps at a time.
const BRIEFLY: Duration = Duration::from_millis(1);

pub(crate) fn park_briefly(parker: &Inner) {
    try_park(parker);
    park(parker, time::now().map(|now| now + BRIEFLY));
}

pub(crate) fn has_passed(deadline: Instant) -> bool {
    time::now().is_none_or(|now| deadline <= now)
}
