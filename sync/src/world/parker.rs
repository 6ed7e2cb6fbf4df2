//! Sleeping in the operating system.

use core::task::Waker;
use core::time::Duration;
use std::time::Instant;

use crate::{Parker, Wakeup};

pub(crate) type Inner = parking::Parker;

/// How often a waiter yields its core before it sleeps: about ten microseconds if no other thread
/// takes the core.
///
/// Waking an idle core takes longer, above all on virtual machines. Where threads hand a lock over
/// in turn, one slow wake causes the next: the next waiter has fallen asleep by then. A thread that
/// yields keeps no runnable thread from its core.
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
        // The thread is being torn down and has lost its parker; a fresh one serves as well.
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
