//! Deadlines: a thread polls a future whenever it wakes.
//!
//! Not reached by models: the [nap](NAP), which `testkit/tests/refused_barriers.rs` tests.

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll};
use std::time::{Duration, Instant};

use spanlock_sync::hint::{Backoff, scaled};
use spanlock_sync::{Park, Parker, Wakeup, time};

use crate::error::TimedLockError;

/// A future that may be overlooked wakes itself at each poll, because it cannot sleep for a bounded
/// time. After this many polls that do so in a row, the thread sleeps for it.
const EAGER: u32 = 8;

/// For how long the thread then sleeps at most.
const NAP: Duration = Duration::from_millis(1);

/// When a request gives up: after a time, or at a moment.
#[derive(Clone, Copy)]
pub(crate) enum Limit {
    For(Duration),
    Until(Instant),
}

impl Limit {
    /// Returns the deadline; `None` for a timeout too long for the clock, which never ends.
    ///
    /// # Errors
    /// The deadline has passed, or there is no clock: the request is a try.
    pub(super) fn deadline(self) -> Result<Option<Instant>, TimedLockError> {
        let now = time::now().ok_or(TimedLockError::TimedOut)?;
        let deadline = match self {
            Limit::For(timeout) => now.checked_add(timeout),
            Limit::Until(deadline) => Some(deadline),
        };
        match deadline {
            Some(deadline) if deadline <= now => Err(TimedLockError::TimedOut),
            deadline => Ok(deadline),
        }
    }
}

/// Polls until the future is ready, and sleeps in between. Returns `None` once `deadline` has
/// passed.
pub(super) fn block_on<F: Future>(future: F, deadline: Option<Instant>) -> Option<F::Output> {
    let mut future = pin!(future);
    Parker::with(|parker| {
        let mut context = Context::from_waker(parker.waker());
        let mut spin = Backoff::new();
        let mut wakeup = Wakeup::Woken;
        let mut eager = 0;
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return Some(output);
            }
            if wakeup == Wakeup::TimedOut {
                return None;
            }
            // Under a checker, this would add steps to the search.
            let is_eager = scaled(1, 0) == 1 && parker.try_park();
            eager = if is_eager { eager + 1 } else { 0 };
            wakeup = match eager {
                0 => sleep(parker, &mut spin, deadline),
                1..EAGER => Wakeup::Woken,
                EAGER.. => nap(parker, &mut eager),
            };
            // The nap may outlast the deadline, and an eager future never sleeps until then.
            if deadline.is_some_and(Parker::has_passed) {
                wakeup = Wakeup::TimedOut;
            }
        }
    })
}

/// Sleeps for a while, although the future has woken itself.
#[cold]
fn nap(parker: &Parker, eager: &mut u32) -> Wakeup {
    *eager = EAGER;
    parker.park_until(time::now().map(|now| now + NAP));
    Wakeup::Woken
}

/// Spins for as long as `spin` has rounds left, then sleeps.
fn sleep(parker: &Parker, spin: &mut Backoff, deadline: Option<Instant>) -> Wakeup {
    while spin.round() {
        if parker.try_park() {
            return Wakeup::Woken;
        }
    }
    parker.park_until(deadline)
}
